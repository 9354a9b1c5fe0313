"""Noise of Toeplitz strategies, streamed: y = C⁻¹ Z, one round at a time.

C y = z read from the top gives  y_t = z_t - Σ_(j≥1) c_j y_(t-j).

- `BufferedStream`: with c_j = Σ_i ω_i θ_i^(j-1) the sum is Σ_i ω_i s_i, where each buffer s_i ← θ_i s_i + y_t. The state is
  as many arrays as there are buffers.
- `BandedStream`: the sum ends after the band, and the state is a ring of the last b - 1 values of y. A round reads and copies
  all of it: 8 (b - 1) bytes a coordinate, which is why the number of bands can be capped.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from tacit.privacy.mechanisms.streams import draw
from tacit.privacy.strategies.toeplitz import BandedToeplitz, BufferedToeplitz


@dataclass(frozen=True)
class BufferedStream:
    """Noise of a BLT."""

    strategy: BufferedToeplitz

    def init(self, template: Any) -> Any:
        return _stacked_zeros(template, len(self.strategy.theta))

    def next(self, state: Any, key: jax.Array, position: int) -> tuple[Any, Any]:
        return _buffered(state, key, np.asarray(self.strategy.theta), np.asarray(self.strategy.omega))


@dataclass(frozen=True)
class BandedStream:
    """Noise of a band, for at most `longest` rounds without a restart."""

    strategy: BandedToeplitz
    longest: int

    @property
    def remembered(self) -> int:
        """How many earlier values of y a round needs: one less than there are bands, or rounds."""
        return min(len(self.strategy.coefficients), self.longest) - 1

    def init(self, template: Any) -> Any:
        return _stacked_zeros(template, self.remembered)

    def next(self, state: Any, key: jax.Array, position: int) -> tuple[Any, Any]:
        size = self.remembered
        if size == 0:
            return _independent(state, key), state
        lags = np.arange(1, size + 1)
        by_slot = np.empty(size)
        by_slot[(position - lags) % size] = self.strategy.coefficients[1 : size + 1]
        return _banded(state, key, by_slot, position % size)


@jax.jit
def _buffered(state: Any, key: jax.Array, theta: jax.Array, omega: jax.Array) -> tuple[Any, Any]:
    noise = _remaining(state, key, omega)
    decayed = jax.tree.map(lambda s, y: theta.reshape((-1,) + (1,) * y.ndim) * s + y, state, noise)
    return noise, decayed


@jax.jit
def _banded(state: Any, key: jax.Array, by_slot: jax.Array, slot: int) -> tuple[Any, Any]:
    noise = _remaining(state, key, by_slot)
    # Where the ring is full, this is the slot of the oldest value, which was just used for the last time.
    return noise, jax.tree.map(lambda ring, y: ring.at[slot].set(y), state, noise)


@jax.jit
def _independent(state: Any, key: jax.Array) -> Any:
    return draw(key, _one(state))


def _remaining(state: Any, key: jax.Array, weights: jax.Array) -> Any:
    """New draws less the weighted sum of what is remembered."""

    # A product: on processors, XLA takes forty times as long for the sum over the first axis.
    def less(z: jax.Array, stack: jax.Array) -> jax.Array:
        return z - jnp.tensordot(weights, stack, axes=1, precision=jax.lax.Precision.HIGHEST)

    return jax.tree.map(less, draw(key, _one(state)), state)


def _one(state: Any) -> Any:
    """The shapes of one array of each stack."""
    return jax.tree.map(lambda stack: jax.ShapeDtypeStruct(stack.shape[1:], stack.dtype), state)


def _stacked_zeros(template: Any, count: int) -> Any:
    return jax.tree.map(lambda leaf: jnp.zeros((count, *jnp.shape(leaf)), jnp.float64), template)
