"""What every participation promises: who takes part follows from the users' own words and is what the ledger says."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import stats

from tacit.data.users import names_of_numbers
from tacit.privacy.noise.randomness import Randomness
from tacit.privacy.participation.limits import realised
from tacit.privacy.participation.samplers import Draws, Sampler
from tacit.privacy.plan import PrivacyPlan

RANDOMNESS = Randomness(b"\x05" * 32)


def words(users: int, round: int, attempt: int = 0) -> Draws:
    """One uniform word for each user, as a run draws them."""
    return RANDOMNESS.draws(names_of_numbers(np.arange(users)), round=round, attempt=attempt)


def cohorts(sampler: Sampler, users: int, rounds: int) -> NDArray[np.bool_]:
    """[rounds, users] of who took part."""
    took_part = np.zeros((rounds, users), bool)
    for round in range(rounds):
        chosen = sampler.sample(words(users, round))
        assert (np.diff(chosen) > 0).all(), "users' numbers must be ascending, each of them once"
        took_part[round, chosen] = True
    return took_part


class ParticipationContract:
    """Inherit, and give the `plan` that builds it, for `users` users and at least 20 rounds."""

    plan: PrivacyPlan
    rounds = 20

    @property
    def users(self) -> int:
        return self.plan.population

    def build(self) -> Sampler:
        """The participation, before its first round."""
        return self.plan.build_sampler()

    def law(self) -> str | None:
        """The law that it promises; None where it promises none."""
        return getattr(self.build(), "law", self.plan.sampling)

    def test_cohorts_are_users_in_ascending_order(self) -> None:
        sampler = self.build()
        for round in range(self.rounds):
            chosen = sampler.sample(words(self.users, round))
            assert chosen.dtype.kind == "i"
            assert (np.diff(chosen) > 0).all()
            assert len(chosen) == 0 or (chosen[0] >= 0 and chosen[-1] < self.users)

    def test_the_same_words_choose_the_same_users(self) -> None:
        one, other = (cohorts(self.build(), self.users, self.rounds) for _ in range(2))
        np.testing.assert_array_equal(one, other)

    def test_it_describes_the_constants_that_are_accounted(self) -> None:
        assert self.build().describe() == self.plan.sampling_constants

    def test_a_resumed_run_goes_on_with_the_same_cohorts(self) -> None:
        whole, resumed = self.build(), self.build()
        for round in range(self.rounds // 2):
            resumed.remember(whole.sample(words(self.users, round)))
        for round in range(self.rounds // 2, self.rounds):
            draws = words(self.users, round)
            np.testing.assert_array_equal(whole.sample(draws), resumed.sample(draws))

    def test_poisson_users_are_drawn_independently_at_the_stated_rate(self) -> None:
        if self.law() != "poisson":
            pytest.skip("it does not promise Poisson sampling")
        took_part = cohorts(self.build(), self.users, 400)
        rate = self.plan.sampling_probability
        assert stats.binomtest(int(took_part.sum()), took_part.size, rate).pvalue > 1e-4
        counts = took_part.sum(axis=1)
        spread = counts.var(ddof=1) / (self.users * rate * (1 - rate)) * (len(counts) - 1)
        assert 1e-4 < stats.chi2.cdf(spread, len(counts) - 1) < 1 - 1e-4
        assert stats.chisquare(took_part.sum(axis=0)).pvalue > 1e-4
        # Nobody's participation depends on whether another user is there.
        draws = words(self.users, 0)
        fewer = self.build().sample(draws[:-1])
        np.testing.assert_array_equal(fewer, [each for each in self.build().sample(draws) if each < self.users - 1])

    def test_fixed_cohorts_have_the_stated_size_and_are_uniform(self) -> None:
        if self.law() != "fixed":
            pytest.skip("it does not promise cohorts of a fixed size")
        took_part = cohorts(self.build(), self.users, 400)
        assert (took_part.sum(axis=1) == self.plan.cohort).all()
        assert stats.chisquare(took_part.sum(axis=0)).pvalue > 1e-4

    def test_nobody_takes_part_too_soon_or_too_often(self) -> None:
        if self.law() != "check_in":
            pytest.skip("it does not promise how often users take part")
        took_part = cohorts(self.build(), self.users, self.rounds)
        assert (took_part.sum(axis=1) == self.plan.cohort).all()
        seen = realised([np.flatnonzero(row) for row in took_part])
        assert self.plan.min_separation is not None
        assert self.plan.max_participation is not None
        assert seen.max_participation <= self.plan.max_participation
        assert seen.max_participation < 2 or seen.min_separation >= self.plan.min_separation
