"""The clip follows the quantile, and moves only when it may."""

from __future__ import annotations

import math

import numpy as np
import pytest

from tacit.privacy.gate.sums import ClipThresholds
from tacit.privacy.gate.thresholds import FARTHEST, AdaptiveClip, FixedClip

NORMS = np.exp(np.random.default_rng(1).normal(0.7, 0.5, 400))  # of 400 users, in any unit


def bits_released(threshold: float) -> dict[str, float]:
    """The sum of b - 1/2 without noise."""
    return {"within": float(np.where(threshold >= NORMS, 0.5, -0.5).sum())}


@pytest.mark.parametrize("quantile", [0.2, 0.5, 0.8])
@pytest.mark.parametrize("start", [0.01, 100.0])
def test_the_estimate_goes_to_the_quantile(quantile, start):
    clip = AdaptiveClip(start, quantile, 0.2, reports=len(NORMS), changes_at=None)
    state = clip.init()
    for round in range(300):
        state = clip.learn(state, bits_released(clip.norms(state, round).threshold), round)
    assert (float(state["estimate"]) >= NORMS).mean() == pytest.approx(quantile, abs=0.02)
    assert float(state["active"]) == float(state["estimate"])


def test_one_step_is_the_papers():
    clip = AdaptiveClip(2.0, 0.5, 0.2, reports=10, changes_at=None)
    state = clip.learn(clip.init(), {"within": 3.0}, 0)  # eight of ten within
    assert float(state["estimate"]) == pytest.approx(2.0 * math.exp(-0.2 * (0.8 - 0.5)))


def test_under_correlated_noise_the_clip_waits_for_a_restart():
    clip = AdaptiveClip(1.0, 0.5, 0.2, reports=10, changes_at=(3,))
    state, active = clip.init(), []
    for round in range(5):
        norms = clip.norms(state, round)
        active.append(norms.clip)
        assert norms.threshold == pytest.approx(math.exp(-0.1 * round))
        state = clip.learn(state, {"within": 5.0}, round)  # everybody within
    assert active == pytest.approx([1.0, 1.0, 1.0, math.exp(-0.3), math.exp(-0.3)])


def test_noise_that_telescopes_is_not_cut_off():
    clip = AdaptiveClip(1.0, 0.5, 0.2, reports=10, changes_at=None)
    state = clip.learn(clip.learn(clip.init(), {"within": 80.0}, 0), {"within": -80.0}, 1)
    assert float(state["estimate"]) == pytest.approx(1.0)


def test_a_wild_release_leaves_a_number():
    clip = AdaptiveClip(1.0, 0.5, 0.2, reports=10, changes_at=None)
    assert float(clip.learn(clip.init(), {"within": -1e9}, 0)["active"]) == pytest.approx(FARTHEST)
    assert float(clip.learn(clip.init(), {"within": 1e9}, 0)["active"]) == pytest.approx(1 / FARTHEST)


def test_a_fixed_clip_is_the_plans_and_learns_nothing():
    clip = FixedClip(lambda round: 1.0 if round < 3 else 0.5)
    assert [clip.norms((), round) for round in (2, 3)] == [ClipThresholds(1.0), ClipThresholds(0.5)]
    assert clip.learn((), {"within": 3.0}, 0) == ()
