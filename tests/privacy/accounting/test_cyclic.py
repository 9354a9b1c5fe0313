"""Banded noise on cyclically sampled users: against the library, against every row of the matrix, and under attack."""

from __future__ import annotations

import dataclasses
import itertools
import math
from pathlib import Path
from typing import Any

import dp_accounting
import numpy as np
import pytest
from dp_accounting.pld import PLDAccountant
from hypothesis import given
from hypothesis import strategies as st

import tacit
from tacit.errors import PrivacyError, RecipeError
from tacit.privacy.accounting.composition import Sampled
from tacit.privacy.accounting.cyclic import cyclic_rounds, squared_norms
from tacit.privacy.accounting.releases import branches_of
from tacit.privacy.accounting.sampled_gaussian import SampledRounds, epsilon
from tacit.privacy.accounting.several_runs import together
from tacit.privacy.accounting.spent import Spent, spent_by
from tacit.privacy.noise.strategies import BandedToeplitz, BufferedToeplitz, Tree
from tacit.privacy.noise.tail import apart_from_tail
from tacit.privacy.plan import PrivacyPlan
from tacit.privacy.record.ledger import LedgerWriter
from tacit.privacy.record.planned import planned_intents
from tacit.privacy.record.records import Intent, Opened, extended
from tests.support.planned_ledgers import opened_with

BAND = BandedToeplitz((1.0, 0.6, 0.3), 40)
Floats = np.ndarray


def plan(bands: int = 3, **changes: Any) -> PrivacyPlan:
    fields: dict[str, Any] = {
        "mechanism": "banded",
        "sampling": "cyclic_poisson",
        "bands": bands,
        "population": 1_000,
        "cohort": 100,
        "clip_norm": 0.5,
        "noise_multiplier": 2.0,
        "delta": 1e-5,
    }
    return PrivacyPlan(**(fields | changes))


def spent(
    chosen: PrivacyPlan, strategy: Any, rounds: int, intents: list[Intent] | None = None, **changes: Any
) -> Spent:
    opened = opened_with(chosen, rounds=rounds, strategy=strategy.describe(), **changes)
    return spent_by(opened, planned_intents(chosen, rounds) if intents is None else intents)


def by_the_library(probability: float, noise_multiplier: float, count: int, delta: float) -> float:
    once = dp_accounting.PoissonSampledDpEvent(probability, dp_accounting.GaussianDpEvent(noise_multiplier))
    return float(PLDAccountant().compose(once, count).get_epsilon(delta))


# What it costs.


@pytest.mark.parametrize(("rounds", "count"), [(12, 4), (3, 1), (30, 10)])
def test_it_is_the_sampled_gaussian_composed_once_for_each_turn(rounds: int, count: int) -> None:
    found = spent(plan(), BAND, rounds)
    norm = math.sqrt(1 + 0.6**2 + 0.3**2)
    expected = by_the_library(0.3, 2.0 / norm, count, apart_from_tail(1e-5))
    assert found.epsilon == pytest.approx(expected, rel=1e-6)
    assert (found.adjacency, found.rho) == ("add or remove one user", None)
    assert any("nobody else learns who was in which cohort" in each for each in found.assumptions)


def test_a_turn_that_the_run_cuts_short_costs_less_and_never_nothing() -> None:
    whole, more, next_whole = (spent(plan(), BAND, rounds).epsilon for rounds in (12, 13, 15))
    assert whole < more < next_whole


def test_one_band_is_poisson_sampling_to_the_last_digit() -> None:
    alone = BandedToeplitz((1.0,), 10)
    ordinary = plan(bands=1).model_copy(update={"mechanism": "gaussian", "sampling": "poisson", "bands": None})
    poisson = spent_by(opened_with(ordinary, rounds=10), planned_intents(ordinary, 10))
    assert spent(plan(bands=1), alone, 10).epsilon == poisson.epsilon
    again = [Intent(**{**vars(each), "attempt": 1}) for each in planned_intents(plan(bands=1), 10)[7:9]]
    lost = [*planned_intents(plan(bands=1), 9), *again]
    as_poisson = [dataclasses.replace(each, sampling=ordinary.sampling_constants) for each in lost]
    found = spent(plan(bands=1), alone, 10, lost).epsilon
    assert found == spent_by(opened_with(ordinary, rounds=10), as_poisson).epsilon > poisson.epsilon


def test_fewer_rounds_than_groups_are_one_participation() -> None:
    exposed = cyclic_rounds(
        planned_intents(plan(), 2), [[0, 1]], BAND.coefficients, probability=0.3, groups=3, noise_multiplier=2.0
    )
    assert [(each.count, each.sampling) for each in exposed] == [(1, {"kind": "poisson", "probability": 0.3})]
    assert exposed[0].noise_multiplier == pytest.approx(2.0 / math.sqrt(1 + 0.6**2))


def test_a_band_narrower_than_the_groups_is_proven_too() -> None:
    narrow = BandedToeplitz((1.0, 0.6), 40)
    assert spent(plan(), narrow, 12).epsilon < spent(plan(), BAND, 12).epsilon


def test_negative_coefficients_count_by_their_squares() -> None:
    assert spent(plan(), BandedToeplitz((1.0, -0.6, 0.3), 40), 12).epsilon == spent(plan(), BAND, 12).epsilon


# What is refused.


@pytest.mark.parametrize(
    ("strategy", "said"),
    [
        (BandedToeplitz((1.0, 0.6, 0.3, 0.1), 40), "over 4 rounds, and cyclic sampling has 3 groups"),
        (BufferedToeplitz((0.5,), (0.3,), 40), "does not describe"),
        (Tree(), "does not describe"),
    ],
)
def test_a_strategy_that_is_not_banded_costs_everything(strategy: Any, said: str) -> None:
    found = spent(plan(), strategy, 12)
    assert math.isinf(found.epsilon)
    assert said in found.reasons_not_private[0].sentence
    with pytest.raises(PrivacyError):
        plan().build_mechanism(12, strategy)


def test_a_wide_band_of_zeros_is_refused_too() -> None:
    """Bands are counted, not looked at."""
    assert math.isinf(spent(plan(), BandedToeplitz((1.0, 0.6, 0.3, 0.0), 40), 12).epsilon)


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"bands": 11}, "privacy.bands ≤ 10 .* so that each of the groups has 100 of 1000 users, got 11"),
        ({"bands": None}, "expected privacy.bands with sampling"),
        ({"mechanism": "gaussian"}, "privacy.mechanism = 'banded'"),
        ({"mechanism": "tree"}, "privacy.mechanism = 'banded'"),
        ({"mechanism": "none", "noise_multiplier": 0.0}, "privacy.mechanism = 'banded'"),
        ({"sampling": "poisson"}, "'cyclic_poisson' or 'check_in' with mechanism 'banded'"),
        ({"sampling": "poisson", "mechanism": "gaussian"}, "privacy.bands with sampling 'cyclic_poisson' only"),
        ({"min_separation": 2, "max_participation": 4}, "with sampling 'check_in' only"),
        ({"most_bands": 2}, "no privacy.most_bands"),
        ({"secagg": {}}, "with privacy.secagg, got 'cyclic_poisson'"),
    ],
)
def test_plans_that_are_not_proven_are_refused(changes: dict[str, Any], said: str) -> None:
    with pytest.raises(RecipeError, match=f"(?i){said}"):
        plan(**changes)


def test_the_largest_number_of_groups_draws_everybody_in_turn() -> None:
    chosen = plan(bands=10)
    assert chosen.sampling_constants == {"kind": "cyclic_poisson", "probability": 1.0, "groups": 10}
    assert chosen.denominator == 100


def other_law(intents: list[Intent], **law: Any) -> list[Intent]:
    return [*intents[:-1], dataclasses.replace(intents[-1], sampling=intents[-1].sampling | law)]


@pytest.mark.parametrize("law", [{"probability": 0.1}, {"groups": 4}, {"kind": "poisson"}])
def test_a_round_under_another_law_costs_everything(law: dict[str, Any]) -> None:
    assert math.isinf(spent(plan(), BAND, 12, other_law(planned_intents(plan(), 12), **law)).epsilon)


def test_other_groups_than_the_plans_cost_everything() -> None:
    changed = [
        dataclasses.replace(each, sampling=each.sampling | {"groups": 4}) for each in planned_intents(plan(), 12)
    ]
    assert math.isinf(spent(plan(), BAND, 12, changed).epsilon)


def test_skipped_rounds_and_other_noise_cost_everything() -> None:
    intents = planned_intents(plan(), 12)
    assert math.isinf(spent(plan(), BAND, 12, [*intents[:4], *intents[5:]]).epsilon)
    louder = {"update": {"bound": 0.6, "noise_multiplier": 2.0}}
    assert math.isinf(spent(plan(), BAND, 12, [*intents[:-1], dataclasses.replace(intents[-1], blocks=louder)]).epsilon)


def test_an_extended_run_costs_everything() -> None:
    longer = extended(opened_with(plan(), rounds=12, strategy=BAND.describe()), 15)
    assert math.isfinite(spent(plan(), BAND, 15).epsilon)
    assert math.isinf(spent_by(longer, planned_intents(plan(), 15)).epsilon)


# Several runs.


def test_it_composes_with_other_runs_on_sampled_users(tmp_path: Path) -> None:
    chosen, ordinary = plan(), plan().model_copy(update={"mechanism": "gaussian", "sampling": "poisson", "bands": None})
    openings: list[tuple[Opened, PrivacyPlan]] = [
        (opened_with(chosen, run_id="a", rounds=6, strategy=BAND.describe()), chosen),
        (opened_with(ordinary, run_id="b", rounds=6), ordinary),
    ]
    ledgers = []
    for opened, each in openings:
        with LedgerWriter.create(tmp_path / opened.run_id, opened) as writer:
            for intent in planned_intents(each, 6):
                writer.append(intent)
            ledgers.append(writer.ledger)
    both = together(ledgers, None).epsilon
    norm = math.sqrt(1 + 0.6**2 + 0.3**2)
    parts = [SampledRounds({"kind": "poisson", "probability": 0.3}, 2.0 / norm, 2)]
    parts.append(SampledRounds({"kind": "poisson", "probability": 0.1}, 2.0, 6))
    assert both == pytest.approx(epsilon(parts, apart_from_tail(1e-5), "pld"), rel=1e-3)
    assert together(ledgers, None, adaptive=True).epsilon > both
    assert Sampled(parts[0]).adjacency == chosen.adjacency


# Every row of the matrix.


def rows_of(intents: list[Intent], coefficients: tuple[float, ...]) -> Floats:
    """[releases, attempts]: which attempts each release contains, and by how much, written down path by path."""
    found = np.zeros((len(intents), len(intents)))
    path: list[int] = []
    for number, intent in enumerate(intents):
        path = [each for each in path if intents[each].round < intent.round]
        for earlier in path:
            lag = intent.round - intents[earlier].round
            restarted = any(
                intents[each].restart for each in [*path, number] if intents[each].round > intents[earlier].round
            )
            restarted |= intent.restart
            if lag < len(coefficients) and not restarted:
                found[number, earlier] = coefficients[lag]
        found[number, number] = coefficients[0]
        path.append(number)
    return found


def intents_of(rounds: list[int], restarts: tuple[int, ...] = ()) -> list[Intent]:
    (one,) = planned_intents(plan(), 1)
    return [
        dataclasses.replace(one, round=round, attempt=n, restart=round in restarts) for n, round in enumerate(rounds)
    ]


@st.composite
def histories(draw: st.DrawFn) -> list[int]:
    """The rounds of a run that goes back now and then."""
    rounds, following = [0], 1
    for _ in range(draw(st.integers(0, 14))):
        following = draw(st.integers(max(0, following - 3), following)) if draw(st.booleans()) else following
        rounds.append(following)
        following += 1
    return rounds


@given(histories(), st.sets(st.integers(1, 9), max_size=2), st.integers(1, 4))
def test_norms_are_those_of_all_rows_that_contain_an_attempt(rounds: list[int], restarts: set[int], bands: int) -> None:
    intents, coefficients = intents_of(rounds, tuple(restarts)), (1.0, 0.7, -0.4, 0.2)[:bands]
    matrix = rows_of(intents, coefficients)
    found = squared_norms(intents, branches_of(intents), coefficients)
    np.testing.assert_allclose(found, (matrix**2).sum(axis=0), rtol=1e-9)
    # No release contains two attempts of one group: the proof needs it.
    for group in range(bands):
        members = [number for number, each in enumerate(intents) if each.round % bands == group]
        assert ((matrix[:, members] != 0).sum(axis=1) <= 1).all()


@given(histories(), st.integers(1, 4))
def test_every_group_is_exposed_to_no_more_than_is_charged(rounds: list[int], bands: int) -> None:
    intents, coefficients = intents_of(rounds), (1.0, 0.7, -0.4, 0.2)[:bands]
    charged = cyclic_rounds(
        intents, branches_of(intents), coefficients, probability=0.5, groups=bands, noise_multiplier=1.0
    )
    norms = sorted((1 / each.noise_multiplier for each in charged for _ in range(each.count)), reverse=True)
    squares = (rows_of(intents, coefficients) ** 2).sum(axis=0)
    for group in range(bands):
        own = sorted(
            (math.sqrt(squares[n]) for n, each in enumerate(intents) if each.round % bands == group), reverse=True
        )
        assert len(own) <= len(norms)
        assert all(one <= other + 1e-9 for one, other in zip(own, norms, strict=False))
    assert len(norms) <= max(sum(each.round % bands == group for each in intents) for group in range(bands))


# Attacks: the true privacy loss of everything released, coin by coin and row by row.


def losses(
    intents: list[Intent],
    coefficients: tuple[float, ...],
    group: int,
    groups: int,
    q: float,
    z: float,
    *,
    there: bool,
    update: Any,
) -> Floats:
    """log p/p′ of 30,000 runs, with the user or without; p is summed over all outcomes of the coins, without our theorem.

    `update(releases)` is the user's update, of norm 1 or less, given the releases so far [runs, releases].
    """
    runs, matrix = 30_000, rows_of(intents, coefficients)
    rng = np.random.default_rng(3)
    turns = [number for number, each in enumerate(intents) if each.round % groups == group]
    coins = {number: (rng.random(runs) < q) & there for number in turns}
    updates: dict[int, Floats] = {}
    seen = np.zeros((runs, 0))
    means = np.zeros((runs, len(intents), len(intents)))  # [run, release, attempt]: the share if the coin is heads
    for number in range(len(intents)):
        if number in turns:
            updates[number] = update(seen)
        for turn in updates:
            means[:, number, turn] = matrix[number, turn] * updates[turn]
        share = sum((coins[turn] * means[:, number, turn] for turn in updates), np.zeros(runs))
        seen = np.concatenate([seen, (share + z * rng.standard_normal(runs))[:, None]], axis=1)
    total = np.full(runs, -np.inf)
    for heads in itertools.product([False, True], repeat=len(turns)):
        up = [turn for turn, head in zip(turns, heads, strict=True) if head]
        mean = means[:, :, up].sum(axis=2)
        log_ratio = ((seen * mean - mean**2 / 2) / z**2).sum(axis=1)
        total = np.logaddexp(total, log_ratio + len(up) * math.log(q) + (len(turns) - len(up)) * math.log1p(-q))
    return total


def delta_of(loss: Floats, epsilon: float) -> tuple[float, float]:
    """δ at this ε, and its standard error."""
    values = np.maximum(0, -np.expm1(np.minimum(epsilon - loss, 0)))
    return float(values.mean()), float(values.std() / math.sqrt(len(values)))


def always(_: Floats) -> float:
    return 1.0


def contrary(seen: Floats) -> Floats:
    """As large as possible, away from what was last released."""
    return np.ones(len(seen)) if seen.shape[1] == 0 else np.where(seen[:, -1] > 0, -1.0, 1.0)


def shy(seen: Floats) -> Floats:
    """Small where the last release gave the user away."""
    return np.ones(len(seen)) if seen.shape[1] == 0 else np.where(seen[:, -1] > 1.0, 0.2, 1.0)


HISTORIES = {
    "straight": [0, 1, 2, 3, 4, 5],
    "cut short": [0, 1, 2, 3, 4],
    "a lost round": [0, 1, 2, 2, 3, 4],
    "two lost rounds, twice": [0, 1, 2, 1, 2, 1, 2, 3],
    "lost between a round and its rows": [0, 1, 1, 1, 1, 2, 3],
}
DELTA, Q, NOISE = 0.03, 0.4, 1.0


def stated(intents: list[Intent], coefficients: tuple[float, ...], groups: int) -> float:
    exposed = cyclic_rounds(
        intents, branches_of(intents), coefficients, probability=Q, groups=groups, noise_multiplier=NOISE
    )
    return epsilon(exposed, DELTA, "pld", discretization=1e-3)


@pytest.mark.parametrize("history", HISTORIES)
@pytest.mark.parametrize("update", [always, contrary, shy])
def test_the_stated_epsilon_is_never_below_the_truth(history: str, update: Any) -> None:
    intents, coefficients = intents_of(HISTORIES[history]), (1.0, 0.8)
    claimed, worst = stated(intents, coefficients, 2), 0.0
    for group, there in itertools.product(range(2), (True, False)):
        sign = 1 if there else -1  # with the user against without, and the other way round
        loss = sign * losses(intents, coefficients, group, 2, Q, NOISE, there=there, update=update)
        truth, error = delta_of(loss, claimed)
        assert truth <= DELTA + 4 * error, (group, there)
        worst = max(worst, truth + 4 * error)
    # Where both groups have the same turns, whoever sends as much as they may shows that the bound is the truth.
    assert update is shy or history != "straight" or worst > DELTA


def test_coins_of_their_own_for_the_rows_of_a_lost_branch_would_be_too_few() -> None:
    """What branch by branch would be stated, with a coin for each, is below the truth: the rows share one coin."""
    history, coefficients = [0, 1, 1, 1, 1, 1, 1], (1.0, 0.9)
    intents = intents_of(history)
    law = {"kind": "poisson", "probability": Q}
    apart = [SampledRounds(law, NOISE, 1), SampledRounds(law, NOISE / 0.9, 6)]
    wrong = epsilon(apart, DELTA, "pld", discretization=1e-3)
    loss = losses(intents, coefficients, 0, 2, Q, NOISE, there=True, update=always)
    truth, error = delta_of(loss, wrong)
    assert truth - 4 * error > DELTA
    truth, error = delta_of(loss, stated(intents, coefficients, 2))
    assert truth <= DELTA + 4 * error


def test_a_band_wider_than_the_groups_would_break_the_theorem() -> None:
    """Why it is refused: rows then contain two coins of one user, whose shares add up."""
    intents, wide = intents_of([0, 1, 2, 3, 4, 5]), (1.0, 0.9, 0.9, 0.9, 0.9, 0.9)
    claimed = sum(squared_norms(intents, [list(range(6))], wide)[::2])  # of the group whose turns are 0, 2 and 4
    moved = rows_of(intents, wide)[:, ::2].sum(axis=1)
    assert moved @ moved > 2 * claimed


# Planning.


@pytest.mark.slow
def test_calibration_meets_its_target_closely() -> None:
    fields = plan(bands=4).model_dump(exclude={"noise_multiplier"}, exclude_none=True)
    found = tacit.calibrate(epsilon=4.0, rounds=20, **fields)
    strategy = found.build_strategy(20)
    assert isinstance(strategy, BandedToeplitz)
    assert len(strategy.coefficients) == 4
    assert 3.98 < spent(found, strategy, 20).epsilon <= 4.0


def test_the_strategy_is_the_best_for_columns_of_one_length() -> None:
    """Its noise on prefix sums times its longest column is below that of its neighbours."""
    found = plan(bands=4).build_strategy(30)
    assert isinstance(found, BandedToeplitz)

    def error(strategy: BandedToeplitz) -> float:
        return float(np.linalg.norm(strategy.coefficients)) * strategy.prefix_rmse(30)

    for place, step in itertools.product(range(1, 4), (-0.02, 0.02)):
        moved = list(found.coefficients)
        moved[place] += step
        assert error(BandedToeplitz(tuple(moved), 30)) > error(found)
    assert error(found) < error(BandedToeplitz((1.0,), 30))


def test_no_noise_reaches_an_epsilon_of_nearly_nothing() -> None:
    fields = plan().model_dump(exclude={"noise_multiplier"}, exclude_none=True)
    with pytest.raises(RecipeError, match="No noise multiplier"):
        tacit.calibrate(epsilon=1e-9, rounds=20, **(fields | {"delta": 1e-12}))
