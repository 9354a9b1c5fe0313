"""Users' images cut into batches, the shape in which work on one user reads them."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from tacit.data.store import IMAGE_SHAPE
from tacit.data.users import Examples
from tacit.errors import DataError

ImageBatches = dict[str, NDArray[np.generic]]


def image_batches(examples: Examples, *, batch_size: int, steps: int) -> ImageBatches:
    """The first images of each user as `steps` batches: ``images`` uint8 [users, steps, batch_size, 28, 28], ``labels`` int32
    and ``mask`` float32 [users, steps, batch_size]; the mask is 0 where there is no image.

    The last batch of a user may be short, and a user with few images has empty ones (Debugging, footnote 8).
    """
    if examples.labels is None or examples.items.shape[1:] != IMAGE_SHAPE:
        got = "text" if examples.labels is None else "×".join(map(str, examples.items.shape[1:]))
        raise DataError(f"Expected users with images of {IMAGE_SHAPE[0]}×{IMAGE_SHAPE[1]}, got {got}.")
    slots = batch_size * steps
    index = examples.user_offsets[:-1, None] + np.arange(slots)
    inside = index < examples.user_offsets[1:, None]
    images = np.zeros((*inside.shape, *IMAGE_SHAPE), np.uint8)
    labels = np.zeros(inside.shape, np.int32)
    images[inside] = examples.items[index[inside]]
    labels[inside] = examples.labels[index[inside]]
    shape = (len(inside), steps, batch_size)
    return {
        "images": images.reshape(*shape, *IMAGE_SHAPE),
        "labels": labels.reshape(shape),
        "mask": inside.astype(np.float32).reshape(shape),
    }
