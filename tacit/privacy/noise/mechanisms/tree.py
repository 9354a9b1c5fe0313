"""Noise of a binary tree, one round at a time (Kairouz et al. 2021; Gboard, appendix B).

A round completes the nodes that end with it, smallest first: as many as its number (from 1) has trailing zeros, plus
one. Each has a noise Z_h of its own, and the noise of its estimate is a weighted mean of that and the sum of its
halves' (the online Honaker estimator, `strategies.tree`):

    e_0 = Z_0,   e_h = v_h Z_h + (1 - v_h) (left_(h-1) + e_(h-1)).

The noise on a prefix is the sum over the nodes that stand for it. What a round emits is the *difference* to the
prefix before: the estimate of the node it completed last, less those of the nodes which that one replaces. Everything
that a round draws goes into one number, e of the last node, and nothing else of it is used again. So one Gaussian
draw stands for them all, of variance

    a_0² = 1,   a_h² = v_h² + (1 - v_h)² a_(h-1)²,

around the part of e that the standing nodes determine. All releases together have the same law as with a draw for each node.

The state holds one array for each height, with the estimate of the node of that height that stands, or zeros: log₂ T + 1
arrays. Since a node's estimate is the sum of the noise of its rounds, it is computed by additions alone.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp

from tacit.privacy.noise.strategies.tree import estimate_variance, nodes_completed


@dataclass(frozen=True)
class TreeRecurrence:
    """For at most `longest` rounds without a restart."""

    longest: int

    def init(self, template: Any) -> list[Any]:
        return [_zeros(template) for _ in range(self.longest.bit_length())]

    def ahead(self, state: list[Any], position: int) -> tuple[Any, float]:
        weights, spread = new_node(nodes_completed(position + 1) - 1)
        known = _zeros(state[0])
        for height, weight in enumerate(weights):
            # Its share in the new node, less the whole of it, which the new node replaces.
            known = _plus(known, state[height], weight - 1)
        return known, spread

    def after(self, state: list[Any], noise: Any, position: int) -> list[Any]:
        top = nodes_completed(position + 1) - 1
        for height in range(top):
            noise = _plus(noise, state[height], 1.0)
        return [*(_zeros(state[0]) for _ in range(top)), noise, *state[top + 1 :]]


def new_node(height: int) -> tuple[list[float], float]:
    """How a new node's estimate weighs the standing nodes of heights 0 .. height - 1; the deviation of what is new in it."""
    weights, variance = list[float](), 1.0
    for own in (float(estimate_variance(each)) for each in range(1, height + 1)):
        weights = [(1 - own) * each for each in (*weights, 1.0)]
        variance = own**2 + (1 - own) ** 2 * variance
    return weights, math.sqrt(variance)


@jax.jit
def _plus(total: Any, other: Any, weight: float) -> Any:
    return jax.tree.map(lambda a, b: a + weight * b, total, other)


def _zeros(like: Any) -> Any:
    return jax.tree.map(lambda leaf: jnp.zeros_like(leaf, jnp.float64), like)
