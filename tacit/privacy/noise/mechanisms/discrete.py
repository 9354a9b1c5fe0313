"""Noise that the devices add before anybody knows the sum (Kairouz, Liu and Steinke 2021).

Each device adds a discrete Gaussian to every integer of its encoded update; the sum over the round, decoded, is the release.
The server adds no noise and is not trusted to. It only refuses a sum that does not carry enough noise: every block states how
much its devices added (`Block.device_noise`). This protects against accidents. Against a dishonest server the devices protect
themselves: they reveal no sum of fewer devices than a round's minimum. Noise is fresh in every round, so there
is no state. What it costs is in `accounting.discrete_gaussian`, from the integers and not from z; z_j · bound_j is the least
standard deviation that the promised number of devices bring together.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp

from tacit.errors import PrivacyError
from tacit.privacy.gate.sums import BoundedSum
from tacit.privacy.noise.mechanisms.base import Release
from tacit.privacy.noise.randomness import NoiseKey

# Allows for rounding: standard deviations are computed in floating point on both sides of the comparison.
_ROUNDING = 1 - 1e-12


@dataclass(frozen=True)
class Discrete:
    """The distributed discrete Gaussian, seen from the server. The key is not used: the noise was drawn by the devices."""

    noise_multipliers: Mapping[str, float]
    name: str = "discrete"

    def init(self, template: Mapping[str, Any]) -> tuple[()]:
        return ()

    def release(self, bounded: BoundedSum, state: tuple[()], *, key: NoiseKey) -> tuple[Release, tuple[()]]:
        for name, block in sorted(bounded.blocks.items()):
            least = self.noise_multipliers[name] * block.bound
            if not block.device_noise >= least * _ROUNDING:
                raise PrivacyError(
                    f"Expected devices' noise of standard deviation {least:g} or more in block {name}, "
                    f"got {block.device_noise:g}: too few devices reported, or they added none."
                )
        with jax.enable_x64(True):
            return {name: _rounded(block.total) for name, block in bounded.blocks.items()}, state


@jax.jit
def _rounded(total: Any) -> Any:
    return jax.tree.map(lambda leaf: leaf.astype(jnp.float32), total)
