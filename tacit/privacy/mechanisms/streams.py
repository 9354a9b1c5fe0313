"""Streams of correlated noise: what a round adds to a block, and what it keeps for the rounds after it.

    state        = stream.init(template)
    noise, state = stream.next(state, key, position)

Noise is in units of the standard deviation of Z. `position` counts the rounds since the stream began; at a restart it
begins anew from `init`. State and noise are float64 and shaped like the block.
"""

from __future__ import annotations

from typing import Any, Protocol

import jax

from tacit.privacy.noise import standard_normal


class Stream(Protocol):
    """Rows of a strategy's noise matrix times N(0, 1) draws, one row after the other. Call it with 64-bit types enabled."""

    def init(self, template: Any) -> Any:
        """The state before the first round."""
        ...

    def next(self, state: Any, key: jax.Array, position: int) -> tuple[Any, Any]:
        """The noise of a round and the state for the next. No draw uses a key that another draw used."""
        ...


def draw(key: jax.Array, like: Any) -> Any:
    """Independent N(0, 1) draws in float64, shaped like a pytree; each array has a key of its own."""
    leaves, tree = jax.tree.flatten(like)
    keys = jax.random.split(key, len(leaves))
    return jax.tree.unflatten(
        tree, [standard_normal(each, leaf.shape) for each, leaf in zip(keys, leaves, strict=True)]
    )
