"""A run that ends early is stated at the cost of its planned rounds, so a rule that watches the releases gains nothing.

The attacker sees every release, knows both neighbouring data sets, and ends the run as soon as the privacy loss is above the
epsilon that would be stated then. What counts is the δ that the statements then have in truth: with loss L at the end and ε
stated, E[(1 − e^(ε − L))⁺] over runs on D. It is the sum over t of Pr[D: ends at t, in S_t] − e^ε(t) Pr[D′: ends at t, in S_t]
for the sets S_t in which the loss is above ε(t), and (ε, δ) bounds it by δ if ε is one number, stated beforehand.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from tacit.privacy.accounting.spent import Spent, cost_if_it_had_ended_here, spent_by
from tacit.privacy.noise.strategies import Tree
from tacit.privacy.plan import PrivacyPlan
from tacit.privacy.record.planned import CUT_OFF, planned_intents
from tacit.privacy.record.reasons import Reason, Why, in_words
from tacit.privacy.record.records import FORMAT, Intent, Opened
from tests.support.first_record import FACTS

DELTA = 1e-3


def plan_of(**changes: Any) -> PrivacyPlan:
    fields: dict[str, Any] = {
        "population": 500,
        "cohort": 10,
        "clip_norm": 0.5,
        "noise_multiplier": 5.0,
        "delta": DELTA,
        "sampling": "check_in",
        "min_separation": 0,
        "max_participation": 10_000,
    }
    return PrivacyPlan(**(fields | changes))


def poisson(**changes: Any) -> PrivacyPlan:
    return plan_of(sampling="poisson", min_separation=None, max_participation=None, **changes)


def opened_by(plan: PrivacyPlan, rounds: int, /, **changes: Any) -> Opened:
    fields: dict[str, Any] = {
        "run_id": "r",
        "format": FORMAT,
        "tacit_version": "0",
        "plan": plan.model_dump(mode="json"),
        "mechanism": plan.mechanism,
        "strategy": Tree().describe() if plan.mechanism == "tree" else {},
        "population": plan.population,
        "rounds": rounds,
        "seeded": False,
        "reasons_not_private": (),
        **FACTS,
        "unit": "user",
        "adjacency": plan.adjacency,
    }
    return Opened(**(fields | changes))


def true_delta(
    losses: NDArray[np.float64], looks: NDArray[np.int64], stated: NDArray[np.float64]
) -> tuple[float, float]:
    """δ of runs on D that end at the first look at which the loss is above what is stated, and its standard error."""
    above = losses[:, looks - 1] > stated
    end = np.where(above.any(axis=1), above.argmax(axis=1), len(looks) - 1)
    at_end = losses[np.arange(len(losses)), looks[end] - 1]
    excess = np.maximum(0.0, -np.expm1(np.minimum(stated[end] - at_end, 0.0)))
    return float(excess.mean()), float(excess.std() / np.sqrt(len(excess)))


def losses_of_gaussian_rounds(z: float, rounds: int, runs: int) -> NDArray[np.float64]:
    """The privacy loss after each round, on D: a user is in every round, and moves it by 1/z of its noise."""
    noise = np.random.default_rng(15).standard_normal((runs, rounds))
    return np.cumsum(noise / z + 1 / (2 * z**2), axis=1)


def losses_of_poisson_rounds(z: float, q: float, rounds: int, runs: int) -> NDArray[np.float64]:
    """The same of a user who is drawn with probability q: the loss of (1 − q) N(0, z²) + q N(1, z²) against N(0, z²)."""
    generator = np.random.default_rng(15)
    seen = z * generator.standard_normal((runs, rounds)) + (generator.random((runs, rounds)) < q)
    return np.cumsum(np.log1p(q * np.expm1((2 * seen - 1) / (2 * z**2))), axis=1)


@pytest.mark.parametrize("sampling", ["check_in", "poisson"])
def test_a_rule_that_watches_the_loss_is_covered_by_the_planned_rounds_and_not_by_those_that_ran(sampling: str) -> None:
    if sampling == "check_in":
        plan, rounds, looks = plan_of(), 200, np.arange(1, 201)
        losses = losses_of_gaussian_rounds(5.0, rounds, 40_000)
    else:  # privacy loss distributions take half a second for each number of rounds: fewer looks
        plan, rounds, looks = (
            poisson(noise_multiplier=1.0),
            400,
            np.array([10, 20, 35, 60, 100, 150, 200, 260, 330, 400]),
        )
        losses = losses_of_poisson_rounds(1.0, plan.sampling_probability, rounds, 40_000)
    opened, intents = opened_by(plan, rounds), planned_intents(plan, rounds)
    so_far = np.array([cost_if_it_had_ended_here(opened, intents[:look]).epsilon for look in looks])
    found, error = true_delta(losses, looks, so_far)
    # The attack: what the rounds that ran would have cost is exceeded far more often than δ says.
    assert found - 4 * error > 2 * DELTA
    stated = np.array([spent_by(opened, intents[:look], quick=True).epsilon for look in looks[[0, 4, -1]]])
    assert np.all(stated == stated[-1])
    covered, error = true_delta(losses, looks, np.full(len(looks), stated[0]))
    assert covered - 4 * error < DELTA


@pytest.mark.parametrize("plan", [plan_of(), plan_of(mechanism="tree", min_separation=9), poisson()])
def test_rounds_that_have_not_run_cost_as_if_they_had(plan: PrivacyPlan) -> None:
    opened, intents = opened_by(plan, 40), planned_intents(plan, 40)
    whole = spent_by(opened, intents, quick=True)
    for run in (0, 1, 13):
        early = spent_by(opened, intents[:run], quick=True)
        assert (early.epsilon, early.rho) == (whole.epsilon, whole.rho)
        assert (early.releases, early.rounds_planned, early.rounds_run) == (run, 40, run)
        assert cost_if_it_had_ended_here(opened, intents[:run]).epsilon < whole.epsilon
    assert early.rounds_in_words == "the 40 rounds that were planned; 13 of them have run"
    assert whole.rounds_in_words == "the 40 rounds that were planned; all of them have run"


def attempts(intents: list[Intent], *rounds: tuple[int, int]) -> list[Intent]:
    return [Intent(**{**vars(intents[round]), "attempt": attempt}) for round, attempt in rounds]


@pytest.mark.parametrize("plan", [plan_of(), plan_of(mechanism="tree", min_separation=9), poisson()])
def test_attempts_that_were_lost_are_charged_in_addition_to_the_planned_rounds(plan: PrivacyPlan) -> None:
    opened, intents = opened_by(plan, 6), planned_intents(plan, 6)
    lost = intents[:3] + attempts(intents, (1, 1))
    early, whole = (spent_by(opened, each, quick=True) for each in (lost, lost + intents[2:]))
    assert early.epsilon == pytest.approx(whole.epsilon)
    assert early.epsilon > spent_by(opened, intents, quick=True).epsilon
    assert CUT_OFF in early.assumptions
    assert CUT_OFF not in spent_by(opened, intents, quick=True).assumptions
    assert early.rounds_in_words.endswith("3 of them have run; 1 further attempt at them is counted in addition")


def test_who_came_so_far_says_nothing_about_rounds_that_are_still_to_come() -> None:
    plan = plan_of(max_participation=4)
    opened, intents = opened_by(plan, 6), planned_intents(plan, 6)
    cohorts = [np.array([round]) for round in range(6)]  # everybody once
    assert cost_of_cohorts(opened, intents, cohorts).rho == pytest.approx(1 / (2 * 5.0**2))
    early = cost_of_cohorts(opened, intents[:5], cohorts[:5])
    assert early.rho == spent_by(opened, intents).rho == pytest.approx(4 / (2 * 5.0**2))
    assert early.participation is not None
    assert not early.participation.observed


def cost_of_cohorts(opened: Opened, intents: list[Intent], cohorts: list[Any]) -> Spent:
    return spent_by(opened, intents, cohorts=cohorts)


@pytest.mark.parametrize("plan", [plan_of(), poisson()])
def test_a_round_that_was_not_planned_claims_nothing(plan: PrivacyPlan) -> None:
    found = spent_by(opened_by(plan, 5), planned_intents(plan, 6))
    assert np.isinf(found.epsilon)
    assert in_words(found.reasons_not_private) == "round 5 ran, and the 5 rounds that were planned end before it"


def test_a_plan_that_cannot_be_read_claims_nothing_for_the_rounds_to_come() -> None:
    plan = poisson()
    opened = opened_by(plan, 6, plan={"delta": DELTA, "sampling": "poisson"})
    assert np.isfinite(spent_by(opened, planned_intents(plan, 6), quick=True).epsilon)
    (reason,) = spent_by(opened, planned_intents(plan, 5), quick=True).reasons_not_private
    assert reason == Reason(Why.UNREADABLE_PLAN)
