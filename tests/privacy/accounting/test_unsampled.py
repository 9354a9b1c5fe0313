"""What runs without sampling cost, read off made-up ledgers: promised and real participation, lost branches, restarts."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from tacit.errors import PrivacyError
from tacit.privacy.accounting.releases import branches_of
from tacit.privacy.accounting.spent import Spent, spent_by
from tacit.privacy.accounting.tree import sensitivity_squared
from tacit.privacy.accounting.zcdp import epsilon_of_gaussian
from tacit.privacy.noise.strategies import BufferedToeplitz, Tree
from tacit.privacy.noise.tail import TAIL_SHARE
from tacit.privacy.participation.limits import Gap
from tacit.privacy.record.facts import ReleaseSize
from tacit.privacy.record.reasons import Why
from tacit.privacy.record.records import FORMAT, Intent, Opened
from tests.support.first_record import FACTS

Z = 3.0
BLT = BufferedToeplitz((0.9, 0.5), (0.3, 0.2), 64)


def opened(strategy: dict[str, Any], gap: int = 3, most: int = 4, **changes: Any) -> Opened:
    fields: dict[str, Any] = {
        "run_id": "r",
        "format": FORMAT,
        "tacit_version": "",
        "plan": {"delta": 1e-6, "sampling": "check_in", "min_separation": gap, "max_participation": most},
        "mechanism": strategy.get("strategy", "gaussian"),
        "strategy": strategy,
        "population": 1000,
        "rounds": 20,
        "seeded": False,
        "reasons_not_private": (),
        **FACTS,
        "unit": "user",
        "adjacency": "zero out one user",
    }
    return Opened(**(fields | changes))


def intent(round: int, attempt: int = 0, *, bound: float | None = 0.5, z: float = Z, restart: bool = False) -> Intent:
    sampling = {"kind": "check_in", "size": 10, "min_separation": 3, "max_participation": 4}
    return Intent(round, attempt, sampling, {"update": {"bound": bound, "noise_multiplier": z}}, 10.0, "00", restart)


def rounds(count: int, **changes: Any) -> list[Intent]:
    return [intent(round, **changes) for round in range(count)]


def cost(strategy: dict[str, Any], intents: list[Intent], cohorts: Any = None, **changes: Any) -> Spent:
    changes = {"rounds": intents[-1].round + 1 if intents else 0} | changes
    return spent_by(opened(strategy, **changes), intents, cohorts=cohorts)


def test_a_tree_costs_its_exact_sensitivity():
    spent = cost(Tree().describe(), rounds(20))
    expected = sensitivity_squared(20, Gap(3), 4) / (2 * Z**2)
    assert spent.rho == pytest.approx(expected)
    assert spent.epsilon == pytest.approx(epsilon_of_gaussian(expected, 1e-6 * (1 - TAIL_SHARE)))
    assert spent.participation is not None
    assert (spent.participation.min_separation, spent.participation.observed) == (3, False)
    assert any("took part more often" in assumption for assumption in spent.assumptions)


def test_independent_noise_costs_one_participation_after_another():
    assert cost({}, rounds(20)).rho == pytest.approx(4 / (2 * Z**2))
    assert cost({}, rounds(9)).rho == pytest.approx(3 / (2 * Z**2))  # rounds 0, 4, 8


def test_a_strategy_costs_what_it_says_of_itself():
    spent = cost(BLT.describe(), rounds(20))
    assert spent.rho == pytest.approx(BLT.sensitivity(20, Gap(3), 4).squared / (2 * Z**2))


def test_more_rounds_than_the_strategy_was_made_for_are_refused():
    with pytest.raises(PrivacyError):
        cost(BLT.describe(), rounds(65))


def test_what_really_happened_counts_for_better_and_for_worse():
    strategy, everybody = Tree().describe(), np.arange(10)
    apart = [everybody + 10 * (round % 10) for round in range(20)]  # each user twice, nine rounds between
    spent = cost(strategy, rounds(20), apart)
    assert spent.participation is not None
    assert vars(spent.participation) == {"min_separation": 9, "max_participation": 2, "observed": True}
    assert spent.rho < cost(strategy, rounds(20)).rho
    assert not any("took part more often" in assumption for assumption in spent.assumptions)
    too_often = [*apart[:-1], apart[-2]]  # ten users came in the last two rounds
    assert cost(strategy, rounds(20), too_often).rho > cost(strategy, rounds(20), apart).rho
    assert cost(strategy, rounds(20), too_often).participation.min_separation == 0


def test_a_cohort_that_is_not_there_is_refused():
    with pytest.raises(PrivacyError, match="cohorts of 20 releases, got 19"):
        cost(Tree().describe(), rounds(20), [np.arange(3)] * 19)


def test_lost_rounds_are_a_branch_of_their_own():
    lost = [*rounds(12), *(intent(round, 1) for round in range(8, 20))]
    assert branches_of(lost) == [list(range(12)), [*range(8), *range(12, 24)]]
    assert branches_of([]) == []
    spent = cost(Tree().describe(), lost)
    assert spent.releases == 24
    alone = [sensitivity_squared(count, Gap(3), 4) / (2 * Z**2) for count in (12, 20)]
    assert spent.rho == pytest.approx(sum(alone))


def test_a_round_that_ran_again_counts_again():
    once = cost(Tree().describe(), rounds(8)).rho
    assert cost(Tree().describe(), [*rounds(8), intent(7, 1)]).rho == pytest.approx(2 * once)


def test_a_restart_opens_a_new_tree():
    restarted = [intent(round, restart=round == 8, bound=0.5 if round < 8 else 0.2) for round in range(16)]
    expected = sensitivity_squared(16, Gap(3), 4, [8]) / (2 * Z**2)
    assert cost(Tree().describe(), restarted).rho == pytest.approx(expected)


@pytest.mark.parametrize("changed", [{"bound": 0.2}, {"z": 9.0}])
def test_a_bound_or_noise_that_changes_without_a_restart_claims_nothing(changed):
    changing = [*rounds(5), *(intent(round, **changed) for round in range(5, 9))]
    spent = cost(Tree().describe(), changing)
    assert math.isinf(spent.epsilon)
    assert spent.rho is None
    assert "without a restart" in spent.reasons_not_private[0].sentence
    assert math.isfinite(cost({}, changing).epsilon)  # independent noise may change, at the price of the smallest


def test_skipped_rounds_and_missing_noise_claim_nothing():
    assert "skips" in cost({}, [intent(0), intent(2)]).reasons_not_private[0].sentence
    assert math.isinf(cost({}, rounds(3, z=0.0)).epsilon)
    assert math.isinf(cost(Tree().describe(), rounds(3, bound=None)).epsilon)


@pytest.mark.parametrize("strategy", [{}, Tree().describe()], ids=["independent", "tree"])
def test_noise_that_is_too_far_out_is_charged_for_every_round(strategy):
    huge = ReleaseSize(3 * 10**15 << 93, 1)
    assert math.isfinite(cost(strategy, rounds(1, z=30.0), release=huge).epsilon)
    (reason,) = cost(strategy, rounds(2000, z=30.0), release=huge).reasons_not_private
    assert reason.code == Why.NOISE_TAIL
    assert "extremely far out" in reason.sentence


def test_nothing_released_costs_nothing():
    assert cost(Tree().describe(), []).epsilon == 0
