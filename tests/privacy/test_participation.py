"""Samplers follow exactly the law that is accounted."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from tacit.privacy.participation import FixedSize, Poisson
from tacit.privacy.randomness import Randomness

RANDOMNESS = Randomness(b"\x05" * 32)


def cohorts(sampler, users: int, rounds: int) -> np.ndarray:
    """[rounds, users] of who took part."""
    took_part = np.zeros((rounds, users), bool)
    for round in range(rounds):
        chosen = sampler.sample(users, RANDOMNESS.sampler(round=round, attempt=0))
        assert (np.diff(chosen) > 0).all()
        took_part[round, chosen] = True
    return took_part


def test_poisson_counts_are_binomial_and_users_independent():
    took_part = cohorts(Poisson(0.3), 200, 2_000)
    counts = took_part.sum(axis=1)
    expected = stats.binom(200, 0.3)
    edges = expected.ppf(np.linspace(0.1, 0.9, 9))
    observed = np.histogram(counts, [-1, *edges, 201])[0]
    probability = np.diff([0, *expected.cdf(np.ceil(edges) - 1), 1])
    assert stats.chisquare(observed, probability * 2_000).pvalue > 1e-4
    together = (took_part[:, 0] & took_part[:, 1]).mean()
    assert together == pytest.approx(0.09, abs=0.03)
    rate = stats.binomtest(int(took_part.sum()), took_part.size, 0.3)
    assert rate.pvalue > 1e-4


@pytest.mark.parametrize(("probability", "expected"), [(1.0, 50), (0.0, 0)])
def test_poisson_limits(probability, expected):
    assert len(Poisson(probability).sample(50, RANDOMNESS.sampler(round=0, attempt=0))) == expected


def test_fixed_size_is_uniform_without_replacement():
    took_part = cohorts(FixedSize(7, 40), 40, 3_000)
    assert (took_part.sum(axis=1) == 7).all()
    assert stats.chisquare(took_part.sum(axis=0)).pvalue > 1e-4


def test_another_attempt_draws_another_cohort():
    first, second = (Poisson(0.5).sample(100, RANDOMNESS.sampler(round=3, attempt=a)) for a in (0, 1))
    assert first.tolist() != second.tolist()
