"""Noise of a binary tree, streamed (Kairouz et al. 2021; Gboard, appendix B).

A round completes the nodes that end with it, smallest first: as many as its number (from 1) has trailing zeros, plus
one. Each gets a draw of its own, and its estimate is the weighted mean of that draw and the sum of its halves' estimates
(the online Honaker estimator, `strategies.tree`). The noise on a prefix is the sum over the nodes that stand for it. What
a round emits is the *difference* to the prefix before: the estimate of the node it completed last, less those of the
nodes which that one replaces.

The state holds one array for each height, with the estimate of the node of that height that stands, or zeros: log₂ T + 1
arrays. A round writes two of them on average and copies none.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp

from tacit.privacy.mechanisms.streams import draw
from tacit.privacy.strategies.tree import estimate_variance, nodes_completed


@dataclass(frozen=True)
class TreeStream:
    """For at most `longest` rounds without a restart."""

    longest: int

    def init(self, template: Any) -> list[Any]:
        return [_zeros(template) for _ in range(self.longest.bit_length())]

    def next(self, state: list[Any], key: jax.Array, position: int) -> tuple[Any, list[Any]]:
        state = list(state)
        top = nodes_completed(position + 1) - 1
        estimate, replaced = _leaf(jax.random.fold_in(key, 0), state[0])
        for height in range(1, top + 1):
            left = state[height - 1]
            weight = float(estimate_variance(height))
            estimate, replaced = _joined(estimate, replaced, left, jax.random.fold_in(key, height), weight)
            state[height - 1] = _zeros(left)
        state[top] = estimate
        return _difference(estimate, replaced), state


@jax.jit
def _leaf(key: jax.Array, like: Any) -> tuple[Any, Any]:
    return draw(key, like), jax.tree.map(jnp.zeros_like, like)


@jax.jit
def _joined(right: Any, replaced: Any, left: Any, key: jax.Array, weight: float) -> tuple[Any, Any]:
    """The node over `left` and `right`, and what is replaced once `left` is."""
    estimate = jax.tree.map(lambda own, a, b: weight * own + (1 - weight) * (a + b), draw(key, left), left, right)
    return estimate, jax.tree.map(jnp.add, replaced, left)


@jax.jit
def _difference(estimate: Any, replaced: Any) -> Any:
    return jax.tree.map(jnp.subtract, estimate, replaced)


def _zeros(like: Any) -> Any:
    return jax.tree.map(lambda leaf: jnp.zeros_like(leaf, jnp.float64), like)
