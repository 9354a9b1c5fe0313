"""The threshold's delta: an upper bound on how often the words of one user alone are shown, and a tight one."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import norm

from tacit.errors import PrivacyError
from tacit.privacy.discovery.shares import SharesRule
from tacit.privacy.discovery.threshold import threshold_delta, threshold_for

RULES = st.builds(SharesRule, st.integers(1, 10_000), st.floats(0.01, 1))


@given(st.floats(1e-12, 0.5), st.floats(0.1, 100), RULES)
def test_the_threshold_has_the_delta_that_was_asked_for(delta: float, noise: float, rule: SharesRule) -> None:
    found = threshold_for(delta, noise, rule)
    assert threshold_delta(found, noise, rule) <= delta
    assert threshold_delta(found - 1e-6 * noise, noise, rule) > delta


@given(st.floats(0.1, 10), st.integers(1, 50), st.floats(0.05, 1), st.floats(0, 8), st.integers(0, 2**32 - 1))
def test_no_user_is_worse_than_the_bound(noise: float, words: int, largest: float, above: float, seed: int) -> None:
    """Whatever the shares of a user are, the probability that one of their words passes is at most the stated delta."""
    rule, draw = SharesRule(words, largest), np.random.default_rng(seed)
    threshold = largest + above * noise
    counts = {str(number): int(count) for number, count in enumerate(draw.integers(1, 1000, words))}
    shares = np.array(list(rule.shares(counts).values())) * 2.0**-30
    missed = np.prod(norm.cdf((threshold - shares) / noise))
    assert 1 - missed <= threshold_delta(threshold, noise, rule) + 1e-12


def test_by_hand() -> None:
    """Five words, noise 2, threshold 9: 5 · Φ̄(4) = 1.58e-4."""
    rule = SharesRule(5, 1.0)
    assert threshold_delta(9.0, 2.0, rule) == pytest.approx(5 * norm.sf(4), rel=1e-8)
    assert threshold_for(5 * norm.sf(4), 2.0, rule) == pytest.approx(9, abs=1e-6)


def test_without_noise_nothing_is_proven() -> None:
    assert threshold_delta(9.0, 0.0, SharesRule()) == 1.0
    assert threshold_delta(math.nan, 1.0, SharesRule()) == 1.0


@pytest.mark.parametrize("delta", [0.0, -1e-9, 1.0, math.nan])
def test_a_delta_that_no_threshold_has_is_refused(delta: float) -> None:
    with pytest.raises(PrivacyError, match="threshold delta"):
        threshold_for(delta, 1.0, SharesRule())


@pytest.mark.parametrize("noise", [0.0, -1.0, math.inf, math.nan])
def test_a_threshold_needs_noise(noise: float) -> None:
    with pytest.raises(PrivacyError, match="Expected noise above 0"):
        threshold_for(1e-6, noise, SharesRule())


def test_a_delta_far_below_what_floating_point_can_show_is_refused() -> None:
    with pytest.raises(PrivacyError, match="No threshold"):
        threshold_for(1e-320, 1.0, SharesRule(10_000, 1.0))
