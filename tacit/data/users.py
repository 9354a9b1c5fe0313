"""Users and their examples, as every part of Tacit sees them.

A store on disk, users in memory, a built-in world that makes its users on demand, and every view of these (a split, a
reshuffle, planted canaries, a fault) are all `Users`: they have a length, and the examples of any of them can be gathered.

**A user has a number and a name.** The number is a row, and changes when another user is added or removed. The name is 128
bits that belong to the user alone: a keyed hash of their id or, in a world, where nobody is added or removed, their number.
Every choice about a user (held out or not, in a cohort or not, canary or not, fault or not) is a function of the name and of
public or secret constants, never of the number and never of how many users there are. So two data sets that differ
in one user differ in that user alone.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from tacit.data.ragged import offsets_of, ranges
from tacit.errors import DataError

# The reserved entries of every vocabulary; words begin at FIRST_WORD.
PAD, BOS, EOS, OOV = 0, 1, 2, 3
RESERVED = ("<pad>", "<bos>", "<eos>", "<oov>")
FIRST_WORD = len(RESERVED)

# Where all users are read, so many are read at a time: some tens of megabytes.
BLOCK = 4096


# 128 bits a user, as two 64-bit words: [users, 2].
Names = NDArray[np.uint64]


def names_of_numbers(numbers: NDArray[np.int64]) -> Names:
    """The names of made-up users, who are no persons: their numbers."""
    return np.stack([np.zeros(len(numbers), np.uint64), np.asarray(numbers).astype(np.uint64)], axis=1)


def in_blocks(users: int, size: int = BLOCK) -> Iterator[NDArray[np.int64]]:
    """The numbers of so many users, a block of them at a time."""
    for start in range(0, users, size):
        yield np.arange(start, min(start + size, users), dtype=np.int64)


def all_names(users: Users) -> Names:
    """The names of all users, in the order of their numbers."""
    return users.names(np.arange(len(users), dtype=np.int64))


def require_distinct(names: Names) -> None:
    """DataError if two users have the same name: whatever is decided about one would be decided about the other.

    The message does not say how many users there are, because others may read it.
    """
    ordered = names[np.lexsort((names[:, 1], names[:, 0]))]
    if (ordered[1:] == ordered[:-1]).all(axis=1).any():
        raise DataError("Two users have the same name; expected every user to have a name of their own.")


def is_held_out(names: Names, share: float) -> NDArray[np.bool_]:
    """Whether each of the users with these names is held out, where about this share of all users is.

    A user is held out if the second word of their name is below share · 2⁶⁴.
    """
    return np.asarray(names[:, 1] < np.uint64(share * 2**64))


@dataclass(frozen=True)
class Examples:
    """The examples of several users, back to back, in the order in which the users were asked for.

    Text: `items` holds the word ids of all sentences (no bos or eos; sentence e is
    ``items[example_offsets[e]:example_offsets[e + 1]]``). Images: ``items[e]`` is image e (28×28 uint8), `labels[e]` its
    class, and `example_offsets` counts 0, 1, 2, ... User u owns the examples
    ``user_offsets[u]`` to ``user_offsets[u + 1]``; a user may own none.

    >>> import numpy as np, tacit
    >>> people = tacit.users({"ann": [[4, 5], [6]], "bob": []})
    >>> found = people.gather(np.array([1, 0]))
    >>> found.items.tolist(), found.example_offsets.tolist(), found.user_offsets.tolist()
    ([4, 5, 6], [0, 2, 3], [0, 0, 2])
    """

    items: NDArray[np.generic]
    example_offsets: NDArray[np.int64]
    user_offsets: NDArray[np.int64]
    labels: NDArray[np.int32] | None = None

    def take(self, examples: NDArray[np.int64], user_offsets: NDArray[np.int64]) -> Examples:
        """These examples, in this order, as those of the users with these offsets."""
        starts = self.example_offsets[examples]
        lengths = self.example_offsets[examples + 1] - starts
        labels = None if self.labels is None else self.labels[examples]
        return Examples(self.items[ranges(starts, lengths)], offsets_of(lengths), user_offsets, labels)


class Users(Protocol):
    """A population of users. Gathering is a pure function of the user numbers.

    >>> import numpy as np, tacit
    >>> people: tacit.Users = tacit.KeyboardWorld(seed=1, users=500)
    >>> len(people), people.names(np.array([7])).tolist()
    (500, [[0, 7]])
    """

    def __len__(self) -> int:
        """How many users there are; they are numbered 0, 1, ..."""
        ...

    def gather(self, users: NDArray[np.int64]) -> Examples:
        """The examples of these users."""
        ...

    def names(self, users: NDArray[np.int64]) -> Names:
        """The names of these users: [users, 2] words of 64 bits. No two users have the same."""
        ...


@runtime_checkable
class SplittableUsers(Users, Protocol):
    """Users of whom some are held out, each by their own name: a store, or `tacit.users`."""

    def held_out_users(self, most: int | None = None) -> NDArray[np.int64]:
        """The numbers of the held-out users, ascending; with `most`, at most so many of them."""
        ...
