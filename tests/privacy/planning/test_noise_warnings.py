"""A start that will go badly is said beforehand, and a sound one is not talked about."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tacit.privacy.plan import PrivacyPlan
from tacit.privacy.planning.noise_warnings import noise_norm, warnings_of


def plan(**changes: Any) -> PrivacyPlan:
    fields = {"population": 10**6, "cohort": 6_500, "clip_norm": 5.0, "noise_multiplier": 7.0, "delta": 1e-7, **changes}
    return PrivacyPlan(**fields)


def test_the_norm_is_that_of_noise_on_a_mean():
    drawn = np.random.default_rng(0).normal(0, 7.0 * 5.0, 20_000) / 6_500
    assert noise_norm(plan(), 20_000) == pytest.approx(np.linalg.norm(drawn), rel=0.02)


def test_gboards_own_run_is_not_warned_of():
    assert warnings_of(plan(), parameters=2_400_000, model_norm=60.0, server_rate=1.0) == []


def test_a_small_cohort_with_the_noise_of_a_large_one_is():
    (said,) = warnings_of(plan(cohort=500), parameters=2_400_000, model_norm=1e9, server_rate=1.0)
    assert "21.7 times as long" in said
    assert "privacy.cohort" in said


def test_a_clip_to_begin_with_that_is_far_too_large_is():
    (said,) = warnings_of(plan(clip_norm=1_000.0, adaptive={}), parameters=2_400_000, model_norm=60.0, server_rate=1.0)
    assert "more than all of it measures (60)" in said
    assert (
        warnings_of(plan(clip_norm=1_000.0, adaptive={}), parameters=2_400_000, model_norm=1e4, server_rate=1.0) == []
    )


def test_without_noise_there_is_nothing_to_say():
    quiet = plan(mechanism="none", noise_multiplier=0.0, clip_norm=None)
    assert warnings_of(quiet, parameters=10, model_norm=0.0, server_rate=1.0) == []
