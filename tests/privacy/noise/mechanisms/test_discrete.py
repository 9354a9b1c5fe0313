"""Noise that devices added keeps the contract of mechanisms: here the devices are a loop that adds shares to a sum."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from tacit.errors import PrivacyError
from tacit.learning.secure_sums import SecureSums
from tacit.privacy.gate.sums import Block, BoundedSum
from tacit.privacy.noise.mechanisms import Discrete, NoNoise
from tacit.privacy.noise.randomness import Randomness
from tacit.privacy.plan import PrivacyPlan
from tacit.secagg.discrete_gaussian import sampled
from tacit.testing.mechanism import SMALL, MechanismContract, bounded, key

DEVICES = 5
# Of one share: so large that two releases hardly share a value.
VARIANCE = 1 << 26


def with_shares(total: BoundedSum, multipliers: Mapping[str, float], round: int) -> BoundedSum:
    """Every device adds N_Z(0, σ²) to integers that are so fine that σ² is a large whole number."""
    blocks = {}
    for name, block in total.blocks.items():
        leaves, tree = jax.tree.flatten(block.total)
        variance = VARIANCE if multipliers[name] > 0 else 0
        unit = multipliers[name] * block.bound / math.sqrt(DEVICES * VARIANCE)
        noised = []
        for index, leaf in enumerate(leaves):
            noise = np.zeros(leaf.size, np.int64)
            for device in range(DEVICES):
                seed = Randomness.from_seed(4).derive(f"{name} {index} {device}", round=round, attempt=0, size=32)
                noise += sampled(variance, leaf.size, entropy=lambda size, seed=seed: seed[:size])
            with jax.enable_x64(True):
                noised.append(leaf + jnp.asarray(noise.reshape(leaf.shape) * unit))
        blocks[name] = Block(jax.tree.unflatten(tree, noised), block.bound, unit * math.sqrt(DEVICES * variance))
    return BoundedSum(blocks)


class TestDiscrete(MechanismContract):
    mechanism = "discrete"
    plan_changes: ClassVar = {"secagg": {"scheme": "device_noise"}}

    def facts(self, plan: PrivacyPlan) -> dict[str, Any]:
        secure = SecureSums.of_plan(plan, 100)
        assert secure is not None
        return {"secure_sum": secure.record()}

    def build(self, noise_multipliers):
        return Discrete(noise_multipliers)

    def release(self, total: BoundedSum, multipliers: Mapping[str, float], round: int = 0) -> Mapping[str, Any]:
        return super().release(with_shares(total, multipliers, round), multipliers, round)

    def test_noise_five_percent_short_is_refused(self):
        multipliers = {"update": 1.0, "weight": 2.0}
        total = with_shares(bounded(size=SMALL), multipliers, 0)
        short = dataclasses.replace(total.blocks["update"], device_noise=total.blocks["update"].device_noise * 0.95)
        with pytest.raises(PrivacyError, match=r"deviation 0\.5 or more in block update, got 0\.475"):
            Discrete(multipliers).release(BoundedSum({**total.blocks, "update": short}), (), key=key(0))

    def test_a_sum_whose_devices_added_nothing_is_refused(self):
        with pytest.raises(PrivacyError, match="block update, got 0"):
            Discrete({"update": 1.0, "weight": 0.0}).release(bounded(size=SMALL), (), key=key(0))

    def test_without_noise_it_is_the_plain_sum(self):
        multipliers = {"update": 0.0, "weight": 0.0}
        found, _ = Discrete(multipliers).release(bounded(1 / 3, SMALL), (), key=key(0))
        plain, _ = NoNoise(multipliers).release(bounded(1 / 3, SMALL), (), key=key(0))
        jax.tree.map(np.testing.assert_array_equal, dict(found), dict(plain))
