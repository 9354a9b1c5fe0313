"""A plan at scale has the same noise on the mean, and costs what the larger run would cost."""

from __future__ import annotations

import dataclasses
import math
from typing import Any

import pytest

from tacit.privacy.accounting.tree import sensitivity_squared
from tacit.privacy.participation.limits import Gap
from tacit.privacy.plan import PrivacyPlan
from tacit.privacy.planning.scaling import ScaleSection, cost_at_scale, scaled_up
from tacit.privacy.record.reasons import Reason, Why
from tacit.privacy.record.records import FORMAT, Opened
from tests.support.first_record import FACTS, SEEDED


def opened(plan: PrivacyPlan, strategy: dict[str, Any]) -> Opened:
    return Opened(
        run_id="r",
        format=FORMAT,
        tacit_version="",
        plan=plan.model_dump(mode="json"),
        mechanism=plan.mechanism,
        strategy=strategy,
        population=plan.population,
        rounds=40,
        seeded=True,
        reasons_not_private=(SEEDED,),
        unit="user",
        adjacency=plan.adjacency,
        **FACTS,
    )


def small(**changes: Any) -> PrivacyPlan:
    fields = {"population": 1_000, "cohort": 50, "clip_norm": 0.8, "noise_multiplier": 0.2, "delta": 1e-5, **changes}
    return PrivacyPlan(**fields)


def test_noise_on_the_mean_stays_the_same():
    plan = small(estimator="clipped", total_weight=400.0, adaptive={"count_noise": 3.0})
    large = scaled_up(plan, ScaleSection(population=10**6, cohort=5_000, delta=1e-8))
    for name, z in plan.noise_multipliers.items():
        assert large.noise_multipliers[name] / large.cohort == pytest.approx(z / plan.cohort)
    assert large.noise_multiplier == pytest.approx(20.0)
    assert (large.total_weight, large.delta) == (400_000.0, 1e-8)


def test_the_cost_is_that_of_the_larger_run():
    plan = small(sampling="check_in", mechanism="tree", min_separation=9, max_participation=4)
    large = scaled_up(
        plan, ScaleSection(population=10**6, cohort=5_000, delta=1e-8, min_separation=30, max_participation=2)
    )
    spent = cost_at_scale(opened(plan, {"strategy": "tree"}), large, 40)
    assert spent.rho == pytest.approx(sensitivity_squared(40, Gap(30), 2) / (2 * 20.0**2))
    assert spent.reasons_not_private == ()  # of the run that was not made
    assert spent.delta == 1e-8


def test_sampling_is_that_of_the_larger_run():
    large = scaled_up(small(), ScaleSection(population=10**6, cohort=5_000, delta=1e-8))
    assert cost_at_scale(opened(small(), {}), large, 40).epsilon < 1


def test_what_cannot_be_at_scale_is_refused():
    with pytest.raises(ValueError, match="cohort ≤ privacy"):
        scaled_up(small(), ScaleSection(population=1_000, cohort=5_000))


@pytest.mark.parametrize("other", [Reason(Why.COUNTED_VOCABULARY), Reason("of-a-later-version", "can be replayed")])
def test_a_reason_that_scale_does_not_mend_stays(other):
    large = scaled_up(small(), ScaleSection(population=10**6, cohort=5_000, delta=1e-8))
    run = dataclasses.replace(opened(small(), {}), reasons_not_private=(SEEDED, other))
    spent = cost_at_scale(run, large, 40)
    assert spent.epsilon == math.inf
    assert spent.reasons_not_private == (other,)
