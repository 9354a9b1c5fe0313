"""Users' examples cut into batches, the shape in which work on one user reads them: rows of text, or images."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from tacit.data.rows import Layout, pack, to_rows
from tacit.data.store import IMAGE_SHAPE
from tacit.data.users import Examples
from tacit.errors import DataError


@dataclass(frozen=True)
class LaidOut:
    """Users' examples, ready to be cut: each user's rows and predictions; `batches` of some users [users, steps, rows, ...]."""

    sizes: NDArray[np.int64]
    predictions: NDArray[np.int64]
    batches: Callable[[NDArray[np.int64]], Any]


class Batching(Protocol):
    """How users' examples become batches."""

    @property
    def batch_size(self) -> int:
        """Rows a batch."""
        ...

    def lay_out(self, examples: Examples) -> LaidOut:
        """The examples of several users."""
        ...


@dataclass(frozen=True)
class TextBatches:
    """Batches of text: row layout and length, rows a batch, at most so many batches a user."""

    layout: Layout
    length: int
    batch_size: int
    steps: int

    def lay_out(self, examples: Examples) -> LaidOut:
        """Rows of tokens [users, steps, rows, length + 1]."""
        rows = to_rows(examples, layout=self.layout, length=self.length, max_rows=self.steps * self.batch_size)
        cut = partial(pack, rows, batch_size=self.batch_size, steps=self.steps)
        return LaidOut(rows.sizes(), rows.predictions(), cut)


@dataclass(frozen=True)
class ImageBatches:
    """Batches of images: so many a batch, at most so many batches a user."""

    batch_size: int
    steps: int

    def lay_out(self, examples: Examples) -> LaidOut:
        """What `image_batches` gives; an image is a row, and asks for one prediction."""
        batches = image_batches(examples, batch_size=self.batch_size, steps=self.steps)
        sizes = np.minimum(np.diff(examples.user_offsets), self.batch_size * self.steps)
        return LaidOut(sizes, sizes, lambda users: {name: leaf[users] for name, leaf in batches.items()})


def image_batches(examples: Examples, *, batch_size: int, steps: int) -> dict[str, NDArray[np.generic]]:
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
