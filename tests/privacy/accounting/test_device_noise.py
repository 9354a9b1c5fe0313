"""What noise from devices costs, read off made-up ledgers: who came, how many came, what is missing, what is stated."""

from __future__ import annotations

import dataclasses
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tacit.privacy.accounting.discrete_gaussian import rho as discrete_rho
from tacit.privacy.accounting.several_runs import together
from tacit.privacy.accounting.spent import Spent, spent_by
from tacit.privacy.accounting.zcdp import epsilon_of_any, epsilon_of_gaussian
from tacit.privacy.noise.tail import TAIL_SHARE
from tacit.privacy.plan import PrivacyPlan
from tacit.privacy.record.ledger import Ledger, LedgerWriter
from tacit.privacy.record.reasons import in_words
from tacit.privacy.record.records import FORMAT, Intent, Opened
from tacit.privacy.statement.guarantee import Guarantee
from tests.support.first_record import FACTS, NO_NOISE, secure_sum

LIMIT, VARIANCE, INTEGERS = 90_000, 90_000, 1024
SCALE = math.sqrt(LIMIT) * (1 + 2.0**-20)  # at which the bound is the clip
SUMS = secure_sum(scale=SCALE, norm_limit_squared=LIMIT, local_variance=VARIANCE, integers=INTEGERS)


def plan_of(**secagg: Any) -> PrivacyPlan:
    return PrivacyPlan(
        mechanism="discrete",
        population=1000,
        cohort=10,
        clip_norm=0.5,
        noise_multiplier=3.0,
        delta=1e-6,
        sampling="check_in",
        min_separation=3,
        max_participation=4,
        secagg={"scheme": "device_noise", **secagg},
    )


def opened(plan: PrivacyPlan, rounds: int = 3, **facts: Any) -> Opened:
    return Opened(
        run_id="r",
        format=FORMAT,
        tacit_version="0",
        plan=plan.model_dump(mode="json"),
        mechanism="discrete",
        strategy={},
        population=1000,
        rounds=rounds,
        seeded=False,
        reasons_not_private=(),
        unit="user",
        adjacency=plan.adjacency,
        **({**FACTS, "secure_sum": SUMS} | facts),
    )


def intent(round: int, attempt: int = 0, **block: Any) -> Intent:
    sampling = {"kind": "check_in", "size": 10, "min_separation": 3, "max_participation": 4}
    blocks = {"update": {"bound": 0.5, "noise_multiplier": 3.0} | block}
    return Intent(round, attempt, sampling, blocks, 10.0, "00")


def cost(intents: list[Intent], cohorts: Any = None, *, plan: PrivacyPlan | None = None, **facts: Any) -> Spent:
    rounds = intents[-1].round + 1 if intents else 0
    return spent_by(opened(plan or plan_of(), rounds, **facts), intents, cohorts=cohorts)


def one(devices: int) -> float:
    return discrete_rho(float(LIMIT), local_variance=VARIANCE, devices=devices, dimension=INTEGERS)


def rounds(count: int) -> list[Intent]:
    return [intent(round) for round in range(count)]


def test_a_participation_costs_what_the_promised_devices_leave():
    spent = cost(rounds(20))
    assert spent.rho == pytest.approx(4 * one(10))
    assert one(10) == pytest.approx(1 / 20)
    assert spent.rho is not None
    delta = 1e-6 * (1 - TAIL_SHARE)
    assert spent.epsilon == pytest.approx(epsilon_of_any(spent.rho, delta))
    assert spent.epsilon > epsilon_of_gaussian(spent.rho, delta)  # it is no Gaussian, and is not converted as one
    assert cost(rounds(9)).rho == pytest.approx(3 * one(10))  # rounds 0, 4, 8


def test_fewer_reports_and_corrupt_devices_cost_more():
    assert cost(rounds(20), plan=plan_of(fewest_reports=5)).rho == pytest.approx(4 * one(5))
    assert cost(rounds(20), plan=plan_of(corrupt=0.25)).rho == pytest.approx(4 * one(7))
    # Three of the cohort of ten are corrupt, and none of them need be among the five that are lost.
    assert cost(rounds(20), plan=plan_of(corrupt=0.25, fewest_reports=5)).rho == pytest.approx(4 * one(2))


def test_the_record_counts_for_better_and_for_worse():
    full, short = np.arange(10), np.arange(4)
    assert cost(rounds(5), [full, np.arange(10, 20)] + [np.arange(20, 30)] * 3).rho == pytest.approx(3 * one(10))
    spent = cost(rounds(5), [full, full + 10, full + 20, full + 30, short])
    assert spent.rho == pytest.approx(one(10) + one(4))  # whoever was in the first and in the short round
    assert spent.participation is not None
    assert (spent.participation.max_participation, spent.participation.observed) == (2, True)
    # Promised five, came four: the record is worse than the promise, and counts.
    promised = cost(rounds(1), plan=plan_of(fewest_reports=5)).rho
    observed = cost(rounds(1), [short], plan=plan_of(fewest_reports=5)).rho
    assert promised == pytest.approx(one(5))
    assert observed == pytest.approx(one(4))
    # With all but one corrupt of six that came, one share is left; without any, nothing is claimed.
    assert cost(rounds(1), [np.arange(6)], plan=plan_of(corrupt=0.5)).rho == pytest.approx(one(1))
    lone = cost(rounds(1), [np.arange(5)], plan=plan_of(corrupt=0.5))
    assert math.isinf(lone.epsilon)
    assert lone.reasons_not_private == (NO_NOISE,)


def test_rounds_that_ran_again_count_again():
    again = [*rounds(3), intent(2, 1)]
    assert cost(again, [np.arange(10)] * 4).rho == pytest.approx(4 * one(10))
    assert cost(again).rho == pytest.approx(2 * one(10))  # promised: once in three rounds, on each of two branches


@pytest.mark.parametrize("sums", [dataclasses.replace(SUMS, local_variance=0), None])
def test_a_ledger_that_does_not_say_what_was_added_claims_nothing(sums):
    spent = cost(rounds(2), secure_sum=sums)
    assert math.isinf(spent.epsilon)
    assert in_words(spent.reasons_not_private) == "the ledger does not say what noise each device added"


def test_a_release_without_bound_or_with_other_blocks_claims_nothing():
    assert "no bound" in cost([intent(0, bound=None)]).reasons_not_private[0].sentence
    side = Intent(0, 0, {"kind": "check_in"}, {"weight": {"bound": 1.0, "noise_multiplier": 3.0}}, 10.0, "00")
    assert "more than updates" in cost([side]).reasons_not_private[0].sentence
    assert in_words(cost([intent(0), intent(2)]).reasons_not_private) == "the ledger skips rounds"


def ledger_in(path: Path, plan: PrivacyPlan, count: int = 3, **facts: Any) -> Ledger:
    with LedgerWriter.create(path / "ledger.jsonl", opened(plan, count, **facts)) as writer:
        for each in rounds(count):
            writer.append(each)
        return writer.ledger


def test_several_runs_are_not_converted_as_gaussians(tmp_path):
    ledger = ledger_in(tmp_path, plan_of())
    found = together([ledger])
    assert found.rho == pytest.approx(one(10))
    assert found.epsilon == cost(rounds(3)).epsilon


def test_the_guarantee_says_which_trust_it_removes(tmp_path):
    ledger = ledger_in(tmp_path, plan_of(corrupt=0.1))
    found = Guarantee.of(ledger, spent_by(ledger.opened, ledger.intents))
    assert found.private
    words = found.as_markdown()
    assert "Nobody has to trust the server to add noise" in words
    assert "at most 10.0% of a round's devices are corrupt" in words.lower().replace("\\", "")
    assert "draw their noise exactly" in words
    assert "central differential privacy" not in words
    assert "ideal Gaussian" not in words
    assert "AES-256-CTR" in words
    assert "ChaCha20" not in words


def test_a_rho_below_one_participation_is_not_believed(tmp_path):
    ledger = ledger_in(tmp_path, plan_of())
    honest = spent_by(ledger.opened, ledger.intents)
    assert honest.rho is not None
    small = Spent(**{**vars(honest), "rho": honest.rho / 2})
    assert not Guarantee.of(ledger, small).private


def test_noise_from_devices_is_proven_under_check_in_alone(tmp_path):
    plan = plan_of()
    first = opened(plan)
    wrong = Opened(**{**vars(first), "plan": first.plan | {"sampling": "fixed"}, "adjacency": "replace one user"})
    with LedgerWriter.create(tmp_path / "ledger.jsonl", wrong) as writer:
        ledger = writer.ledger
    spent = Spent(1.0, 1e-6, "rdp", "replace one user", "user", 0, 0, 0)
    assert not Guarantee.of(ledger, spent).private


def test_the_guarantee_of_server_noise_says_what_secure_aggregation_changes(tmp_path):
    plan = PrivacyPlan(**{**plan_of().model_dump(), "mechanism": "gaussian", "secagg": {"bits": 20}})
    first = Opened(**{**vars(opened(plan)), "mechanism": "gaussian"})
    with LedgerWriter.create(tmp_path / "ledger.jsonl", first) as writer:
        writer.append(intent(0))
        ledger = writer.ledger
    found = Guarantee.of(ledger, spent_by(ledger.opened, ledger.intents))
    assert found.private
    words = found.as_markdown()
    assert "central differential privacy" in words
    assert "summed as secure aggregation sums them" in words
    assert "sums of 20-bit integers cannot wrap" in words.lower()
