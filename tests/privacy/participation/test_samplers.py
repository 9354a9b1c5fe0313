"""Samplers follow exactly the law that is accounted."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from tacit.errors import PrivacyError
from tacit.privacy.participation.limits import realised
from tacit.privacy.participation.samplers import CheckIn, Poisson
from tacit.privacy.plan import PrivacyPlan
from tacit.testing.participation import ParticipationContract, cohorts, words

SETTINGS = {"population": 120, "cohort": 12, "clip_norm": 1.0, "noise_multiplier": 1.0, "delta": 1e-5}


class TestPoisson(ParticipationContract):
    plan = PrivacyPlan(**SETTINGS)


class TestFixedSize(ParticipationContract):
    plan = PrivacyPlan(**SETTINGS, sampling="fixed")


class TestCheckIn(ParticipationContract):
    plan = PrivacyPlan(**SETTINGS, sampling="check_in", min_separation=5, max_participation=3)


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
    assert len(Poisson(probability).sample(words(50, round=0, attempt=0))) == expected


def test_another_attempt_draws_another_cohort():
    first, second = (Poisson(0.5).sample(words(100, round=3, attempt=a)) for a in (0, 1))
    assert first.tolist() != second.tolist()


@pytest.mark.parametrize(("gap", "times", "rounds"), [(0, 100, 30), (3, 5, 20), (6, 2, 14)])
def test_nobody_checks_in_too_soon_or_too_often(gap, times, rounds):
    sampler = CheckIn(10, gap, times)
    took_part = cohorts(sampler, 75, rounds)
    assert (took_part.sum(axis=1) == 10).all()
    assert took_part.sum(axis=0).max() <= times
    for user in took_part.T:
        assert (np.diff(np.flatnonzero(user)) > gap).all()
    seen = realised([np.flatnonzero(row) for row in took_part])
    assert seen.observed
    assert seen.min_separation >= gap
    assert seen.max_participation == took_part.sum(axis=0).max()


def test_too_few_who_may_come_is_one_sentence():
    sampler = CheckIn(10, 2, 9)
    sampler.sample(words(15, round=0, attempt=0))
    with pytest.raises(PrivacyError, match="Expected 10 users who may take part in round 1, got 5"):
        sampler.sample(words(15, round=1, attempt=0))


def test_what_cohorts_show():
    rounds = [np.array(users) for users in ([0, 1], [2], [3], [0, 3])]
    seen = realised(rounds)
    assert (seen.min_separation, seen.max_participation) == (0, 2)  # user 3 came twice in a row
    assert realised(rounds[:3]).min_separation == 3  # nobody came twice
    assert realised(rounds[:3]).max_participation == 1
    assert realised([]).max_participation == 0
