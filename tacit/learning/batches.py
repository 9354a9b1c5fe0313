"""Users' examples cut into batches for local work: rows of text, images, or by a batching of your own.

The guarantee needs each user's batches to depend on that user's examples alone. `TextBatches` and `ImageBatches` are Tacit's
own and keep users apart. Any other batching is called through `OneUserAtATime`.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol, get_args

import jax
import numpy as np
from numpy.typing import NDArray

from tacit.data.rows import Layout, pack, to_rows
from tacit.data.store import IMAGE_SHAPE
from tacit.data.users import Examples
from tacit.errors import DataError

# Users are padded to at least so many batches, or to the cap where it is lower: the usual caps give one shape to all chunks.
LEAST_STEPS = 64


@dataclass(frozen=True)
class LaidOut:
    """Users' examples, ready to be cut: each user's rows and predictions; `batches(users)` is [users, steps, rows, ...].

    `first(users, steps)` is the same with at most so many steps, for a batching that can leave padding out.
    """

    sizes: NDArray[np.int64]
    predictions: NDArray[np.int64]
    batches: Callable[[NDArray[np.int64]], Any]
    first: Callable[[NDArray[np.int64], int], Any] | None = None

    def needed(self, batch_size: int) -> NDArray[np.int64]:
        """To how many batches each user is padded: the next power of two, so that few shapes are compiled, and at least
        `LEAST_STEPS`. It depends on the user alone. All zero for a batching that cannot leave padding out."""
        if self.first is None:
            return np.zeros(len(self.sizes), np.int64)
        own = -(-self.sizes // batch_size)
        bits = np.frexp(np.maximum(own - 1, 0).astype(np.float64))[1]
        return np.maximum(LEAST_STEPS, np.left_shift(np.int64(1), bits.astype(np.int64)))

    def as_needed(self, users: NDArray[np.int64], batch_size: int) -> Any:
        """The batches of these users, padded to what their largest needs and not to the cap."""
        if self.first is None:
            return self.batches(users)
        return self.first(users, int(self.needed(batch_size)[users].max(initial=LEAST_STEPS)))


class Batching(Protocol):
    """How users' examples become batches.

    The batches of all users have the same shapes: a user with few examples is padded, and a user without examples gets only
    padding. A batch of padding must ask for no prediction.
    """

    @property
    def batch_size(self) -> int:
        """Rows per batch."""
        ...

    def lay_out(self, examples: Examples) -> LaidOut:
        """The examples of several users."""
        ...


@dataclass(frozen=True)
class TextBatches:
    """Batches of text: row layout and length, rows per batch, and at most `steps` batches per user.

    >>> import numpy as np, tacit
    >>> people = tacit.users({"ann": [[7, 8, 9]], "bob": [[4], [5]]})
    >>> shape = tacit.TextBatches("sentences", length=4, batch_size=2, steps=1)
    >>> laid_out = shape.lay_out(people.gather(np.arange(2)))
    >>> laid_out.batches(np.array([1]))[0, 0]
    array([[1, 4, 2, 0, 0],
           [1, 5, 2, 0, 0]], dtype=int32)
    >>> laid_out.predictions
    array([4, 4])
    """

    layout: Layout
    length: int
    batch_size: int
    steps: int

    def __post_init__(self) -> None:
        if self.layout not in get_args(Layout):
            raise DataError(f"Expected layout to be 'windows' or 'sentences', got {self.layout!r}.")

    def lay_out(self, examples: Examples) -> LaidOut:
        """Rows of tokens [users, steps, rows, length + 1]."""
        rows = to_rows(examples, layout=self.layout, length=self.length, max_rows=self.steps * self.batch_size)

        def first(users: NDArray[np.int64], steps: int) -> NDArray[np.int32]:
            return pack(rows, users, batch_size=self.batch_size, steps=min(steps, self.steps))

        return LaidOut(rows.sizes(), rows.predictions(), lambda users: first(users, self.steps), first)


@dataclass(frozen=True)
class ImageBatches:
    """Batches of images: `batch_size` images per batch, and at most `steps` batches per user.

    >>> import numpy as np, tacit
    >>> people = tacit.users({"ann": (np.zeros((3, 28, 28), np.uint8), [0, 1, 1])})
    >>> batches = tacit.ImageBatches(batch_size=2, steps=2).lay_out(people.gather(np.array([0]))).batches(np.array([0]))
    >>> batches["images"].shape, batches["mask"].tolist()
    ((1, 2, 2, 28, 28), [[[1.0, 1.0], [1.0, 0.0]]])
    """

    batch_size: int
    steps: int

    def lay_out(self, examples: Examples) -> LaidOut:
        """What `image_batches` gives; an image is a row, and asks for one prediction."""
        _require_images(examples)
        sizes = np.minimum(np.diff(examples.user_offsets), self.batch_size * self.steps)

        def first(users: NDArray[np.int64], steps: int) -> dict[str, NDArray[np.generic]]:
            return image_batches(examples, users, batch_size=self.batch_size, steps=min(steps, self.steps))

        return LaidOut(sizes, sizes, lambda users: first(users, self.steps), first)


def image_batches(
    examples: Examples, users: NDArray[np.int64] | None = None, *, batch_size: int, steps: int
) -> dict[str, NDArray[np.generic]]:
    """The first images of these users, or of all, as `steps` batches: ``images`` uint8 [users, steps, batch_size, 28, 28],
    ``labels`` int32 and ``mask`` float32 [users, steps, batch_size]; the mask is 0 where there is no image.

    The last batch of a user may be short, and a user with few images has empty ones (Debugging, footnote 8).
    """
    labelled = _require_images(examples)
    begin, end = examples.user_offsets[:-1], examples.user_offsets[1:]
    if users is not None:
        begin, end = begin[users], end[users]
    slots = batch_size * steps
    index = begin[:, None] + np.arange(slots)
    inside = index < end[:, None]
    images = np.zeros((*inside.shape, *IMAGE_SHAPE), np.uint8)
    labels = np.zeros(inside.shape, np.int32)
    images[inside] = examples.items[index[inside]]
    labels[inside] = labelled[index[inside]]
    shape = (len(inside), steps, batch_size)
    return {
        "images": images.reshape(*shape, *IMAGE_SHAPE),
        "labels": labels.reshape(shape),
        "mask": inside.astype(np.float32).reshape(shape),
    }


def _require_images(examples: Examples) -> NDArray[np.int32]:
    """The labels of the images; DataError for anything else."""
    if examples.labels is None or examples.items.shape[1:] != IMAGE_SHAPE:
        got = "text" if examples.labels is None else "×".join(map(str, examples.items.shape[1:]))
        raise DataError(f"Expected users with images of {IMAGE_SHAPE[0]}×{IMAGE_SHAPE[1]}, got {got}.")
    return examples.labels


class OneUserAtATime:
    """Any batching, called for one user after the other, so that no user's batches depend on another user's examples.

    What it enforces:

    - Each call sees a copy of one user's examples and nothing else.
    - Each call is made on a fresh deep copy of the batching as it was given, so what a call writes into the object is gone in
      the next call.
    - Batches have the shapes and types that a user without examples gets. DataError for a user whose batches differ.
    - Every user counts as having all of their steps, so how long local work runs does not depend on other users either.

    What it cannot enforce is that the batching keeps nothing from one user to the next outside of the object: in a variable of
    its module or class, in a file, or in a random generator that calls share. A guarantee states this as an assumption, with
    the batching's `name`.
    """

    def __init__(self, batching: Batching) -> None:
        self.name = f"{type(batching).__module__}:{type(batching).__qualname__}"
        self.batch_size = int(batching.batch_size)
        if self.batch_size < 1:
            raise DataError(f"Expected a batching with at least one row a batch, got batch_size = {self.batch_size}.")
        try:
            self._as_given = copy.deepcopy(batching)
        except Exception as error:
            raise DataError(
                f"The batching {self.name} cannot be copied, and every user needs a copy: {error}."
            ) from error

    def lay_out(self, examples: Examples) -> LaidOut:
        """The batches of each user, stacked."""
        expected, _ = self._of_one(_nobody(examples))
        users = len(examples.user_offsets) - 1
        found = [self._of_one(_only(examples, user)) for user in range(users)]
        if any(_described(batches) != _described(expected) for batches, _ in found):
            raise DataError(
                f"The batching {self.name} gave a user batches of other shapes or types than a user without examples has.",
                hint="Pad every user to the same number of batches.",
            )
        steps = jax.tree.leaves(expected)[0].shape[1]
        stacked = jax.tree.map(
            lambda first, *rest: np.concatenate([first[:0], *rest]), expected, *[b for b, _ in found]
        )
        return LaidOut(
            sizes=np.full(users, steps * self.batch_size, np.int64),
            predictions=np.array([predictions for _, predictions in found], np.int64),
            batches=lambda chosen: jax.tree.map(lambda leaf: leaf[chosen], stacked),
        )

    def _of_one(self, examples: Examples) -> tuple[Any, int]:
        """The batches of one user and how many predictions they ask for, checked."""
        laid_out = copy.deepcopy(self._as_given).lay_out(examples)
        batches = jax.tree.map(lambda leaf: np.array(leaf), laid_out.batches(np.zeros(1, np.int64)))
        leaves, predictions = jax.tree.leaves(batches), np.asarray(laid_out.predictions)
        if not leaves or any(leaf.ndim < 2 or leaf.shape[:2] != (1, leaves[0].shape[1]) for leaf in leaves):
            raise DataError(
                f"The batching {self.name} gave one user no arrays [1, steps, ...] with the same number of steps in each."
            )
        if predictions.shape != (1,) or predictions.dtype.kind not in "iu" or predictions[0] < 0:
            raise DataError(
                f"The batching {self.name} did not say how many predictions the batches of one user ask for."
            )
        return batches, int(predictions[0])


def user_by_user(batching: Batching) -> Batching:
    """The batching itself if it is Tacit's own, which keeps users apart, or `OneUserAtATime` around it."""
    return batching if keeps_users_apart(batching) else OneUserAtATime(batching)


def keeps_users_apart(batching: Batching) -> bool:
    """Whether a user's batches are known to depend on that user alone: Tacit's own batchings, and any through the wrapper.

    A subclass, or an instance that hides a method of its class, is not known to.
    """
    own = type(batching) in (TextBatches, ImageBatches, OneUserAtATime)
    return own and vars(batching).keys().isdisjoint(dir(type(batching)))


def foreign_name(batching: Batching) -> str | None:
    """The name of a batching that is not Tacit's own, for the ledger and the statement; None for Tacit's own."""
    found = user_by_user(batching)
    return found.name if isinstance(found, OneUserAtATime) else None


def _only(examples: Examples, user: int) -> Examples:
    """A copy of one user's examples: a slice would give access to the whole array."""
    first, last = examples.user_offsets[user : user + 2].tolist()
    offsets = examples.example_offsets[first : last + 1]
    return Examples(
        examples.items[offsets[0] : offsets[-1]].copy(),
        offsets - offsets[0],
        np.array([0, last - first], np.int64),
        None if examples.labels is None else examples.labels[first:last].copy(),
    )


def _nobody(examples: Examples) -> Examples:
    """A user without examples, of the same kind."""
    labels = None if examples.labels is None else examples.labels[:0].copy()
    return Examples(examples.items[:0].copy(), np.zeros(1, np.int64), np.zeros(2, np.int64), labels)


def _described(batches: Any) -> tuple[Any, list[tuple[tuple[int, ...], np.dtype]]]:
    leaves, structure = jax.tree.flatten(batches)
    return structure, [(leaf.shape, leaf.dtype) for leaf in leaves]
