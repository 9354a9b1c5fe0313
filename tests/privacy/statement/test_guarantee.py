"""The guarantee says what the ledger shows, marks what it rests on, and claims nothing it cannot describe."""

from __future__ import annotations

import dataclasses
import json
import math
import subprocess
import sys

import numpy as np
import pytest

from tacit.privacy.accounting.conventions import without_replacement_epsilon
from tacit.privacy.accounting.spent import ASSUMPTIONS, Spent, cost_if_it_had_ended_here, spent_by
from tacit.privacy.accounting.zcdp import epsilon_of_gaussian
from tacit.privacy.participation.limits import Participation
from tacit.privacy.plan import PrivacyPlan
from tacit.privacy.record.facts import DataRecord, PretrainingRecord
from tacit.privacy.record.ledger import LedgerWriter
from tacit.privacy.statement.assumptions import Observed
from tacit.privacy.statement.guarantee import Guarantee, ListedRuns
from tacit.privacy.statement.wording import Mark, round_up
from tests.support.first_record import NO_NOISE, SEEDED, WORLD
from tests.support.planned_ledgers import (
    CHECK_IN,
    FIXED,
    NONE,
    POISSON,
    SAMPLING,
    guarantee_of,
    intent_of,
    ledger_of,
    opened_with,
    part,
)


def test_a_private_run(tmp_path):
    ledger = ledger_of(tmp_path, POISSON)
    spent = spent_by(ledger.opened, ledger.intents, quick=True)
    found = guarantee_of(ledger)
    assert found.private
    assert found.epsilon == spent.epsilon
    assert found.headline.startswith(f"ε = {round_up(spent.epsilon)} at δ = 1e-06")
    assert ledger.head in found.as_markdown()
    assert ledger.head in found.as_html()
    content = json.loads(json.dumps(found.as_json(), allow_nan=False))
    assert {"epsilon", "delta", "rho", "adjacency", "accountant", "assumptions"} <= content.keys()
    assert content["rho"] is None
    assert content["epsilon"] == spent.epsilon
    assert "q = 0.01" in part(found, "Mechanism and accounting")


@pytest.mark.parametrize("asserted", [True, False])
def test_public_data_is_named_as_not_covered_and_assumed_to_hold_nobody(asserted, tmp_path):
    public = PretrainingRecord("old <letters>", asserted, 10, 0.1, 3, "ab" * 32)
    found = guarantee_of(ledger_of(tmp_path, POISSON, pretraining=public))
    assert "Public data (old <letters>) was used for pre-training. It is not covered" in part(found, "Not covered")
    (assumed,) = [line for line in found.assumptions if "pre-training (old <letters>)" in line.text]
    assert assumed.mark == Mark.ASSUMED
    assert "holds nothing of these users" in assumed.text
    assert ("as the recipe asserts" in assumed.text) == asserted
    assert "<letters>" not in found.as_html()
    (tmp_path / "without").mkdir()
    assert "pre-training" not in guarantee_of(ledger_of(tmp_path / "without", POISSON)).as_markdown()


def test_every_assumption_has_its_mark_and_those_of_the_accountant_are_assumed(tmp_path):
    found = guarantee_of(ledger_of(tmp_path, POISSON, data=DataRecord(vocabulary="a list")))
    assert {line.mark for line in found.assumptions} == set(Mark)
    assumed = [line.text.lower() for line in found.assumptions if line.mark == Mark.ASSUMED]
    assert set(map(str.lower, ASSUMPTIONS)) < set(assumed)
    assert any("a list" in text for text in assumed)


@pytest.mark.parametrize(
    ("changes", "gone"),
    [({"seeded": True, "reasons_not_private": (SEEDED,)}, "same draws to another sum"), ({}, "nothing at all")],
    ids=["seeded", "as it is"],
)
def test_what_a_run_did_not_enforce_is_not_said(tmp_path, changes, gone):
    found = guarantee_of(ledger_of(tmp_path, POISSON, **changes))
    assert not any(gone in line.text for line in found.assumptions)
    assert any("one user moves" in line.text.lower() for line in found.assumptions)
    unbounded = {"blocks": {"update": {"bound": None, "noise_multiplier": 0.0}}}
    (tmp_path / "other").mkdir()
    found = guarantee_of(ledger_of(tmp_path / "other", NONE, last=unbounded, reasons_not_private=(NO_NOISE,)))
    assert not any("one user moves" in line.text.lower() for line in found.assumptions)
    assert not any("same draws to another sum" in line.text.lower() for line in found.assumptions)


def test_an_infinite_epsilon_is_said_in_words_with_its_reasons(tmp_path):
    found = guarantee_of(ledger_of(tmp_path, NONE, reasons_not_private=(NO_NOISE,)))
    assert math.isinf(found.epsilon)
    assert found.headline == "No privacy is claimed: epsilon is infinite, because no noise is added."
    assert "no noise is added" in part(found, "The formal statement")
    assert found.as_json()["epsilon"] is None
    assert found.as_json()["reason_codes"] == ["no-noise"]
    assert "not-claimed" in found.as_html()


@pytest.mark.parametrize(
    ("last", "words"),
    [
        ({"sampling": {"kind": "poisson", "probability": 0.001}}, "sampled otherwise"),
        ({"blocks": {"update": {"bound": 0.8, "noise_multiplier": 5.0}}}, "other noise"),
        ({"denominator": 9.0}, "denominator"),
    ],
)
def test_a_ledger_that_departs_from_its_plan_claims_nothing(tmp_path, last, words):
    found = guarantee_of(ledger_of(tmp_path, POISSON, last=last))
    assert not found.private
    assert words in found.headline
    assert "round 2" in found.headline


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"mechanism": "<b>laplace"}, "unknown to this version"),
        ({"mechanism": "tree"}, "nothing is proven here for the mechanism 'tree' with the sampling 'poisson'"),
        ({"adjacency": "replace one user"}, "are not those of poisson sampling"),
    ],
)
def test_what_is_not_known_is_not_described(tmp_path, changes, words):
    found = guarantee_of(ledger_of(tmp_path, POISSON, **changes))
    assert not found.private
    assert words in found.headline
    assert "<b>" not in found.as_html()
    if "mechanism" in changes:
        assert part(found, "Mechanism and accounting").startswith("None")


def test_a_plan_this_version_cannot_read_claims_nothing(tmp_path):
    ledger = ledger_of(tmp_path, POISSON)
    plan = ledger.opened.plan | {"trick": True}
    changed = dataclasses.replace(ledger, records=(dataclasses.replace(ledger.opened, plan=plan), *ledger.intents))
    assert "cannot" not in guarantee_of(ledger).headline
    assert "not one this version of Tacit can read" in guarantee_of(changed).headline


def test_an_account_of_other_releases_claims_nothing(tmp_path):
    ledger = ledger_of(tmp_path, POISSON)
    found = Guarantee.of(ledger, spent_by(ledger.opened, ledger.intents[:1], quick=True))
    assert "1 releases were accounted, the ledger has 3" in found.headline


@pytest.mark.parametrize("mechanism", ["gaussian", "tree", "blt", "banded"])
def test_users_who_check_in(tmp_path, mechanism):
    strategy = {} if mechanism == "gaussian" else {"strategy": mechanism}
    ledger = ledger_of(tmp_path, CHECK_IN | {"mechanism": mechanism}, strategy=strategy)
    spent = Spent(4.489, 1e-6, "zCDP", "zero out one user", "user", 3, 3, 3, rho=0.24994)
    found = Guarantee.of(ledger, spent)
    assert found.private, found.headline
    assert found.as_json()["rho"] == 0.24994
    assert "ρ = 0.2500" in part(found, "The formal statement")
    assert "takes part 3 times at most, with at least 20 rounds between two participations" in part(
        found, "Mechanism and accounting"
    )
    trust = part(found, "Setting and trust")
    assert ("state of the correlated noise" in trust) == (mechanism != "gaussian")
    assert "holds against an adversary who knows who takes part" in trust
    assert "Whoever steals the participation record" not in trust
    assert "the sampler is the one that was accounted for" not in found.as_markdown().lower()
    # Without rho there is no proof, whatever epsilon somebody names.
    assert "rho was not computed" in Guarantee.of(ledger, dataclasses.replace(spent, rho=None)).headline
    # One Gaussian release costs 1/(2 · 3²) = 0.0556: less cannot be right.
    assert Guarantee.of(ledger, dataclasses.replace(spent, rho=0.0556)).private
    assert "less than a single participation" in Guarantee.of(ledger, dataclasses.replace(spent, rho=0.0555)).headline
    (tmp_path / "other").mkdir()
    sooner = {"sampling": SAMPLING["check_in"] | {"min_separation": 5}}
    other = ledger_of(tmp_path / "other", CHECK_IN | {"mechanism": mechanism}, last=sooner, strategy={"strategy": "x"})
    assert "sampled otherwise" in Guarantee.of(other, spent).headline
    assert "does not describe how the noise" in Guarantee.of(other, spent).headline
    seen = dataclasses.replace(spent, participation=Participation(21, 2, observed=True))
    promised = dataclasses.replace(spent, participation=Participation(20, 3, observed=False))
    sentence = "Nobody took part more than twice, and there were at least 21 rounds between two participations"
    owners = Guarantee.of(ledger, promised, happened=dataclasses.replace(seen, epsilon=3.21, rho=0.1667))
    assert sentence in [line.text for line in owners.assumptions if line.mark == Mark.OBSERVED]
    assert "computed from the participation that the plan promises (at most 3 times a user" in part(
        owners, "Mechanism and accounting"
    )
    assert (
        "From the participation that happened (at most twice a user, with at least 21 rounds in between): ε = 3.21, "
        "ρ = 0.1667 (for the owner)." in part(owners, "Mechanism and accounting")
    )
    assert owners.headline == Guarantee.of(ledger, promised).headline
    assert "Nobody took part" not in Guarantee.of(ledger, promised).as_markdown()
    assert "happened" not in Guarantee.of(ledger, promised).as_markdown()


def test_who_came_is_said_of_each_way_through_the_rounds_where_some_ran_again(tmp_path):
    """Somebody may have been in a round that was lost and again in the one that took its place."""
    plan = PrivacyPlan(**CHECK_IN | {"mechanism": "gaussian"})
    with LedgerWriter.create(tmp_path / "ledger.jsonl", opened_with(plan, rounds=2)) as writer:
        for round, attempt in ((0, 0), (1, 0), (1, 1)):
            writer.append(intent_of(plan, round, attempt))
    users = [np.arange(10), np.arange(10, 20), np.arange(10, 20)]
    spent = spent_by(writer.ledger.opened, writer.ledger.intents, cohorts=users)
    (line,) = [each.text for each in Guarantee.of(writer.ledger, spent).assumptions if "took part" in each.text]
    assert line.endswith("on each branch of the run by itself, lost rounds included")


def test_fixed_size_rounds_say_what_papers_would_print(tmp_path):
    found = guarantee_of(ledger_of(tmp_path, FIXED | {"noise_multiplier": 1.0}))
    printed = without_replacement_epsilon(1000, 10, 1.0, 3, 1e-6)
    assert printed < found.epsilon
    assert f"ε = {printed:.2f} for this run" in part(found, "Mechanism and accounting")
    assert "2S" in part(found, "Mechanism and accounting")
    # With much noise and few rounds the papers' accountant, though for a smaller sensitivity, says more than is proven here.
    (tmp_path / "much").mkdir()
    assert "Papers" not in part(guarantee_of(ledger_of(tmp_path / "much", FIXED)), "Mechanism and accounting")


def test_a_stolen_record_is_told_with_what_it_would_cost(tmp_path):
    ledger = ledger_of(tmp_path, POISSON)
    assert "nobody took part" not in guarantee_of(ledger).as_markdown()
    text = part(guarantee_of(ledger, observed=Observed(2)), "Setting and trust")
    # Two Gaussian releases without amplification: rho = 2 / (2 z²).
    rho = 1 / 3.0**2
    assert (
        f"more than twice, which makes rho {round_up(rho, 4)} and epsilon {round_up(epsilon_of_gaussian(rho, 0.999e-6))}"
        in text
    )
    # A thousand of them: an epsilon of some 110, which noise with a finite tail cannot show.
    text = part(guarantee_of(ledger, observed=Observed(1000)), "Setting and trust")
    assert "nothing is claimed against them" in text
    assert "which makes rho" not in text


def test_the_test_in_other_words_is_the_bound(tmp_path):
    ledger = ledger_of(tmp_path, POISSON)
    spent = spent_by(ledger.opened, ledger.intents, quick=True)
    for epsilon, caught in ((0.0, "1.1%"), (1.0, "2.8%"), (20.0, "100.0%")):
        found = Guarantee.of(ledger, dataclasses.replace(spent, epsilon=epsilon))
        assert f"right about D in at most {caught} of cases" in part(found, "The formal statement")


def test_rounds_that_ran_again_are_told(tmp_path):
    plan = PrivacyPlan(**POISSON)
    with LedgerWriter.create(tmp_path / "ledger.jsonl", opened_with(plan)) as writer:
        for record in (intent_of(plan, 0), intent_of(plan, 0, 1), intent_of(plan, 1)):
            writer.append(record)
        found = guarantee_of(writer.ledger)
    assert any("1 of them are further attempts at a round" in line.text for line in found.assumptions)


def test_a_run_that_ended_early_states_the_rounds_that_were_planned(tmp_path):
    ledger = ledger_of(tmp_path, POISSON, rounds=3, rounds_planned=40)
    found = guarantee_of(ledger)
    assert found.headline.endswith("for the 40 rounds that were planned; 3 of them have run.")
    assert (found.as_json()["rounds_planned"], found.as_json()["rounds_run"]) == (40, 3)
    # An account of the rounds that ran alone is refused.
    so_far = cost_if_it_had_ended_here(ledger.opened, ledger.intents)
    assert so_far.epsilon < found.epsilon
    assert "3 rounds were accounted, the ledger plans 40" in Guarantee.of(ledger, so_far).headline


def test_the_outcome_and_the_adversary_are_defined(tmp_path):
    ledger = ledger_of(tmp_path, POISSON)
    spent = spent_by(ledger.opened, ledger.intents, quick=True)
    found = Guarantee.of(ledger, spent, released=("ledger.jsonl: what was released", "checkpoints/*: <models>"))
    assert "ledger.jsonl: what was released\ncheckpoints/*: <models>" in part(found, "What is released")
    assert "<models>" not in found.as_html()
    assert "listed below under “What is released”" in part(found, "The formal statement")
    assert "The adversary is computationally bounded" in part(found, "Setting and trust")
    (tmp_path / "other").mkdir()
    claims_nothing = guarantee_of(ledger_of(tmp_path / "other", NONE, reasons_not_private=(NO_NOISE,)))
    assert "computationally bounded" not in claims_nothing.as_markdown()


STORE = DataRecord(store="ab12")


@pytest.mark.parametrize(
    ("data", "listed", "words", "code"),
    [
        (DataRecord(), None, "because these users are not in a store", None),
        (WORLD, None, "the users of a generated world are not people", None),
        (STORE, None, "Whoever holds the store of these users has a list", "tacit account odometer STORE"),
        (
            STORE,
            ListedRuns(3, "data/x"),
            "3 other runs on these users are",
            "tacit account odometer data/x",
        ),
        (STORE, ListedRuns(1, "data/x"), "1 other run on these users is", "tacit account odometer data/x"),
    ],
)
def test_other_runs_on_the_same_users_are_named(tmp_path, data, listed, words, code):
    ledger = ledger_of(tmp_path, POISSON, data=data)
    found = guarantee_of(ledger, listed=listed)
    (uncovered,) = [each for each in found.parts if each.title == "Not covered"]
    (line,) = [each for each in uncovered.lines if each.text.startswith("Other runs on the same users")]
    assert words in line.text
    assert line.code == code


def test_numbers_are_rounded_up():
    assert [round_up(2.601), round_up(2.6), round_up(math.inf), round_up(0.24991, 4)] == ["2.61", "2.60", "∞", "0.2500"]


@pytest.mark.process
def test_it_needs_no_jax():
    code = "import sys, tacit.privacy.statement.guarantee, tacit.runs.report, tacit.cli.report; print('jax' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"
