"""Synthetic users take part at their own rate, and do not change the participation of real users."""

from __future__ import annotations

import numpy as np
from scipy import stats

from tacit.audit.plans import coin_plan
from tacit.data.canaries.synthetic_users import WithCoinUsers
from tacit.privacy.participation.samplers import CheckIn, FixedSize, OwnRate, Poisson
from tests.support.canary_words import DATA, WORDS
from tests.support.draws import draws
from tests.support.list_users import ListUsers, listed

PEOPLE, MADE_UP = 50, 189


def test_people_are_drawn_as_if_they_were_alone() -> None:
    for sampler in (Poisson(0.3), FixedSize(7, PEOPLE)):
        both = OwnRate(sampler, PEOPLE, 0.575)
        for seed in range(20):
            alone = sampler.sample(draws(np.random.default_rng(seed), PEOPLE))
            cohort = both.sample(draws(np.random.default_rng(seed), PEOPLE + MADE_UP))
            assert cohort[cohort < PEOPLE].tolist() == alone.tolist()
            assert (np.diff(cohort) > 0).all()
        assert both.describe() == sampler.describe()


def test_made_up_users_come_at_their_own_rate() -> None:
    both = OwnRate(Poisson(0.01), PEOPLE, 0.575)
    rng = np.random.default_rng(5)
    counts = np.zeros(PEOPLE + MADE_UP, np.int64)
    for _ in range(200):
        counts[both.sample(draws(rng, PEOPLE + MADE_UP))] += 1
    assert stats.binomtest(int(counts[PEOPLE:].sum()), MADE_UP * 200, 0.575).pvalue > 1e-7
    assert counts[PEOPLE:].min() > 0


def test_only_people_are_remembered() -> None:
    sampler = CheckIn(1, 0, 1)
    OwnRate(sampler, 2, 0.5).remember(np.array([0, 2, 3]))
    assert sampler.sample(draws(np.random.default_rng(0), 2)).tolist() == [1]


def test_canary_users_come_last_in_any_order_asked() -> None:
    people = [[[4, 5]], [], [[6]]]
    phrases = [("w1", "w2"), ("w3",), ("w4", "w5"), ("w6", "w7")]
    plan = coin_plan(phrases, DATA, seed=1, copies=2)
    ids = [[[5, 6]] * 2, [[7]] * 2, [[8, 9]] * 2, [[10, 11]] * 2]
    wanted = people + [each if is_in else [] for each, is_in in zip(ids, plan.coins(), strict=True)]
    users = WithCoinUsers(ListUsers(people), plan, WORDS)
    assert listed(users) == wanted
    assert listed(users, [6, 0, 3, 6]) == [wanted[6], wanted[0], wanted[3], wanted[6]]
    assert listed(WithCoinUsers(ListUsers(people), plan, WORDS, all_in=True)) == people + ids
    assert users.example_counts().tolist() == [len(user) for user in wanted]
