"""Cohorts of honest samplers pass, those of samplers that do something else do not."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from tacit.data.users import names_of_numbers
from tacit.errors import LedgerError
from tacit.privacy.accounting import sampler_check
from tacit.privacy.accounting.sampler_check import check_sampler
from tacit.privacy.participation.cyclic import CyclicPoisson, groups_of
from tacit.privacy.participation.log import RecordedCohort
from tacit.privacy.participation.samplers import FixedSize, Poisson, Sampler
from tacit.privacy.record.records import Intent
from tests.support.draws import draws
from tests.support.made_up_ledgers import intent

Users = NDArray[np.int64]
Draw = Callable[[int, np.random.Generator], Users]
N, ROUNDS = 1_000, 60
HONEST = Poisson(0.05)
EVEN = FixedSize(50, N)


def pairs(sampler: Sampler, draw: Draw, rounds: int = ROUNDS, seed: int = 1) -> Iterator[tuple[Intent, RecordedCohort]]:
    generator = np.random.default_rng(seed)
    for number in range(rounds):
        users = np.asarray(draw(number, generator), np.int64)
        yield intent(number, sampler.describe()), RecordedCohort(number, 0, users, "")


def honest(sampler: Sampler, users: int = N) -> Draw:
    return lambda _, generator: sampler.sample(draws(generator, users))


@pytest.mark.parametrize("known", [True, False])
@pytest.mark.parametrize("sampler", [HONEST, EVEN, Poisson(1.0), FixedSize(N, N), Poisson(1e-4), FixedSize(1, N)])
def test_honest_samplers_pass(sampler: Sampler, known: bool) -> None:
    for seed in range(20):
        check_sampler(pairs(sampler, honest(sampler), seed=seed), N if known else None)
    check_sampler(pairs(sampler, honest(sampler), rounds=1), N if known else None)
    check_sampler(iter(()), N)


def test_an_honest_sampler_fails_about_as_rarely_as_promised(monkeypatch: pytest.MonkeyPatch) -> None:
    """With a false-alarm rate one can see: at most it, and not nearly never, or the tests would have no power."""
    monkeypatch.setattr(sampler_check, "FALSE_ALARM", 0.2)
    for sampler in (HONEST, EVEN):
        failed = 0
        for seed in range(150):
            try:
                check_sampler(pairs(sampler, honest(sampler), rounds=12, seed=seed), N)
            except LedgerError:
                failed += 1
        assert 1 <= failed <= 45  # 30 are expected at most; 45 or more in 2 of 1000 tries


def stuck(sampler: Sampler) -> Draw:
    return lambda number, _: sampler.sample(draws(np.random.default_rng(7), N))


def one_always(_: int, generator: np.random.Generator) -> Users:
    return np.union1d(HONEST.sample(draws(generator, N)), [17])


def topped_up(_: int, generator: np.random.Generator) -> Users:
    drawn = HONEST.sample(draws(generator, N))
    if len(drawn) >= 50:
        return drawn
    rest = np.setdiff1d(np.arange(N), drawn)
    return np.sort(np.concatenate([drawn, generator.choice(rest, 50 - len(drawn), replace=False)]))


TAMPERED: list[tuple[str, Sampler, Draw, str]] = [
    ("another q", HONEST, honest(Poisson(0.08)), "users"),
    ("fewer", HONEST, honest(Poisson(0.03)), "users"),
    (
        "one round of everybody",
        HONEST,
        lambda t, g: np.arange(N) if t == 9 else HONEST.sample(draws(g, N)),
        "round 9 has 1000 users",
    ),
    ("one empty round", HONEST, lambda t, g: HONEST.sample(draws(g, N))[: 0 if t == 9 else N], "round 9 has 0 users"),
    ("truncated", HONEST, lambda _, g: HONEST.sample(draws(g, N))[:50], "more than 50"),
    ("topped up", HONEST, topped_up, "fewer than 50"),
    ("exactly as many each time", HONEST, honest(EVEN), "nearly the same size"),
    ("the same cohort each time", HONEST, stuck(HONEST), "in 60 of 60"),
    ("one user in every round", HONEST, one_always, "a user is in 60 of 60"),
    ("only some of the users", Poisson(0.5), honest(Poisson(0.5), 900), "users"),
    ("the same cohort of fixed size", EVEN, stuck(EVEN), "repeats 50 users"),
    ("one more than the size", EVEN, honest(FixedSize(51, N)), "Expected 50 users"),
    ("a user who is not there", EVEN, lambda _, g: np.append(EVEN.sample(draws(g, N))[:-1], N), "names a user beyond"),
]


@pytest.mark.parametrize(
    ("sampler", "draw", "said"), [each[1:] for each in TAMPERED], ids=[each[0] for each in TAMPERED]
)
def test_a_tampered_sampler_is_caught(sampler: Sampler, draw: Draw, said: str) -> None:
    with pytest.raises(LedgerError, match=said):
        check_sampler(pairs(sampler, draw), N)


@pytest.mark.parametrize("known", [True, False])
@pytest.mark.parametrize("sampler", [HONEST, EVEN])
def test_a_draw_repeated_once_is_caught(sampler: Sampler, known: bool) -> None:
    with pytest.raises(LedgerError, match="round 1 repeats"):
        check_sampler(pairs(sampler, stuck(sampler), rounds=2), N if known else None)


def test_without_the_number_of_users_repeats_and_favourites_are_still_seen() -> None:
    for draw, said in ((stuck(HONEST), "in 60 of 60"), (one_always, "a user is in 60 of 60")):
        with pytest.raises(LedgerError, match=said):
            check_sampler(pairs(HONEST, draw), None)
    check_sampler(pairs(HONEST, honest(Poisson(0.06))), None)  # sizes alone cannot be judged


# Cyclic sampling.

NAMES = names_of_numbers(np.arange(N))
CYCLIC = CyclicPoisson(0.15, 3)


def in_turn(probability: float = 0.15, groups: int = 3, first: int = 0) -> Draw:
    """Honest cyclic draws, from the turn of group `first` on."""
    sampler = CyclicPoisson(probability, groups)
    sampler.begin(NAMES, round=0)
    for _ in range(first):
        sampler.remember(np.zeros(0, np.int64))
    return honest(sampler)


@pytest.mark.parametrize("names", [NAMES, None])
@pytest.mark.parametrize("probability", [0.15, 1.0, 1e-3])
def test_honest_cyclic_sampling_passes(probability: float, names: Any) -> None:
    for seed in range(20):
        check_sampler(pairs(CyclicPoisson(probability, 3), in_turn(probability), seed=seed), N, names=names)
    check_sampler(pairs(CyclicPoisson(probability, 3), in_turn(probability)), None)


def swapped(number: int, generator: np.random.Generator) -> Users:
    """In round 9, the group whose turn comes next."""
    drawn = in_turn(first=number + (number == 9))
    return drawn(number, generator)


def one_of_another_group(number: int, generator: np.random.Generator) -> Users:
    drawn = in_turn(first=number)(number, generator)
    stranger = np.flatnonzero(groups_of(NAMES, 3) != number % 3)[0]
    return np.union1d(drawn, [stranger]) if number == 9 else drawn


CYCLIC_TAMPERED: list[tuple[str, Draw, str]] = [
    ("no groups", honest(Poisson(0.05)), "whose group has its turn in other rounds"),
    ("other groups", in_turn(0.2, 4), "whose group has its turn in other rounds"),
    ("a turn too early", swapped, "round 9 has a user whose group"),
    ("one stranger", one_of_another_group, "round 9 has a user whose group"),
    ("another q", in_turn(0.25), "users"),
    ("the first of the group", lambda t, g: in_turn(first=t)(t, g)[:40], "more than 40"),
    (
        "the same cohort each time",
        lambda t, _: in_turn(first=t)(t, np.random.default_rng(7)),
        "users of its group's cohort",
    ),
]


@pytest.mark.parametrize(("draw", "said"), [each[1:] for each in CYCLIC_TAMPERED], ids=[e[0] for e in CYCLIC_TAMPERED])
def test_a_tampered_cyclic_sampler_is_caught(draw: Draw, said: str) -> None:
    with pytest.raises(LedgerError, match=said):
        check_sampler(pairs(CYCLIC, draw), N, names=NAMES)


@pytest.mark.parametrize("users", [N, None])
def test_without_names_a_user_in_rounds_of_two_groups_is_still_seen(users: int | None) -> None:
    for draw in (honest(Poisson(0.05)), swapped):
        with pytest.raises(LedgerError, match="whose group has its turn in other rounds"):
            check_sampler(pairs(CYCLIC, draw), users)


def test_names_must_be_those_of_all_users() -> None:
    with pytest.raises(LedgerError, match="name of every user"):
        check_sampler(pairs(CYCLIC, in_turn()), N, names=NAMES[1:])
    with pytest.raises(LedgerError, match="beyond those there are"):
        check_sampler(pairs(CYCLIC, lambda t, g: np.array([N])), N)


def test_fixed_size_rounds_need_the_population_they_claim() -> None:
    with pytest.raises(LedgerError, match="at least 1000 users to draw from"):
        check_sampler(pairs(EVEN, honest(EVEN, 900)), 900)
    check_sampler(pairs(EVEN, honest(EVEN, 1200)), 1200)  # more users are amplified more


def test_a_sampler_that_promises_no_law_is_passed_over() -> None:
    def all_there() -> Iterator[tuple[Intent, RecordedCohort]]:
        for made, cohort in pairs(HONEST, stuck(HONEST)):
            yield dataclasses.replace(made, sampling={"kind": "check_in"}), cohort

    check_sampler(all_there(), N)


def test_the_sentence_names_nobody() -> None:
    with pytest.raises(LedgerError) as caught:
        check_sampler(pairs(HONEST, one_always), N)
    assert " 17" not in caught.value.sentence


@pytest.mark.parametrize(
    ("k", "n", "q"), [(0, 10, 0.3), (4, 10, 0.3), (10, 10, 0.3), (11, 10, 0.3), (700, 10**6, 5e-4)]
)
def test_tails_are_exact(k: int, n: int, q: float) -> None:
    stats: Any = pytest.importorskip("scipy.stats")
    assert sampler_check._at_least(k, n, q) == pytest.approx(stats.binom.sf(k - 1, n, q), rel=1e-9)
    assert sampler_check._at_most(k, n, q) == pytest.approx(stats.binom.cdf(k, n, q), rel=1e-9)
    assert sampler_check._hypergeometric_at_least(4, 50, 10, 9) == pytest.approx(stats.hypergeom.sf(3, 50, 10, 9))
