"""What every mechanism promises: its releases, and what its kind says that they cost."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from tacit import __version__
from tacit.privacy.accounting.spent import Spent, spent_by
from tacit.privacy.gate.sums import Block, BoundedSum
from tacit.privacy.noise.kinds import kind_of
from tacit.privacy.noise.kinds.base import SAMPLINGS
from tacit.privacy.noise.mechanisms import Mechanism
from tacit.privacy.noise.randomness import NoiseKey, Randomness
from tacit.privacy.noise.strategies import Strategy
from tacit.privacy.outside import is_path
from tacit.privacy.plan import PrivacyPlan
from tacit.privacy.record.facts import DataRecord, ReleaseSize
from tacit.privacy.record.planned import planned_intents
from tacit.privacy.record.records import FORMAT, UNIT, Opened

# Few sizes, because each is compiled.
SMALL = 7
# As many rounds as the cost is asked for.
ROUNDS = 12


def key(round: int) -> NoiseKey:
    """A key that is the same in every test."""
    return Randomness.from_seed(11).noise_key(round=round, attempt=0)


def bounded(value: float = 3.0, size: int = 50_000, bound: float = 0.5) -> BoundedSum:
    """A sum with an update of two arrays, all of them this value, and a weight."""
    with jax.enable_x64(True):
        update = {"a": jnp.full((size,), value, jnp.float64), "b": jnp.full((2, 3), value, jnp.float64)}
        return BoundedSum({"update": Block(update, bound), "weight": Block(jnp.asarray(value, jnp.float64), 1.0)})


class MechanismContract:
    """Inherit, say which `mechanism` it is (its name in a plan), and define `build`.

    `plan_changes` are settings that its plans need, and `strategy` says how its noise is correlated. Set `is_noiseless` for a
    mechanism that adds no noise, and `states_a_cost` to False for one that is meant to claim nothing.
    """

    mechanism: str
    plan_changes: Mapping[str, Any] = {}
    strategy: Strategy | None = None
    is_noiseless = False
    states_a_cost = True

    def build(self, noise_multipliers: Mapping[str, float]) -> Mechanism:
        """The mechanism with these noise multipliers."""
        raise NotImplementedError("Define build(self, noise_multipliers) in the class that inherits MechanismContract.")

    def release(self, total: BoundedSum, multipliers: Mapping[str, float], round: int = 0) -> Mapping[str, Any]:
        mechanism = self.build(multipliers)
        state = mechanism.init({name: block.total for name, block in total.blocks.items()})
        return mechanism.release(total, state, key=key(round))[0]

    def test_names_itself_and_its_noise(self) -> None:
        mechanism = self.build({"update": 1.5, "weight": 3.0})
        assert mechanism.name
        assert dict(mechanism.noise_multipliers) == {"update": 1.5, "weight": 3.0}

    def test_a_release_has_the_blocks_and_shapes_of_the_sum_in_float32(self) -> None:
        total = bounded(size=SMALL)
        release = self.release(total, {"update": 1.0, "weight": 1.0})
        assert set(release) == {"update", "weight"}
        assert jax.tree.map(jnp.shape, release["update"]) == jax.tree.map(jnp.shape, total.blocks["update"].total)
        assert {leaf.dtype for leaf in jax.tree.leaves(dict(release))} == {jnp.dtype("float32")}

    def test_the_same_key_gives_the_same_release_and_another_another(self) -> None:
        one, again, other = (
            np.asarray(self.release(bounded(size=SMALL), {"update": 1.0, "weight": 1.0}, round)["update"]["a"])
            for round in (0, 0, 1)
        )
        assert (one == again).all()
        assert self.is_noiseless or (one != other).all()

    def test_noise_does_not_depend_on_the_sum(self) -> None:
        multipliers = {"update": 1.0, "weight": 1.0}
        noise = [
            np.asarray(self.release(bounded(value, 1000), multipliers)["update"]["a"], np.float64) - value
            for value in (0.0, 64.0)
        ]
        np.testing.assert_allclose(noise[0], noise[1], atol=1e-5)

    def test_noise_scales_with_bound_and_multiplier(self) -> None:
        for bound, multiplier in ((0.5, 1.0), (2.0, 1.0), (0.5, 3.0)):
            release = self.release(bounded(0.0, bound=bound), {"update": multiplier, "weight": 1.0})
            deviation = float(np.asarray(release["update"]["a"], np.float64).std())
            expected = 0.0 if self.is_noiseless else bound * multiplier
            assert abs(deviation - expected) <= 0.02 * expected

    # What its kind says.

    def facts(self, plan: PrivacyPlan) -> Mapping[str, Any]:
        """Facts of the ledger's first record that its cost needs."""
        return {}

    def plan(self, **changes: Any) -> PrivacyPlan:
        """A plan with this mechanism, under the last sampling that it is proven under."""
        sampling = kind_of(self.mechanism).proven_under[-1]
        fields: dict[str, Any] = {
            "mechanism": self.mechanism,
            "population": 1_000,
            "cohort": 20,
            "clip_norm": 1.0,
            "noise_multiplier": 0.0 if self.is_noiseless else 2.0,
            "delta": 1e-5,
            "sampling": sampling,
            **({"min_separation": 3, "max_participation": 9} if sampling == "check_in" else {}),
        }
        return PrivacyPlan(**{**fields, **self.plan_changes, **changes})

    def spent(self, plan: PrivacyPlan, rounds: int = ROUNDS) -> Spent:
        """What so many rounds of the plan cost."""
        opened = Opened(
            run_id="contract",
            format=FORMAT,
            tacit_version=__version__,
            plan=plan.model_dump(mode="json"),
            mechanism=plan.mechanism,
            strategy={} if self.strategy is None else self.strategy.describe(),
            population=plan.population,
            rounds=rounds,
            seeded=False,
            reasons_not_private=(),
            recipe="",
            release=ReleaseSize(100, 2),
            data=DataRecord(),
            unit=UNIT,
            adjacency=plan.adjacency,
            outside=plan.outside,
            **self.facts(plan),
        )
        return spent_by(opened, planned_intents(plan, rounds))

    def test_it_is_known_and_says_what_it_is_proven_under(self) -> None:
        kind = kind_of(self.mechanism)
        assert kind.known
        assert kind.noise
        assert kind.proven_under
        assert set(kind.proven_under) <= set(SAMPLINGS)
        assert kind.adds_noise != self.is_noiseless

    def test_a_plan_builds_it(self) -> None:
        plan = self.plan()
        built = plan.build_mechanism(ROUNDS, self.strategy)
        assert type(built) is type(self.build(plan.noise_multipliers))
        assert dict(built.noise_multipliers) == plan.noise_multipliers

    def test_what_is_not_stated_is_infinite_with_a_reason(self) -> None:
        if self.is_noiseless or not self.states_a_cost:
            spent = self.spent(self.plan())
            assert spent.epsilon == math.inf
            assert spent.reasons_not_private

    def test_less_noise_and_more_rounds_never_cost_less(self) -> None:
        if self.is_noiseless or not self.states_a_cost:
            return
        loud, usual = (self.spent(self.plan(noise_multiplier=z)).epsilon for z in (4.0, 2.0))
        assert 0 < loud < usual < math.inf
        short, long = (self.spent(self.plan(), rounds).epsilon for rounds in (1, ROUNDS))
        assert 0 < short < long

    def test_the_statement_says_whose_claim_the_cost_is(self) -> None:
        claimed = [each for each in self.spent(self.plan()).assumptions if "the claim of its author" in each]
        assert len(claimed) == is_path(self.mechanism)
        assert all(self.mechanism in each for each in claimed)
