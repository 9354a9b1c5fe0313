"""Small stand-ins that several tests share."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray

from tacit.data.users import Examples
from tacit.privacy.clipping import global_norm


class ListUsers:
    """Users given as lists of sentences of word numbers."""

    def __init__(self, users: list[list[list[int]]]) -> None:
        self.users = users

    def __len__(self) -> int:
        return len(self.users)

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
