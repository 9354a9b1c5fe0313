"""One plan: its parts agree, and what cannot be private is refused or said."""

from __future__ import annotations

import math
from typing import Any

import pytest

from tacit.errors import PrivacyError, RecipeError
from tacit.privacy.plan import PrivacyPlan, with_rounds


def plan(**changes: Any) -> PrivacyPlan:
    fields = {"population": 1_000, "cohort": 50, "clip_norm": 0.8, "noise_multiplier": 1.2, "delta": 1e-5, **changes}
    return PrivacyPlan(**fields)


CHECK_IN = {"sampling": "check_in", "min_separation": 9, "max_participation": 5}


def test_sampler_denominator_and_mechanism_come_from_the_same_numbers():
    chosen = plan(total_weight=800.0)
    assert chosen.build_sampler().describe() == {"kind": "poisson", "probability": 0.05}
    assert chosen.denominator == pytest.approx(0.05 * 800)
    assert dict(chosen.build_mechanism(10, None).noise_multipliers) == {"update": 1.2}
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
        ({"clip_norm": -1.0}, "privacy.clip_norm > 0, got -1.0"),
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
        ({"mechanism": "tree"}, "sampling = 'check_in' with mechanism 'tree'"),
        ({"sampling": "check_in"}, "min_separation and privacy.max_participation"),
        ({**CHECK_IN, "min_separation": 20}, "min_separation ≤ 19, what 1000 users can sustain with 50 a round"),
        ({"min_separation": 3}, "with sampling 'check_in' only"),
        ({"restarts": [3]}, "restarts with mechanisms tree, blt, banded only"),
        ({**CHECK_IN, "mechanism": "tree", "restarts": [5, 3]}, "rising rounds"),
        ({**CHECK_IN, "mechanism": "tree", "restarts": [0, 3]}, "1 and above"),
        ({**CHECK_IN, "mechanism": "tree", "most_bands": 3}, "most_bands with mechanism 'banded' only"),
        ({**CHECK_IN, "mechanism": "tree", "clip_schedule": [{"round": 4, "clip_norm": 1.0}]}, "a change in round 4"),
        ({"adaptive": {"count_noise": 0.5}}, "count_noise > 0.6, half of privacy.noise_multiplier"),
        ({"adaptive": {}, "clip_schedule": [{"round": 4, "clip_norm": 1.0}]}, "got both"),
        ({"adaptive": {"quantile": 1.0}}, "privacy.adaptive.quantile < 1, got 1.0"),
        ({"epsilon": 3.0}, "Unknown key privacy.epsilon in the plan"),
        ({"population": "many"}, 'privacy.population to be a whole number, got "many"'),
    ],
)
def test_refused(changes, words):
    with pytest.raises(RecipeError, match=words):
        plan(**changes)


def test_adaptive_clipping_is_paid_for_as_theorem_1_says():
    chosen = plan(adaptive={})
    sigma = 50 / 20
    assert chosen.noise_multipliers["within"] == pytest.approx(2 * sigma)
    assert chosen.noise_multipliers["update"] == pytest.approx((1.2**-2 - (2 * sigma) ** -2) ** -0.5)
    assert chosen.combined_noise_multiplier >= 1.2
    both = plan(adaptive={}, estimator="clipped", total_weight=400.0)
    assert set(both.noise_multipliers) == {"update", "weight", "within"}
    assert both.combined_noise_multiplier == pytest.approx(1.2)
    assert both.combined_noise_multiplier >= 1.2


@pytest.mark.parametrize(
    ("changes", "rounds", "words"),
    [
        ({"max_participation": 2}, 50, "max_participation ≥ 3, what 50 rounds of 50 need from 1000 users, got 2"),
        ({"restarts": [40]}, 40, "restarts within the 40 rounds of the run, got 40"),
    ],
)
def test_what_does_not_fit_the_rounds_is_refused(changes, rounds, words):
    chosen = plan(**{**CHECK_IN, "mechanism": "tree", **changes})
    with pytest.raises(ValueError, match=words):
        chosen.check_rounds(rounds)
    chosen.check_rounds(rounds - 10 if "restarts" not in changes else rounds + 1)


def test_what_follows_from_the_rounds_is_filled_in():
    given = {"mechanism": "tree", "sampling": "check_in", "min_separation": 9, "adaptive": {}}
    filled = with_rounds(given, 1_200)
    assert (filled["max_participation"], filled["restarts"]) == (120, [128, 1152])
    assert with_rounds({**given, "max_participation": 7, "restarts": [5]}, 1_200) == {
        **given,
        "max_participation": 7,
        "restarts": [5],
    }
    assert with_rounds({"sampling": "poisson"}, 10) == {"sampling": "poisson"}


def test_the_strategy_is_made_for_the_longest_stretch(monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    chosen = plan(**CHECK_IN, mechanism="blt", restarts=[4, 20])
    strategy = chosen.build_strategy(30)
    assert strategy.stretches(30, chosen.restarts) == [4, 16, 10]
    with pytest.raises(PrivacyError):
        strategy.stretches(30)
    assert chosen.build_mechanism(30, strategy).name == "blt"
    assert plan(**CHECK_IN).build_strategy(30) is None


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        ({"noise_multiplier": 1e-200}, "noise_multiplier"),  # whose square is 0, and whose inverse overflows
        ({"noise_multiplier": 1e160}, "noise_multiplier"),  # together with others it came out above itself
        ({"clip_norm": 5e-324}, "clip_norm"),
        ({"clip_norm": 1e300}, "clip_norm"),
        ({"clip_schedule": [{"round": 3, "clip_norm": 1e-300}]}, "clip_norm"),
    ],
)
def test_numbers_that_floating_point_cannot_square_are_refused(changes, named):
    with pytest.raises(RecipeError, match=named):
        plan(**changes)
