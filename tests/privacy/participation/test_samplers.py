"""Samplers follow exactly the law that is accounted."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from tacit.data.users import names_of_numbers
from tacit.errors import PrivacyError
from tacit.privacy.participation.cyclic import CyclicPoisson
from tacit.privacy.participation.limits import realised
from tacit.privacy.participation.samplers import CheckIn, FixedSize, OwnRate, Poisson, Sampler
from tacit.privacy.plan import PrivacyPlan
from tacit.simulation.population.sampler import DeviceCheckIns
from tacit.simulation.population.settings import PopulationSettings
from tacit.testing.participation import ParticipationContract, cohorts, words
from tests.support.implementations import covered, implementations

SETTINGS = {"population": 120, "cohort": 12, "clip_norm": 1.0, "noise_multiplier": 1.0, "delta": 1e-5}


class TestPoisson(ParticipationContract):
    implementation = Poisson
    plan = PrivacyPlan(**SETTINGS)


class TestFixedSize(ParticipationContract):
    implementation = FixedSize
    plan = PrivacyPlan(**SETTINGS, sampling="fixed")


class TestCheckIn(ParticipationContract):
    implementation = CheckIn
    plan = PrivacyPlan(**SETTINGS, sampling="check_in", min_separation=5, max_participation=3)


class TestCheckInWithoutSeparation(ParticipationContract):
    implementation = CheckIn
    plan = PrivacyPlan(**SETTINGS, sampling="check_in", min_separation=0, max_participation=100)


class TestCheckInRarely(ParticipationContract):
    """All but a few of the users are needed: almost everybody comes as soon and as often as they may."""

    implementation = CheckIn
    plan = PrivacyPlan(**SETTINGS, sampling="check_in", min_separation=8, max_participation=3)


class TestCyclicPoisson(ParticipationContract):
    implementation = CyclicPoisson
    plan = PrivacyPlan(**SETTINGS, mechanism="banded", sampling="cyclic_poisson", bands=4)

    def build(self) -> Sampler:
        sampler = self.plan.build_sampler()
        assert isinstance(sampler, CyclicPoisson)
        sampler.begin(names_of_numbers(np.arange(self.users)), round=0)
        return sampler


class TestOwnRate(ParticipationContract):
    """As many synthetic users as a sixth of the people, at the same rate, so that all together are Poisson-sampled."""

    implementation = OwnRate
    plan = PrivacyPlan(**SETTINGS)
    users = 140

    def build(self) -> Sampler:
        return OwnRate(self.plan.build_sampler(), people=120, probability=0.1)


class TestDeviceCheckIns(ParticipationContract):
    """The rounds of a simulated population, whose devices come when they can."""

    implementation = DeviceCheckIns
    plan = PrivacyPlan(**SETTINGS, sampling="check_in", min_separation=3, max_participation=9)

    def build(self) -> Sampler:
        limits = {"min_separation": self.plan.min_separation, "max_participation": self.plan.max_participation}
        return DeviceCheckIns(PopulationSettings(devices=120, report_goal=12, timer_hours=1.0, **limits), seed=1)


def test_no_sampler_is_forgotten():
    assert covered(globals(), ParticipationContract) == implementations(Sampler)


class _AnyUsers(CheckIn):
    """Does not look who was there."""

    def sample(self, draws):
        return np.sort(np.argsort(draws)[: self.size])


class _Forgets(CheckIn):
    """Remembers what it samples, and not what it is told."""

    def sample(self, draws):
        chosen = super().sample(draws)
        CheckIn.remember(self, chosen)
        return chosen

    def remember(self, users):
        pass


class _SaysLess(CheckIn):
    def describe(self):
        return {"kind": "check_in", "size": self.size}


@pytest.mark.parametrize(
    ("broken", "promise"),
    [
        (_AnyUsers, "test_nobody_takes_part_too_soon_or_too_often"),
        (_Forgets, "test_a_resumed_run_goes_on_with_the_same_cohorts"),
        (_SaysLess, "test_it_describes_the_constants_that_are_accounted"),
    ],
)
def test_the_contract_notices_a_sampler_that_breaks_it(broken, promise):
    class Broken(TestCheckIn):
        def build(self):
            return broken(12, 5, 3)

    with pytest.raises(AssertionError):
        getattr(Broken(), promise)()


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
