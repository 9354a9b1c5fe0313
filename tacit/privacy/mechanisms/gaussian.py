"""Independent Gaussian noise (DP-FedAvg, Algorithm 1): block j gets N(0, (z_j · bound_j)²) on every coordinate."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp

from tacit.privacy.mechanisms.base import Release
from tacit.privacy.noise import grid_step, standard_normal
from tacit.privacy.sums import BoundedSum


@dataclass(frozen=True)
class Gaussian:
    """The Gaussian mechanism. Releases are independent, so there is no state."""

    noise_multipliers: Mapping[str, float]
    name: str = "gaussian"

    def init(self, template: Mapping[str, Any]) -> tuple[()]:
        return ()

    def release(self, bounded: BoundedSum, state: tuple[()], *, key: jax.Array) -> tuple[Release, tuple[()]]:
        # Sorted, so that a block's share of the key does not depend on the order it was named in.
        names = sorted(bounded.blocks)
        deviations = {name: self.noise_multipliers[name] * bounded.blocks[name].bound for name in names}
        with jax.enable_x64(True):
            release = {
                name: _noised(
                    bounded.blocks[name].total,
                    jax.random.fold_in(key, index),
                    deviations[name],
                    grid_step(deviations[name]),
                )
                for index, name in enumerate(names)
            }
        return release, state


@dataclass(frozen=True)
class NoNoise:
    """Passes sums on as they are. Epsilon is infinite."""

    noise_multipliers: Mapping[str, float]
    name: str = "none"

    def init(self, template: Mapping[str, Any]) -> tuple[()]:
        return ()

    def release(self, bounded: BoundedSum, state: tuple[()], *, key: jax.Array) -> tuple[Release, tuple[()]]:
        with jax.enable_x64(True):
            return {name: _rounded(block.total) for name, block in bounded.blocks.items()}, state


@jax.jit
def _noised(total: Any, key: jax.Array, standard_deviation: float, step: float) -> Any:
    leaves, tree = jax.tree.flatten(total)
    keys = jax.random.split(key, len(leaves))
    noised = [
        (jnp.round((leaf + standard_deviation * standard_normal(leaf_key, leaf.shape)) / step) * step).astype(
            jnp.float32
        )
        for leaf, leaf_key in zip(leaves, keys, strict=True)
    ]
    return jax.tree.unflatten(tree, noised)


@jax.jit
def _rounded(total: Any) -> Any:
    return jax.tree.map(lambda leaf: leaf.astype(jnp.float32), total)
