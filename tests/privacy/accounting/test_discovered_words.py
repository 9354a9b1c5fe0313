"""The cost of a discovery of words: by itself, as part of a training run, and among several runs."""

from __future__ import annotations

import dataclasses
import math
from pathlib import Path
from typing import Any

import pytest

from tacit.privacy.accounting.adaptive import adaptively_composed
from tacit.privacy.accounting.cost import Cost
from tacit.privacy.accounting.discovered_words import discovery_rho, with_vocabulary
from tacit.privacy.accounting.releases import Releases
from tacit.privacy.accounting.sampled_gaussian import SampledRounds
from tacit.privacy.accounting.several_runs import together
from tacit.privacy.accounting.spent import cost_of_releases, spent_by
from tacit.privacy.accounting.zcdp import epsilon_of_any, epsilon_of_gaussian
from tacit.privacy.noise.tail import apart_from_tail
from tacit.privacy.plan import PrivacyPlan
from tacit.privacy.planning.word_noise import word_noise
from tacit.privacy.record.facts import DiscoveryRecord, VocabularyRecord
from tacit.privacy.record.reasons import Why
from tacit.privacy.record.records import Intent, Opened, extended
from tacit.privacy.statement.assumptions import objections
from tests.support.planned_ledgers import CHECK_IN, FIXED, POISSON, intent_of, ledger_of, opened_with

ADD, REPLACE = "add or remove one user", "replace one user"
FOUND = VocabularyRecord("0123456789abcdef", "ab" * 32, 5.0, 1, 1e-8)


def poisson(rounds: int) -> Cost:
    return Cost.of_rounds([SampledRounds({"kind": "poisson", "probability": 0.01}, 1.0, rounds)])


def test_a_training_run_costs_more_with_its_vocabulary_than_without() -> None:
    alone, both = poisson(100), with_vocabulary(poisson(100), FOUND, ADD)
    assert both.epsilon(1e-6)[0] > alone.epsilon(1e-6)[0]
    assert both.epsilon(1e-6)[0] < alone.epsilon(5e-7)[0] + Cost.of_rho(0.02, gaussian=True).epsilon(5e-7)[0]


def test_without_rounds_the_discovery_is_a_gaussian_with_its_threshold() -> None:
    found = with_vocabulary(poisson(0), FOUND, ADD).epsilon(1e-6)[0]
    exact = epsilon_of_gaussian(1 / (2 * 25), 1e-6 - 1e-8) - math.log1p(-1e-8)
    assert found == pytest.approx(exact, rel=2e-3)
    assert found >= exact * (1 - 1e-9)


def test_a_rho_adds_up_and_keeps_its_curve() -> None:
    for gaussian, curve in ((True, epsilon_of_gaussian), (False, epsilon_of_any)):
        both = with_vocabulary(Cost.of_rho(0.3, gaussian=gaussian), FOUND, ADD)
        assert both.epsilon(1e-6)[0] == pytest.approx(curve(0.32, 1e-6 - 1e-8) - math.log1p(-1e-8))


def test_replacing_a_user_moves_the_totals_by_the_square_root_of_two() -> None:
    assert discovery_rho(5.0, 1, REPLACE) == 2 * discovery_rho(5.0, 1, ADD) == pytest.approx(2 / 50)
    assert discovery_rho(5.0, 3, ADD) == pytest.approx(3 / 50)


@pytest.mark.parametrize("delta", [1e-8, 5e-9])
def test_a_delta_that_the_threshold_uses_up_gives_no_epsilon(delta: float) -> None:
    assert with_vocabulary(poisson(1), FOUND, ADD).epsilon(delta)[0] == math.inf


def test_what_does_not_compose_claims_nothing() -> None:
    curve = Cost.of_curve(lambda delta: 1.0, "mine")
    assert with_vocabulary(curve, FOUND, ADD).epsilon(1e-6)[0] == math.inf
    assert with_vocabulary(curve, None, ADD) is curve


def discovery(**changes: object) -> tuple[Opened, list[Intent]]:
    plan = PrivacyPlan(mechanism="words", population=1000, cohort=1000, clip_norm=1.0, noise_multiplier=5.0, delta=1e-6)
    first = opened_with(plan, rounds=1, discovery=DiscoveryRecord(100, 0.5, 1e-8, 10, "ab" * 32))
    return dataclasses.replace(first, **changes), [intent_of(plan, 0, sampling=plan.sampling_constants)]


def test_a_discovery_costs_its_noise_and_its_threshold() -> None:
    spent = spent_by(*discovery())
    within = apart_from_tail(1e-6) - 1e-8
    assert spent.epsilon == pytest.approx(epsilon_of_gaussian(1 / 50, within), rel=1e-6)
    assert spent.rho is None  # a threshold is not zero-concentrated


def test_two_attempts_cost_twice() -> None:
    first, intents = discovery()
    again = [*intents, dataclasses.replace(intents[0], attempt=1)]
    within = apart_from_tail(1e-6) - 2e-8
    assert spent_by(first, again).epsilon == pytest.approx(epsilon_of_gaussian(2 / 50, within), rel=1e-6)


@pytest.mark.parametrize(
    "changes", [{"discovery": None}, {"discovery": DiscoveryRecord(100, 0.5, 1e-6, 10, "ab" * 32)}]
)
def test_a_discovery_that_is_not_described_or_uses_up_delta_claims_nothing(changes: dict[str, object]) -> None:
    spent = spent_by(*discovery(**changes))
    assert math.isinf(spent.epsilon)
    assert spent.reasons_not_private


def test_the_noise_for_an_epsilon_costs_that_epsilon() -> None:
    noise = word_noise(1.0, 1e-7, 1e-8)
    for multiplier, below in ((noise, True), (noise * 0.999, False)):
        cost = Cost.of_rho(discovery_rho(multiplier, 1, ADD), gaussian=True, threshold_delta=1e-8)
        assert (cost.epsilon(apart_from_tail(1e-7))[0] <= 1.0) is below


WORDS = {
    "mechanism": "words",
    "population": 1000,
    "cohort": 1000,
    "clip_norm": 1.0,
    "noise_multiplier": 5.0,
    "delta": 1e-6,
}
RECORD = DiscoveryRecord(100, 0.5, 1e-8, 10, "ab" * 32)


def ledgers(place: Path, settings: dict[str, Any], *, uses: bool = True) -> tuple[Any, Any]:
    """A discovery, and a run under this plan that uses its words, or does not."""
    for name in ("words", "run"):
        (place / name).mkdir()
    everybody = {"sampling": {"kind": "poisson", "probability": 1.0}}
    found = ledger_of(place / "words", WORDS, rounds=1, last=everybody, run_id=FOUND.run, discovery=RECORD)
    record = dataclasses.replace(FOUND, head=found.head) if uses else None
    return found, ledger_of(place / "run", settings, vocabulary=record)


@pytest.mark.parametrize("settings", [POISSON, FIXED, CHECK_IN], ids=["poisson", "fixed", "check_in"])
@pytest.mark.parametrize("adaptive", [False, True], ids=["planned", "adaptive"])
def test_a_discovery_counts_once_beside_the_run_that_uses_it(
    tmp_path: Path, settings: dict[str, Any], adaptive: bool
) -> None:
    found, run = ledgers(tmp_path, settings)
    both, alone = together([found, run], adaptive=adaptive), together([run], adaptive=adaptive)
    assert both.epsilon == alone.epsilon
    assert math.isfinite(both.epsilon)
    assert both.adjacency == run.opened.adjacency
    assert both.delta == run.opened.plan["delta"]


def test_a_run_that_uses_no_words_and_a_discovery_cost_what_one_with_words_does(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    with_words = together([ledgers(tmp_path / "a", POISSON)[1]])
    beside = together(list(ledgers(tmp_path / "b", POISSON, uses=False)))
    assert beside.epsilon == with_words.epsilon
    assert with_words.epsilon > together([ledger_of(tmp_path, POISSON)]).epsilon


def test_one_run_and_together_agree(tmp_path: Path) -> None:
    run = ledgers(tmp_path, POISSON)[1]
    assert together([run]).epsilon == pytest.approx(spent_by(run.opened, run.intents).epsilon, rel=1e-9)


def test_thresholds_that_take_more_than_a_fifth_of_delta_have_no_adaptive_bound(tmp_path: Path) -> None:
    found, run = ledgers(tmp_path, POISSON)
    assert math.isfinite(together([found, run], 1.5e-8).epsilon)
    assert math.isinf(together([found, run], 4.9e-8, adaptive=True).epsilon)
    assert math.isfinite(together([found, run], 5.1e-8, adaptive=True).epsilon)
    assert math.isinf(together([found, run], 1e-8).epsilon)


def test_whether_there_is_a_discovery_does_not_decide_the_delta_of_the_rest(tmp_path: Path) -> None:
    """An odometer reads a first run at the same δ whether words are discovered afterwards or not."""
    run = ledger_of(tmp_path, POISSON)
    parts = cost_of_releases(Releases(run.opened, run.intents)).parts(ADD)
    assert parts is not None
    expected = adaptively_composed(parts, 0.8 * apart_from_tail(1e-6)).epsilon
    assert together([run], 1e-6, adaptive=True).epsilon == pytest.approx(expected, abs=1e-6)


def test_no_rho_is_stated_where_a_threshold_was_used(tmp_path: Path) -> None:
    found, run = ledgers(tmp_path, CHECK_IN)
    assert together([found]).rho is None
    assert together([found, run]).rho is None
    (tmp_path / "alone").mkdir()
    assert together([ledger_of(tmp_path / "alone", CHECK_IN)]).rho is not None


def test_a_run_whose_users_check_in_states_an_epsilon_with_discovered_words(tmp_path: Path) -> None:
    run = ledgers(tmp_path, CHECK_IN)[1]
    spent = spent_by(run.opened, run.intents)
    assert math.isfinite(spent.epsilon)
    assert spent.rho is None
    assert objections(run, spent) == []
    less = dataclasses.replace(spent, rho_of_noise=1e-9)
    assert [reason.code for reason in objections(run, less)] == [Why.WRONG_ACCOUNT]


def test_words_that_were_seen_must_not_have_decided_the_plan(tmp_path: Path) -> None:
    run = ledgers(tmp_path, POISSON)[1]
    assumed = "were chosen without looking at the words that had been discovered"
    assert any(assumed in line for line in spent_by(run.opened, run.intents).assumptions)
    without = dataclasses.replace(run.opened, vocabulary=None)
    assert not any(assumed in line for line in spent_by(without, run.intents).assumptions)


def test_an_extended_run_is_charged_for_its_words(tmp_path: Path) -> None:
    run = ledgers(tmp_path, POISSON)[1]
    longer = extended(run.opened, 6)
    without = extended(dataclasses.replace(run.opened, vocabulary=None), 6)
    spent, less = spent_by(longer, run.intents), spent_by(without, run.intents)
    assert math.isfinite(spent.epsilon)
    assert spent.epsilon > less.epsilon
