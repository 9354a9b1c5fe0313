"""One plan: its parts agree, and what cannot be private is refused or said."""

from __future__ import annotations

import math
from typing import Any

import pytest
from pydantic import ValidationError

from tacit.privacy.plan import PrivacyPlan


def plan(**changes: Any) -> PrivacyPlan:
    fields = {"population": 1_000, "cohort": 50, "clip_norm": 0.8, "noise_multiplier": 1.2, "delta": 1e-5, **changes}
    return PrivacyPlan(**fields)


def test_sampler_denominator_and_mechanism_come_from_the_same_numbers():
    chosen = plan(total_weight=800.0)
    assert chosen.build_sampler().describe() == {"kind": "poisson", "probability": 0.05}
    assert chosen.denominator == pytest.approx(0.05 * 800)
    assert dict(chosen.build_mechanism().noise_multipliers) == {"update": 1.2}
    assert chosen.combined_noise_multiplier == pytest.approx(1.2)


def test_the_weight_block_is_paid_for():
    chosen = plan(estimator="clipped", total_weight=400.0)
    assert set(chosen.noise_multipliers) == {"update", "weight"}
    assert chosen.noise_multipliers["update"] > 1.2
    assert chosen.combined_noise_multiplier == pytest.approx(1.2)


def test_clip_schedule_changes_clip_and_so_noise():
    chosen = plan(clip_schedule=[{"round": 10, "clip_norm": 0.4}, {"round": 20, "clip_norm": 0.2}])
    assert [chosen.clip_norm_at(t) for t in (0, 9, 10, 19, 20, 99)] == [0.8, 0.8, 0.4, 0.4, 0.2, 0.2]
    assert plan(mechanism="none", noise_multiplier=0.0, clip_norm=None).clip_norm_at(0) == math.inf


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"clip_norm": -1.0}, "greater than 0"),
        ({"clip_norm": None}, "clip_norm"),
        ({"clip_norm": math.inf}, "finite"),
        ({"noise_multiplier": 0.0}, "noise_multiplier > 0"),
        ({"noise_multiplier": math.nan}, "finite|greater"),
        ({"mechanism": "none"}, "mechanism 'none'"),
        ({"cohort": 2_000}, "cohort ≤ privacy.population"),
        ({"cohort": 200_000, "population": 10**6, "delta": 1e-7}, "cohort ≤ 100000"),
        ({"cohort": 10.5, "sampling": "fixed"}, "whole number"),
        ({"delta": 0.01}, "delta < 1/population"),
        ({"example_cap": 5.0}, "total_weight"),
        ({"total_weight": 1_001.0}, "weights are at most 1"),
        ({"clip_schedule": [{"round": 5, "clip_norm": 1.0}, {"round": 5, "clip_norm": 2.0}]}, "rising rounds"),
        ({"clip_nrom": 1.0}, "clip_nrom"),
    ],
)
def test_refused(changes, words):
    with pytest.raises(ValidationError, match=words):
        plan(**changes)
