"""What every mechanism promises; a mechanism's own test inherits this and says how to build it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from tacit.privacy.mechanisms import Mechanism
from tacit.privacy.randomness import Randomness
from tacit.privacy.sums import Block, BoundedSum


def key(round: int) -> jax.Array:
    return Randomness.from_seed(11).noise_key(round=round, attempt=0)


def bounded(value: float = 3.0, size: int = 50_000, bound: float = 0.5) -> BoundedSum:
    with jax.enable_x64(True):
        update = {"a": jnp.full((size,), value, jnp.float64), "b": jnp.full((2, 3), value, jnp.float64)}
        return BoundedSum({"update": Block(update, bound), "weight": Block(jnp.asarray(value, jnp.float64), 1.0)})


class MechanismContract:
    """Inherit, and define `build`."""

    def build(self, noise_multipliers: Mapping[str, float]) -> Mechanism:
        raise AssertionError("a mechanism's test says how to build it")

    def release(self, total: BoundedSum, multipliers: Mapping[str, float], round: int = 0) -> Mapping[str, Any]:
        mechanism = self.build(multipliers)
        state = mechanism.init({name: block.total for name, block in total.blocks.items()})
        return mechanism.release(total, state, key=key(round))[0]

    def test_names_itself_and_its_noise(self):
        mechanism = self.build({"update": 1.5, "weight": 3.0})
        assert mechanism.name
        assert dict(mechanism.noise_multipliers) == {"update": 1.5, "weight": 3.0}

    def test_a_release_has_the_blocks_and_shapes_of_the_sum_in_float32(self):
        total = bounded(size=10)
        release = self.release(total, {"update": 1.0, "weight": 1.0})
        assert set(release) == {"update", "weight"}
        assert jax.tree.map(jnp.shape, release["update"]) == jax.tree.map(jnp.shape, total.blocks["update"].total)
        assert {leaf.dtype for leaf in jax.tree.leaves(dict(release))} == {jnp.dtype("float32")}

    def test_the_same_key_gives_the_same_release_and_another_another(self):
        one, again, other = (
            np.asarray(self.release(bounded(size=9), {"update": 1.0, "weight": 1.0}, round)["update"]["a"])
            for round in (0, 0, 1)
        )
        assert (one == again).all()
        assert self.is_noiseless or (one != other).all()

    def test_noise_does_not_depend_on_the_sum(self):
        multipliers = {"update": 1.0, "weight": 1.0}
        noise = [
            np.asarray(self.release(bounded(value, 1000), multipliers)["update"]["a"], np.float64) - value
            for value in (0.0, 64.0)
        ]
        np.testing.assert_allclose(noise[0], noise[1], atol=1e-5)

    def test_noise_scales_with_bound_and_multiplier(self):
        for bound, multiplier in ((0.5, 1.0), (2.0, 1.0), (0.5, 3.0)):
            release = self.release(bounded(0.0, bound=bound), {"update": multiplier, "weight": 1.0})
            deviation = float(np.asarray(release["update"]["a"], np.float64).std())
            expected = 0.0 if self.is_noiseless else bound * multiplier
            assert abs(deviation - expected) <= 0.02 * expected

    is_noiseless = False
