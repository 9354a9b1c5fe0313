"""Images as stores keep them: 28×28 bytes, ink bright (255) on black."""

from __future__ import annotations

from typing import Literal

import numpy as np
from numpy.typing import NDArray

from tacit.data.store import IMAGE_SHAPE
from tacit.errors import DataError

Ink = Literal["bright", "dark"]


def to_bytes(images: NDArray, where: str, *, ink: Ink) -> NDArray[np.uint8]:
    """Images of shape (n, 28, 28) or (n, 784), with values 0 to 255 (integers) or 0 to 1 (floats), as bytes.

    `ink` says which end of the scale the file writes with: Federated EMNIST has dark ink (0) on white (1).
    """
    pixels = IMAGE_SHAPE[0] * IMAGE_SHAPE[1]
    if images.ndim < 2 or (images.shape[1:] not in (IMAGE_SHAPE, (pixels,), (*IMAGE_SHAPE, 1))):
        raise DataError(f"{where}: the images are {_size(images)}; expected 28×28.")
    shaped = images.reshape(-1, *IMAGE_SHAPE)
    if np.issubdtype(shaped.dtype, np.integer):
        if shaped.size and (shaped.min() < 0 or shaped.max() > 255):
            raise DataError(f"{where}: a pixel is outside 0 to 255.")
        scaled = shaped.astype(np.uint8)
    elif np.issubdtype(shaped.dtype, np.floating):
        if not np.all((shaped >= 0) & (shaped <= 1)):
            raise DataError(f"{where}: a pixel is outside 0 to 1.")
        scaled = np.rint(shaped * 255).astype(np.uint8)
    else:
        raise DataError(f"{where}: the pixels are of type {shaped.dtype}; expected integers or floats.")
    return np.uint8(255) - scaled if ink == "dark" else scaled


def to_labels(labels: NDArray, images: int, where: str) -> NDArray[np.int32]:
    """The classes of so many images."""
    if labels.shape != (images,):
        raise DataError(f"{where}: there are {images} images and {_size(labels)} labels; expected one label an image.")
    if not np.issubdtype(labels.dtype, np.integer) or (labels.size and not 0 <= labels.min() <= labels.max() < 2**31):
        raise DataError(f"{where}: a label is not a whole number of at least 0.")
    return labels.astype(np.int32)


def _size(array: NDArray) -> str:
    return "×".join(str(side) for side in (array.shape[1:] if array.ndim > 1 else array.shape))
