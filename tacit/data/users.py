"""Users and their examples, as every part of Tacit sees them.

A store on disk, a built-in world that makes its users on demand, a split, a reshuffle and (later) a canary or a fault
are all `Users`: something with a length, from which the examples of any users can be gathered.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

# The reserved entries of every vocabulary; words begin at FIRST_WORD.
PAD, BOS, EOS, OOV = 0, 1, 2, 3
FIRST_WORD = 4


@dataclass(frozen=True)
class Examples:
    """The examples of several users, back to back, in the order the users were asked for.

    Text: `items` holds the word ids of all sentences (no bos or eos; sentence e is
    ``items[example_offsets[e]:example_offsets[e + 1]]``). Images: ``items[e]`` is image e (28×28 uint8), `labels[e]` its
    class, and `example_offsets` counts 0, 1, 2, ... User u owns the examples
    ``user_offsets[u]`` to ``user_offsets[u + 1]``; a user may own none.
    """

    items: NDArray[np.generic]
    example_offsets: NDArray[np.int64]
    user_offsets: NDArray[np.int64]
    labels: NDArray[np.int32] | None = None


class Users(Protocol):
    """A population of users. Gathering is a pure function of the user numbers: asked twice, the same answer."""

    def __len__(self) -> int:
        """How many users there are; they are numbered 0, 1, ..."""
        ...

    def gather(self, users: NDArray[np.int64]) -> Examples:
        """The examples of these users."""
        ...
