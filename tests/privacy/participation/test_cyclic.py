"""Cyclic Poisson sampling draws from the group whose turn it is, each user by their own coin; groups follow from names."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import stats

from tacit.data.users import names_of_numbers
from tacit.errors import PrivacyError
from tacit.privacy.participation.cyclic import CyclicPoisson, groups_of
from tacit.privacy.participation.limits import realised
from tacit.testing.participation import cohorts, words

USERS, GROUPS, Q = 300, 3, 0.3
NAMES = names_of_numbers(np.arange(USERS))


def begun(probability: float = Q, groups: int = GROUPS) -> CyclicPoisson:
    sampler = CyclicPoisson(probability, groups)
    sampler.begin(NAMES, round=0)
    return sampler


def test_a_round_draws_its_own_group_alone_and_each_of_its_users_at_the_stated_rate() -> None:
    rounds = 600
    took_part, group = cohorts(begun(), USERS, rounds), groups_of(NAMES, GROUPS)
    turn = group[None, :] == (np.arange(rounds) % GROUPS)[:, None]  # [rounds, users]
    assert not took_part[~turn].any()
    assert stats.binomtest(int(took_part.sum()), int(turn.sum()), Q).pvalue > 1e-4
    # Every user alike, and no two of them together: neither users' counts nor cohorts' sizes spread more, or less.
    for axis in (0, 1):
        possible, seen = turn.sum(axis=axis), took_part.sum(axis=axis)
        spread = float(((seen - possible * Q) ** 2 / (possible * Q * (1 - Q))).sum())
        assert 1e-4 < stats.chi2.cdf(spread, len(seen)) < 1 - 1e-4
    # A user's coins in two turns that follow each other are independent.
    mine = [took_part[g::GROUPS, group == g].astype(float) for g in range(GROUPS)]
    both = np.concatenate([(each[1:] * each[:-1]).ravel() for each in mine])
    assert stats.binomtest(int(both.sum()), len(both), Q**2).pvalue > 1e-4


def test_participations_are_a_whole_number_of_cycles_apart() -> None:
    took_part = cohorts(begun(0.9), USERS, 12)
    assert realised([np.flatnonzero(row) for row in took_part]).min_separation == GROUPS - 1
    assert took_part.sum(axis=0).max() <= 4


def test_with_probability_one_everybody_has_their_turn() -> None:
    assert (cohorts(begun(1.0), USERS, GROUPS).sum(axis=0) == 1).all()


def test_one_group_is_everybody() -> None:
    sampler = begun(0.5, 1)
    drawn = words(USERS, 0)
    np.testing.assert_array_equal(sampler.sample(drawn), np.flatnonzero(drawn < np.uint64(2**63)))


# Groups.


def test_groups_are_about_equally_large() -> None:
    assert stats.chisquare(np.bincount(groups_of(names_of_numbers(np.arange(7_000)), 7))).pvalue > 1e-4


def test_a_group_depends_on_the_users_own_name_alone() -> None:
    """Not on the row, not on who else is there, not on how many there are."""
    group = dict(zip(map(tuple, NAMES.tolist()), groups_of(NAMES, GROUPS).tolist(), strict=True))
    rng = np.random.default_rng(1)
    for _ in range(5):
        some = rng.permutation(USERS)[: int(rng.integers(1, USERS))]
        found = groups_of(NAMES[some], GROUPS).tolist()
        assert found == [group[tuple(name)] for name in NAMES[some].tolist()]


def test_groups_are_the_same_in_every_version() -> None:
    """A resumed run needs the groups that it began with, also under a later version of Tacit."""
    assert groups_of(NAMES[:12], 4).tolist() == [3, 0, 2, 1, 0, 2, 1, 1, 0, 2, 3, 2]


def test_groups_say_nothing_about_who_is_held_out() -> None:
    """Whoever is held out is so by the second word of their name: groups must not be cut out of the same bits."""
    rng = np.random.default_rng(2)
    names: NDArray[np.uint64] = rng.integers(0, 2**64, (4_000, 2), np.uint64)
    held_out = names[:, 1] < np.uint64(2**62)
    table = [np.bincount(groups_of(names[which], 4)) for which in (held_out, ~held_out)]
    assert stats.chi2_contingency(np.array(table)).pvalue > 1e-4


# What it needs.


def test_without_names_nobody_is_drawn() -> None:
    with pytest.raises(PrivacyError, match="names of all users"):
        CyclicPoisson(Q, GROUPS).sample(words(USERS, 0))
    with pytest.raises(PrivacyError, match="names of all users"):
        begun().sample(words(USERS - 1, 0))


def test_a_resumed_run_remembers_as_many_rounds_as_it_ran() -> None:
    sampler = CyclicPoisson(Q, GROUPS)
    sampler.remember(np.arange(3))
    with pytest.raises(PrivacyError, match="cohorts of 2 rounds before round 2, got 1"):
        sampler.begin(NAMES, round=2)
    sampler.begin(NAMES, round=1)
    assert set(groups_of(NAMES, GROUPS)[sampler.sample(words(USERS, 1))].tolist()) == {1}
