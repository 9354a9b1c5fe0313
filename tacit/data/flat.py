"""Users whose examples lie back to back in flat arrays, whether these are in memory or mapped from a file."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from tacit.data.ragged import offsets_of, take_slices
from tacit.data.users import Examples, Names, all_names, is_held_out
from tacit.errors import StoreError

PSEUDONYM_BYTES = 16


class FlatUsers:
    """`Users` over flat arrays, each held out or not by their own name.

    `pseudonyms` [users, 16] are the users' names as bytes. Text has `example_offsets`, images have `labels`. `where` is how
    messages call the place where the arrays came from.
    """

    def __init__(
        self,
        *,
        items: NDArray[np.generic],
        example_offsets: NDArray[np.int64] | None,
        user_offsets: NDArray[np.int64],
        labels: NDArray[np.int32] | None,
        pseudonyms: NDArray[np.uint8],
        held_out: float,
        where: str,
    ) -> None:
        self.held_out = held_out
        self._items = items
        self._example_offsets = example_offsets
        self._user_offsets = user_offsets
        self._labels = labels
        self._pseudonyms = pseudonyms
        self._where = where

    def __len__(self) -> int:
        """How many users there are."""
        return len(self._user_offsets) - 1

    def gather(self, users: NDArray[np.int64]) -> Examples:
        """The examples of these users."""
        first, last, user_offsets = self._spans(users)
        if self._labels is not None:
            count = np.arange(user_offsets[-1] + 1, dtype=np.int64)
            labels = take_slices(self._labels, first, last).astype(np.int32, copy=False)
            return Examples(take_slices(self._items, first, last), count, user_offsets, labels)
        return self._gather_ragged(self._items, self._example_offsets, first, last, user_offsets)

    def pick(self, owners: NDArray[np.int64], positions: NDArray[np.int64]) -> Examples:
        """Single examples: number `positions[i]` of user `owners[i]`, each as if it were a user of its own."""
        examples = self._user_offsets[owners] + positions
        singles = np.arange(len(examples) + 1, dtype=np.int64)
        if self._labels is not None:
            labels = self._labels[examples].astype(np.int32, copy=False)
            return Examples(self._items[examples], singles, singles, labels)
        return self._gather_ragged(self._items, self._example_offsets, examples, examples + 1, singles)

    def example_counts(self) -> NDArray[np.int64]:
        """How many examples each user has."""
        return np.diff(self._user_offsets)

    def token_counts(self, users: NDArray[np.int64] | None = None) -> NDArray[np.int64]:
        """How many items (words or images) each user has, or each of these."""
        if users is None:
            ends = self._user_offsets
            return np.diff(ends if self._example_offsets is None else self._example_offsets[ends])
        first, last = self._user_offsets[users], self._user_offsets[users + 1]
        if self._example_offsets is None:
            return last - first
        return self._example_offsets[last] - self._example_offsets[first]

    def names(self, users: NDArray[np.int64]) -> Names:
        """The names of these users."""
        return np.ascontiguousarray(self._pseudonyms[users]).view("<u8")

    def pseudonyms(self, users: NDArray[np.int64]) -> list[str]:
        """The hashed names of these users, in hexadecimal."""
        return [row.tobytes().hex() for row in self._pseudonyms[users]]

    def held_out_users(self, most: int | None = None) -> NDArray[np.int64]:
        """The numbers of the held-out users, ascending; with `most`, at most so many, those with the smallest hashes.

        A smaller `most` gives a subset of a larger one, and whether a user is held out does not depend on other users.
        """
        names = all_names(self)
        aside = np.flatnonzero(is_held_out(names, self.held_out)).astype(np.int64)
        if most is not None:
            aside = aside[np.argsort(names[aside, 1], kind="stable")[:most]]
        return np.sort(aside)

    def _spans(self, users: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
        first, last = self._user_offsets[users], self._user_offsets[users + 1]
        if np.any(last < first):
            raise StoreError(f"{self._where} is damaged: its user offsets are not in order.")
        return first, last, offsets_of(last - first)

    def _gather_ragged(
        self,
        flat: NDArray[np.generic],
        offsets: NDArray[np.int64] | None,
        first: NDArray[np.int64],
        last: NDArray[np.int64],
        user_offsets: NDArray[np.int64],
    ) -> Examples:
        """The flat content of the examples from `first` to `last` (a pair a user), with offsets that begin at 0."""
        assert offsets is not None
        starts, ends = offsets[first], offsets[last]
        gathered = offsets_of(ends - starts)
        example_offsets = np.empty(user_offsets[-1] + 1, np.int64)
        example_offsets[-1] = gathered[-1]
        example_offsets[:-1] = take_slices(offsets, first, last)
        example_offsets[:-1] -= np.repeat(starts - gathered[:-1], last - first)
        if np.any(np.diff(example_offsets) < 0):
            raise StoreError(f"{self._where} is damaged: its example offsets are not in order.")
        return Examples(take_slices(flat, starts, ends), example_offsets, user_offsets)
