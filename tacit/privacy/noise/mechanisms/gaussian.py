"""Independent Gaussian noise (DP-FedAvg, Algorithm 1): block j gets N(0, (z_j · bound_j)²) on every coordinate.

The release is the ideal one, x + σ·G for real Gaussian G, rounded to a grid, and computed exactly (`noise`): x / step
is exact in float64 because the step is a power of two. Floating point costs nothing here.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp

from tacit.privacy.gate.sums import BoundedSum
from tacit.privacy.noise.gaussian import decided, grid_step, rounded_gaussian
from tacit.privacy.noise.mechanisms.base import Release
from tacit.privacy.noise.randomness import NoiseKey, NoiseStream


@dataclass(frozen=True)
class Gaussian:
    """The Gaussian mechanism. Releases are independent, so there is no state.

    >>> import tacit
    >>> tacit.Gaussian({"update": 1.5}).init({})
    ()
    """

    noise_multipliers: Mapping[str, float]
    name: str = "gaussian"

    def init(self, template: Mapping[str, Any]) -> tuple[()]:
        return ()

    def release(self, bounded: BoundedSum, state: tuple[()], *, key: NoiseKey) -> tuple[Release, tuple[()]]:
        release = {}
        with jax.enable_x64(True):
            # Sorted, so that a block's share of the key does not depend on the order it was named in.
            for index, name in enumerate(sorted(bounded.blocks)):
                deviation = self.noise_multipliers[name] * bounded.blocks[name].bound
                release[name] = _noised(bounded.blocks[name].total, deviation, key.stream(index))
        return release, state


@dataclass(frozen=True)
class NoNoise:
    """Passes sums on as they are. Epsilon is infinite."""

    noise_multipliers: Mapping[str, float]
    name: str = "none"

    def init(self, template: Mapping[str, Any]) -> tuple[()]:
        return ()

    def release(self, bounded: BoundedSum, state: tuple[()], *, key: NoiseKey) -> tuple[Release, tuple[()]]:
        with jax.enable_x64(True):
            return {name: _released(block.total, 1.0) for name, block in bounded.blocks.items()}, state


def _noised(total: Any, deviation: float, stream: NoiseStream) -> Any:
    """The release of a sum, in one call to the accelerator, except for rare coordinates that the host must decide."""
    step = grid_step(deviation)
    release, undecided = _noised_at_once(total, step, deviation / step, stream.key, stream.nonce)
    if int(undecided) == 0:
        return release
    return _released(rounded_gaussian(_in_steps(total, step), deviation / step, stream), step)


@jax.jit
def _noised_at_once(total: Any, step: float, scale: float, key: Any, nonce: Any) -> tuple[Any, jax.Array]:
    leaves, tree = jax.tree.flatten(_in_steps(total, step))
    steps, undecided = decided(leaves, scale, key, nonce)
    return _released(jax.tree.unflatten(tree, steps), step), undecided


@jax.jit
def _in_steps(total: Any, step: float) -> Any:
    return jax.tree.map(lambda leaf: leaf / step, total)


@jax.jit
def _released(steps: Any, step: float) -> Any:
    return jax.tree.map(lambda leaf: (leaf * step).astype(jnp.float32), steps)
