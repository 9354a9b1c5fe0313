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

from tacit.privacy.mechanisms.base import Release
from tacit.privacy.noise import grid_step, rounded_gaussian
from tacit.privacy.randomness import NoiseKey
from tacit.privacy.sums import BoundedSum


@dataclass(frozen=True)
class Gaussian:
    """The Gaussian mechanism. Releases are independent, so there is no state."""

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
                step = grid_step(deviation)
                centre = _in_steps(bounded.blocks[name].total, step)
                release[name] = _released(rounded_gaussian(centre, deviation / step, key.stream(index)), step)
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


@jax.jit
def _in_steps(total: Any, step: float) -> Any:
    return jax.tree.map(lambda leaf: leaf / step, total)


@jax.jit
def _released(steps: Any, step: float) -> Any:
    return jax.tree.map(lambda leaf: (leaf * step).astype(jnp.float32), steps)
