"""Noise of Toeplitz strategies, one round at a time: y = C⁻¹ Z.

C y = z read from the top gives  y_t = z_t - Σ_(j≥1) c_j y_(t-j): the sum is what earlier rounds say, and z_t is new.

- `BufferedRecurrence`: with c_j = Σ_i ω_i θ_i^(j-1) the sum is Σ_i ω_i s_i, where each buffer s_i ← θ_i s_i + y_t. The state is
  as many arrays as there are buffers.
- `BandedRecurrence`: the sum ends after the band, and the state is a ring of the last b - 1 values of y. A round
  reads and copies all of it: 8 (b - 1) bytes a coordinate, which is why the number of bands can be capped.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from tacit.privacy.noise.strategies.toeplitz import BandedToeplitz, BufferedToeplitz


@dataclass(frozen=True)
class BufferedRecurrence:
    """Noise of a BLT."""

    strategy: BufferedToeplitz

    def init(self, template: Any) -> Any:
        return stacked_zeros(template, len(self.strategy.theta))

    def ahead(self, state: Any, position: int) -> tuple[Any, float]:
        return minus_weighted(state, np.asarray(self.strategy.omega)), 1.0

    def after(self, state: Any, noise: Any, position: int) -> Any:
        return _decayed(state, noise, np.asarray(self.strategy.theta))


@dataclass(frozen=True)
class BandedRecurrence:
    """Noise of a band, for at most `longest` rounds without a restart."""

    strategy: BandedToeplitz
    longest: int

    @property
    def remembered(self) -> int:
        """How many earlier values of y a round needs: one less than there are bands, or rounds."""
        return min(len(self.strategy.coefficients), self.longest) - 1

    def init(self, template: Any) -> Any:
        return stacked_zeros(template, self.remembered)

    def ahead(self, state: Any, position: int) -> tuple[Any, float]:
        size = self.remembered
        by_slot = np.empty(size)
        by_slot[(position - np.arange(1, size + 1)) % max(size, 1)] = self.strategy.coefficients[1 : size + 1]
        return minus_weighted(state, by_slot), 1.0

    def after(self, state: Any, noise: Any, position: int) -> Any:
        # Where the ring is full, this is the slot of the oldest value, which was just used for the last time.
        return state if self.remembered == 0 else replaced(state, noise, position % self.remembered)


@jax.jit
def minus_weighted(state: Any, weights: jax.Array) -> Any:
    """Minus the weighted sum of what is remembered."""
    # A product: on processors, XLA takes forty times as long for the sum over the first axis.
    return jax.tree.map(
        lambda stack: -jnp.tensordot(weights, stack, axes=1, precision=jax.lax.Precision.HIGHEST), state
    )


@jax.jit
def _decayed(state: Any, noise: Any, theta: jax.Array) -> Any:
    return jax.tree.map(lambda s, y: theta.reshape((-1,) + (1,) * y.ndim) * s + y, state, noise)


@jax.jit
def replaced(state: Any, noise: Any, slot: int) -> Any:
    return jax.tree.map(lambda ring, y: ring.at[slot].set(y), state, noise)


def stacked_zeros(template: Any, count: int) -> Any:
    return jax.tree.map(lambda leaf: jnp.zeros((count, *jnp.shape(leaf)), jnp.float64), template)
