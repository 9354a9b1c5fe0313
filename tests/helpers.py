"""Small stand-ins that several tests share."""

from __future__ import annotations

from collections.abc import Collection
from itertools import count
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray

from tacit.data.build import pseudonym
from tacit.data.users import Examples, Names, is_held_out, names_of_numbers
from tacit.privacy.gate.clipping import global_norm

# A store's key decides who is held out. With this one a twentieth of 12, 30, 64 and 500 numbered users is 1, 3, 4 and 21; with
# a fresh key nobody is now and then.
KEY = bytes([1]) * 32


class ListUsers:
    """Users given as lists of sentences of word numbers."""

    def __init__(self, users: list[list[Any]]) -> None:
        self.users = users

    def __len__(self) -> int:
        return len(self.users)

    def names(self, users: NDArray[np.int64]) -> Names:
        return names_of_numbers(users)

    def gather(self, users: NDArray[np.int64]) -> Examples:
        chosen = [self.users[u] for u in users]
        sentences = [sentence for user in chosen for sentence in user]
        return Examples(
            np.array([word for sentence in sentences for word in sentence], np.uint16),
            np.cumsum([0, *(len(sentence) for sentence in sentences)]).astype(np.int64),
            np.cumsum([0, *(len(user) for user in chosen)]).astype(np.int64),
        )


def stretched(model: Any, norm: float) -> Any:
    """The model as long as this; a model that is longer than LARGEST_NORM is one that has diverged."""
    factor = jnp.float32(norm) / global_norm(model)
    return jax.tree.map(lambda leaf: leaf * factor, model)


def draws(generator: np.random.Generator, users: int) -> NDArray[np.uint64]:
    """A uniform word for each of so many users, as `Randomness.draws` gives them."""
    return generator.integers(0, 2**64, size=users, dtype=np.uint64)


def key_holding_out(aside: Collection[str], everybody: Collection[str], share: float) -> bytes:
    """A key for an import under which exactly these of all people are held out, found by trying."""
    for number in count():
        key = number.to_bytes(32, "little")
        names = np.frombuffer(b"".join(pseudonym(user.encode(), key) for user in everybody), "<u8").reshape(-1, 2)
        if {user for user, out in zip(everybody, is_held_out(names, share), strict=True) if out} == set(aside):
            return key
    raise AssertionError
