"""Images as stores keep them: 28×28 bytes, ink bright (255) on black.

Images of another size or in colour are refused, unless their conversion is asked for. The rule of conversion: colours become
grey (0.299 red + 0.587 green + 0.114 blue), an alpha channel is laid over the background (black, or white where ink is dark),
the longer side is scaled to 28 pixels by the mean over each new pixel's area, and the shorter side is centred on background.
"""

from __future__ import annotations

from typing import Literal

import numpy as np
from numpy.typing import NDArray

from tacit.data.store import IMAGE_SHAPE
from tacit.errors import DataError

Ink = Literal["bright", "dark"]

_SIDE = IMAGE_SHAPE[0]
_GREY = np.array([0.299, 0.587, 0.114])
# A stated limit, since an image is converted in memory.
_MOST_SIDE = 4096
CONVERSION = (
    "28×28 grey: luminance of colours, mean over areas, the longer side to 28 pixels, centred on the background"
)


def to_bytes(images: NDArray, where: str, *, ink: Ink) -> NDArray[np.uint8]:
    """Images of shape (n, 28, 28) or (n, 784), with values 0 to 255 (integers) or 0 to 1 (floats), as bytes.

    `ink` says which end of the scale the file writes with: Federated EMNIST has dark ink (0) on white (1).
    """
    if not is_plain(images):
        raise DataError(
            f"{where}: the images are {size_of(images)}; expected 28×28.",
            hint="--convert-images turns images of an .npz file into 28×28 grey ones.",
        )
    shaped = images.reshape(-1, *IMAGE_SHAPE)
    if np.issubdtype(shaped.dtype, np.integer):
        _check_range(shaped, 255, where)
        scaled = shaped.astype(np.uint8)
    elif np.issubdtype(shaped.dtype, np.floating):
        _check_range(shaped, 1, where)
        scaled = np.rint(shaped * 255).astype(np.uint8)
    else:
        raise DataError(f"{where}: the pixels are of type {shaped.dtype}; expected integers or floats.")
    return np.uint8(255) - scaled if ink == "dark" else scaled


def is_plain(images: NDArray) -> bool:
    """Whether the images are 28×28 and grey, so that nothing needs to be converted."""
    return images.ndim >= 2 and images.shape[1:] in (IMAGE_SHAPE, (_SIDE * _SIDE,), (*IMAGE_SHAPE, 1))


def converted(images: NDArray, where: str, *, ink: Ink) -> NDArray[np.uint8]:
    """Images of any size, (n, height, width) or with 1, 3 or 4 channels last or 1 or 3 first, by the rule at the top."""
    if is_plain(images):
        return to_bytes(images, where, ink=ink)
    if images.ndim == 4 and images.shape[1] in (1, 3) and images.shape[3] not in (1, 3, 4):
        images = np.moveaxis(images, 1, 3)
    colours = images.shape[3] if images.ndim == 4 else 1
    if images.ndim not in (3, 4) or colours not in (1, 3, 4) or not all(images.shape[1:3]):
        raise DataError(
            f"{where}: the images are {size_of(images)}; expected height × width, alone or with 1, 3 or 4 channels."
        )
    height, width = images.shape[1:3]
    if max(height, width) > _MOST_SIDE:
        raise DataError(f"{where}: the images are {size_of(images)}; expected at most {_MOST_SIDE} pixels a side.")
    if images.dtype.kind not in "iuf":
        raise DataError(f"{where}: the pixels are of type {images.dtype}; expected integers or floats.")
    top = 255 if images.dtype.kind in "iu" else 1
    _check_range(images, top, where)
    grey = _grey(images.reshape(len(images), height, width, colours).astype(np.float64) * (255 / top), ink)
    amount = 255 - grey if ink == "dark" else grey  # of ink, so that 0 is the background
    scale = _SIDE / max(height, width)
    inner = max(1, round(height * scale)), max(1, round(width * scale))
    small = _areas(height, inner[0]) @ amount @ _areas(width, inner[1]).T
    top_edge, left_edge = ((_SIDE - side) // 2 for side in inner)
    out = np.zeros((len(images), *IMAGE_SHAPE), np.uint8)
    out[:, top_edge : top_edge + inner[0], left_edge : left_edge + inner[1]] = np.rint(small).astype(np.uint8)
    return out


def to_labels(labels: NDArray, images: int, where: str) -> NDArray[np.int32]:
    """The classes of so many images."""
    if labels.shape != (images,):
        raise DataError(
            f"{where}: there are {images} images and {size_of(labels)} labels; expected one label an image."
        )
    if not np.issubdtype(labels.dtype, np.integer) or (labels.size and not 0 <= labels.min() <= labels.max() < 2**31):
        raise DataError(f"{where}: a label is not a whole number of at least 0.")
    return labels.astype(np.int32)


def _grey(images: NDArray[np.float64], ink: Ink) -> NDArray[np.float64]:
    """[n, height, width, channels] to [n, height, width], both from 0 to 255."""
    if images.shape[3] == 1:
        return images[..., 0]
    grey: NDArray[np.float64] = images[..., :3] @ _GREY
    if images.shape[3] == 4:
        alpha = images[..., 3] / 255
        grey = grey * alpha + (255.0 if ink == "dark" else 0.0) * (1 - alpha)
    return grey


def _areas(before: int, after: int) -> NDArray[np.float64]:
    """[after, before]: which share of each new pixel each old pixel covers. Every row sums to 1."""
    edges = np.arange(after + 1) * (before / after)
    low = np.maximum(edges[:-1, None], np.arange(before))
    high = np.minimum(edges[1:, None], np.arange(1, before + 1))
    return np.maximum(high - low, 0.0) * (after / before)


def _check_range(images: NDArray, top: int, where: str) -> None:
    if images.size and not np.all((images >= 0) & (images <= top)):
        raise DataError(
            f"{where}: a pixel is outside 0 to {top}.",
            hint="Pixels are integers from 0 to 255 or floats from 0 to 1.",
        )


def size_of(array: NDArray) -> str:
    """The size of each image of an array, as messages show it: "32×32×3"."""
    return "×".join(str(side) for side in (array.shape[1:] if array.ndim > 1 else array.shape))
