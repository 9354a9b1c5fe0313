"""The sampler against the definition: χ², a scale that is 5% off is noticed, and the exact path where float64 is in doubt."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from scipy.stats import chi2

from tacit.errors import ProtocolError
from tacit.secagg import discrete_gaussian
from tacit.secagg.discrete_gaussian import Bits, sampled
from tests.support.secagg_round import replayable


def misfit(samples: np.ndarray, variance: float) -> float:
    """The p-value of a χ² test against N_Z(0, variance), with bins of at least five expected samples."""
    reach = int(12 * math.sqrt(variance)) + 2
    values = np.arange(-reach, reach + 1)
    weights = np.exp(-(values.astype(float) ** 2) / (2 * variance))
    expected = weights / weights.sum() * len(samples)
    observed = np.bincount(samples + reach, minlength=len(values))
    inside = expected >= 5
    width = max(1, inside.sum() // 200)  # a test of many thin bins would notice little
    groups = np.cumsum(inside) // width * inside
    expected_bins = np.bincount(groups, weights=expected)
    observed_bins = np.bincount(groups, weights=observed)
    kept = expected_bins > 0
    statistic = ((observed_bins - expected_bins)[kept] ** 2 / expected_bins[kept]).sum()
    return float(chi2.sf(statistic, kept.sum() - 1))


@pytest.mark.parametrize("variance", [1, 2, 7, 400, 10**6])
def test_samples_have_the_stated_distribution(variance):
    samples = sampled(variance, 200_000, entropy=replayable(variance))
    assert misfit(samples, variance) > 0.001
    assert misfit(samples, variance * 1.05) < 1e-6


def test_samples_are_independent_of_each_other():
    samples = sampled(100, 200_000, entropy=replayable(3)).astype(float)
    for lag in (1, 2, 7):
        assert abs(np.corrcoef(samples[:-lag], samples[lag:])[0, 1]) < 5 / math.sqrt(200_000)


def test_the_exact_path_has_the_same_distribution(monkeypatch):
    """Every coin is settled by exact arithmetic."""
    settled, exact = [], discrete_gaussian._settled

    def watched(word: int, gamma: Fraction, bits: Bits) -> bool:
        settled.append(exact(word, gamma, bits))
        return settled[-1]

    monkeypatch.setattr(discrete_gaussian, "_DOUBT", 2.0)
    monkeypatch.setattr(discrete_gaussian, "_settled", watched)
    samples = sampled(3, 1000, entropy=replayable(4))
    assert len(settled) > 3000
    assert 0 < sum(settled) < len(settled)
    assert misfit(samples, 3) > 0.001
    assert misfit(samples, 4.5) < 0.001


def test_a_tie_in_the_drawn_bits_is_settled_by_further_bits():
    """exp(-1) · 2⁶⁴ = 6786177901268885274.72996…: with these first 64 bits the coin comes up in 73% of all cases."""
    bits, tied = Bits(replayable(5)), 6786177901268885274
    assert discrete_gaussian._settled(tied - 1, Fraction(1), bits)
    assert not discrete_gaussian._settled(tied + 1, Fraction(1), bits)
    ups = sum(discrete_gaussian._settled(tied, Fraction(1), bits) for _ in range(600))
    assert abs(ups / 600 - 0.72996) < 4.5 * math.sqrt(0.73 * 0.27 / 600)
    assert discrete_gaussian._settled(2**64 - 1, Fraction(0), bits)


def test_uniform_numbers_are_uniform():
    drawn = discrete_gaussian._below(5, 100_000, Bits(replayable(6)))
    counts = np.bincount(drawn, minlength=5)
    assert len(counts) == 5
    assert chi2.sf(((counts - len(drawn) / 5) ** 2 / (len(drawn) / 5)).sum(), 4) > 0.001


def test_limits():
    assert not sampled(0, 10, entropy=replayable(0)).any()
    assert len(sampled(5, 0, entropy=replayable(0))) == 0
    assert len(sampled(5, 1, entropy=replayable(0))) == 1
    for variance in (-1, (1 << 30) + 1):
        with pytest.raises(ProtocolError, match="integer variance"):
            sampled(variance, 1, entropy=replayable(0))
