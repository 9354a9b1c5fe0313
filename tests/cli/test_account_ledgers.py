"""`tacit account run`, `compose` and `odometer`: costs are read off ledgers, and cohorts that cannot be are caught."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tacit.data.store import open_store
from tacit.numbers import rounded_up
from tacit.privacy.accounting.adaptive import ACCOUNTANT
from tacit.privacy.accounting.several_runs import PLANNED, together
from tacit.privacy.accounting.spent import spent_by
from tacit.privacy.participation.samplers import CheckIn, FixedSize, Poisson
from tacit.privacy.record.facts import DataRecord
from tacit.privacy.record.ledger import read_ledger
from tacit.privacy.statement.wording import epsilon_text
from tacit.runs import checkpoints
from tacit.runs.cost import HAPPENED
from tacit.runs.folder import RunFolder
from tacit.runs.odometer import register
from tests.support import made_up_ledgers as made_up
from tests.support.account_commands import KEYS
from tests.support.commands import Tacit
from tests.support.first_record import NO_NOISE, SEEDED

REPLACE = FixedSize(10, 1_000)


@pytest.fixture
def runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return Path("runs")


def test_a_run_costs_what_its_ledger_says(tacit: Tacit, runs: Path) -> None:
    ledger = read_ledger(made_up.run(runs / "a").ledger_path)
    found = tacit("account", "run", "a", "--json").object
    assert found.keys() >= KEYS
    assert found["epsilon"] == spent_by(ledger.opened, ledger.intents).epsilon
    assert (found["rho"], found["releases"]) == (None, 20)
    assert "the cohorts agree with the stated sampling" in found["cohorts"]
    out = tacit("account", "run", "a").out
    assert "runs/a: 20 releases, unit: user.\nepsilon " in out
    assert "the cohorts agree with the stated sampling" in out
    RunFolder.create(runs / "b", "")
    assert "has not begun" in tacit("account", "run", "b").refusal(4)
    assert "nowhere" in tacit("account", "run", "nowhere").refusal(4)


@pytest.mark.parametrize(
    ("sampler", "draw", "said"),
    [
        (Poisson(0.01), Poisson(0.03), "together where 200 are expected"),
        (Poisson(0.01), FixedSize(10, 1_000), "nearly the same size"),
        (REPLACE, FixedSize(11, 1_000), "Expected 10 users in the cohort of round 0"),
    ],
)
def test_a_sampler_that_did_something_else_is_caught(
    tacit: Tacit, runs: Path, sampler: Any, draw: Any, said: str
) -> None:
    made_up.run(runs / "a", sampler=sampler, draw=draw)
    for command in ("run", "compose"):
        sentence = tacit("account", command, "a", "--json").refusal(4)
        assert said in sentence
        assert "epsilon is infinite" in sentence


@pytest.mark.slow
def test_a_run_that_was_trained_with_a_tampered_sampler_is_caught(
    tacit: Tacit, here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The plan, the ledger and the accounting say q = 0.03; the sampler in fact draws every fifth user."""
    assert tacit("train", "tiny.toml", "--out", "honest").code == 0
    assert "the cohorts agree with the stated sampling" in tacit("account", "run", "honest").out
    monkeypatch.setattr(Poisson, "sample", lambda self, draws: np.flatnonzero(draws < np.uint64(2**64 // 5)))
    assert tacit("train", "tiny.toml", "--out", "tampered").code == 0
    assert "are not those of the sampling in the ledger" in tacit("account", "run", "tampered").refusal(4)


def test_a_record_that_was_changed_or_is_gone_is_refused(tacit: Tacit, runs: Path) -> None:
    folder, other = made_up.run(runs / "a"), made_up.run(runs / "b")
    shutil.copy(other.participation_path, folder.participation_path)
    assert "holds another cohort" in tacit("account", "run", "a").refusal(4)
    folder.participation_path.unlink()
    assert "There is no participation record" in tacit("account", "run", "a").refusal(4)


def test_a_copy_without_the_private_folder_says_that_nothing_was_compared(tacit: Tacit, runs: Path) -> None:
    folder = made_up.run(runs / "a", draw=Poisson(0.5))
    shutil.rmtree(folder.private_path)
    assert "only the run's owner can do that" in tacit("account", "run", "a").out


def test_a_run_that_was_killed_is_not_damaged(tacit: Tacit, runs: Path) -> None:
    folder = made_up.run(runs / "a")
    lines = folder.ledger_path.read_bytes().splitlines(keepends=True)
    folder.ledger_path.write_bytes(b"".join(lines[:-1]))  # without its end
    with folder.participation_path.open("ab") as file:
        file.write(b"TPR1 and no more")
    assert "the cohorts agree with the stated sampling" in tacit("account", "run", "a").out
    folder.ledger_path.write_bytes(b"".join(lines))
    assert "damaged" in tacit("account", "run", "a").refusal(4)
    os.truncate(folder.participation_path, folder.participation_path.stat().st_size - 16)
    folder.ledger_path.write_bytes(b"".join(lines[:-5]))  # cut: more cohorts than a crash leaves
    assert "the ledger was cut" in tacit("account", "run", "a").refusal(4)


def test_where_nothing_is_claimed_nothing_is_compared(tacit: Tacit, runs: Path) -> None:
    made_up.run(runs / "a", draw=Poisson(0.5), reasons_not_private=(SEEDED,))
    out = tacit("account", "run", "a").out
    assert "epsilon is infinite: the noise can be replayed by anybody who knows the seed" in out
    assert "not compared" in out
    assert tacit("account", "run", "a", "--json").object["reason_codes"] == ["seeded"]


def test_without_sampling_the_cohorts_say_how_often_users_came(tacit: Tacit, runs: Path) -> None:
    for name in "ab":  # each of 1000 users at most once in 20 rounds, where the plan promises less
        made_up.run(runs / name, sampler=CheckIn(10, 4, 5), draw=CheckIn(10, 19, 1))
    found = tacit("account", "run", "a", "--json").object
    assert (found["rho"], found[HAPPENED]["rho"]) == (
        4 / 8,
        1 / 8,
    )  # by the plan's promise; what happened, for the owner
    assert found["computed_from"].startswith("the participation that the plan promises (at most 5 times a user")
    assert found[HAPPENED]["computed_from"].startswith("the participation that happened (at most once a user")
    assert "those of the ledger" in found["cohorts"]
    out = tacit("account", "run", "a").out
    assert f"epsilon {epsilon_text(found['epsilon'])} at delta" in out
    assert "for the 20 rounds that were planned; all of them have run" in out
    assert "for the owner, from the participation that happened (at most once a user" in out
    both = tacit("account", "compose", "a", "b", "--json").object
    assert (both["rho"], both[HAPPENED]["rho"]) == (8 / 8, 2 / 8)
    assert "for the owner, from the participation that happened: epsilon " in tacit("account", "compose", "a", "b").out
    shutil.rmtree(runs / "a" / "private")
    alone = tacit("account", "run", "a", "--json").object
    assert (alone["rho"], alone[HAPPENED]) == (4 / 8, None)
    both = tacit("account", "compose", "a", "b", "--json").object
    assert (both["rho"], both[HAPPENED]["rho"]) == (8 / 8, 5 / 8)


def test_a_record_that_breaks_the_plans_promise_takes_the_claim_away(tacit: Tacit, runs: Path) -> None:
    """The headline assumes that the promise was kept, so whoever can see that it was not may state nothing."""
    for name, promised, draw in (
        ("often", CheckIn(10, 4, 1), CheckIn(10, 4, 5)),
        ("soon", CheckIn(10, 4, 20), CheckIn(300, 0, 20)),
    ):
        made_up.run(runs / name, sampler=promised, draw=draw)
        reason = tacit("account", "run", name, "--json").object["reasons_not_private"][0]
        said = {"often": "and the plan promises 1 at most", "soon": "rounds, and the plan promises at least 4"}[name]
        assert said in reason
        assert said in tacit("account", "compose", name, "--json").object["reasons_not_private"][0]
        assert said in tacit("runs", "show", name, "--json").object["privacy"]["reasons_not_private"][0]


def test_composition_names_runs_data_and_assumptions(tacit: Tacit, runs: Path) -> None:
    folders = [made_up.run(runs / name) for name in "ab"]
    found = tacit("account", "compose", "a", "b", "--json").object
    assert found.keys() >= KEYS
    total = together([read_ledger(folder.ledger_path) for folder in folders])
    assert (found["epsilon"], found["delta"], found["releases"]) == (total.epsilon, 1e-6, 40)
    assert [each["run_id"] for each in found["runs"]] == [folder.run_id for folder in folders]
    assert found["runs"][0]["data"] == {"world": "keyboard", "seed": 1, "users": 1000}
    alone = tacit("account", "run", "a", "--json").object["epsilon"]
    assert alone < found["epsilon"] < 2 * alone
    out = tacit("account", "compose", "a", "b", "--delta", 1e-4).out
    assert "runs/b: 20 releases on world keyboard, seed 1, users 1000\nepsilon " in out
    assert "every person may have been in all of them" in out


def test_what_is_not_composed(tacit: Tacit, runs: Path) -> None:
    made_up.run(runs / "a")
    made_up.run(runs / "b", sampler=REPLACE)
    assert "got the run" in tacit("account", "compose", "a", "runs/a").refusal(5)
    assert "'add or remove one user' and 'replace one user'" in tacit("account", "compose", "a", "b").refusal(5)
    assert "--delta" in tacit("account", "compose", "a", "--delta", 2).refusal(2)
    made_up.run(runs / "c", reasons_not_private=(NO_NOISE,))
    assert tacit("account", "compose", "a", "c", "--json").object["epsilon"] is None


@pytest.fixture
def store(tacit: Tacit, runs: Path) -> Path:
    Path("talk.csv").write_text("user,text\n" + "".join(f"u{n % 50},see you soon {n}\n" for n in range(100)))
    Path("words.txt").write_text("see\nyou\nsoon\n")
    columns = ("--user", "user", "--text", "text", "--vocabulary", "words.txt")
    made = tacit("data", "import", "talk.csv", "--out", "talk", "--held-out", 0, *columns)
    assert made.code == 0, made.err
    return Path("talk")


def enter(store: Path, folder: RunFolder) -> None:
    register(store, run_id=folder.run_id, run=folder.path, claims_privacy=True)


def test_the_odometer_composes_every_run(tacit: Tacit, runs: Path, store: Path) -> None:
    empty = tacit("account", "odometer", store, "--json").object
    assert empty.keys() >= KEYS
    assert (empty["epsilon"], empty["runs"], empty["store"]) == (0, [], open_store(store).store_id)
    one, other, never = made_up.run(runs / "a"), made_up.run(runs / "b"), RunFolder.create(runs / "c", "")
    for folder in (one, other, never, one):
        enter(store, folder)
    found = tacit("account", "odometer", store, "--json").object
    planned = tacit("account", "compose", "a", "b", "--json").object
    assert planned["epsilon"] < found["epsilon"]
    assert (found["accountant"], planned["accountant"]) == (ACCOUNTANT, "pld")
    assert [line for line in planned["assumptions"] if line not in found["assumptions"]] == [PLANNED]
    assert [each["state"] for each in found["runs"]] == ["20 releases", "20 releases", "released nothing"]
    assert "runs/b: 20 releases\n" in tacit("account", "odometer", store).out


def test_a_run_the_odometer_cannot_find_makes_the_total_unknown(tacit: Tacit, runs: Path, store: Path) -> None:
    one, other = made_up.run(runs / "a"), made_up.run(runs / "b")
    enter(store, one)
    enter(store, other)
    other.path.rename(runs / "moved")
    found = tacit("account", "odometer", store, "--json").object
    assert found.keys() >= KEYS
    assert (found["epsilon"], found["delta"]) == (None, None)
    assert "the run's folder is not there" in found["reasons_not_private"][0]
    assert found["counted"]["epsilon"] == together([read_ledger(one.ledger_path)], adaptive=True).epsilon
    out = tacit("account", "odometer", store).out
    assert "The total is unknown, so nothing can be claimed: " in out
    assert "what could be counted: epsilon " in out
    enter(store, RunFolder.open(runs / "moved"))  # resumed from its new place
    assert tacit("account", "odometer", store, "--json").object["epsilon"] > found["counted"]["epsilon"]


def test_a_run_that_was_copied_and_went_on_twice_makes_the_total_unknown(tacit: Tacit, runs: Path, store: Path) -> None:
    original = made_up.run(runs / "a", rounds=5, planned=9, closed=False)
    enter(store, original)
    alone = tacit("account", "odometer", store, "--json").object["epsilon"]
    shutil.copytree(original.path, runs / "b")
    copy = RunFolder.open(runs / "b")
    enter(store, copy)
    assert tacit("account", "odometer", store, "--json").object["epsilon"] == alone  # a copy alone is no release
    made_up.go_on(copy, rounds=4)
    whole = tacit("account", "odometer", store, "--json").object
    assert whole["epsilon"] == alone  # that of the planned rounds, which was charged before they had run
    assert whole["runs"][0]["state"] == "9 releases"
    made_up.go_on(original, rounds=3)
    found = tacit("account", "odometer", store, "--json").object
    assert found["epsilon"] is None
    assert "it was copied, and the copy in" in found["reasons_not_private"][0]
    shutil.rmtree(copy.path)  # where it went on last
    found = tacit("account", "odometer", store, "--json").object
    assert "the run's folder is not there" in found["reasons_not_private"][0]


def test_a_run_without_ledger_that_left_a_model_is_not_taken_for_one_that_released_nothing(
    tacit: Tacit, runs: Path, store: Path
) -> None:
    folder = made_up.run(runs / "a")
    enter(store, folder)
    checkpoints.save(folder.checkpoints_path, 20, {"x": np.zeros(1)}, {})
    folder.ledger_path.unlink()
    folder.participation_path.unlink()
    assert tacit("account", "odometer", store, "--json").object["epsilon"] is None


def test_a_ledger_that_was_cut_is_not_accounted(tacit: Tacit, runs: Path) -> None:
    """The record of one more cohort than there are intents may be a crash's; a model of one more round may not."""
    folder = made_up.run(runs / "a")
    checkpoints.save(folder.checkpoints_path, 20, {"x": np.zeros(1)}, {})
    lines = folder.ledger_path.read_bytes().splitlines(keepends=True)
    folder.ledger_path.write_bytes(b"".join(lines[:20]))  # without the last intent and the end
    for command in (("account", "run"), ("account", "compose"), ("guarantee",), ("report",)):
        assert "after 20 rounds, but its ledger knows of 19" in tacit(*command, "a").refusal(4)


def test_rho_is_rounded_up_where_people_read_it() -> None:
    shown = {value: rounded_up(value) for value in (0.12341, 0.1234, 9.9991, 1e-7 / 3, 12345.6, 0.0)}
    assert list(shown.values()) == ["0.1235", "0.1234", "10", "3.334e-08", "1.235e+04", "0"]
    assert all(float(text) >= value for value, text in shown.items())


def test_another_run_in_the_place_of_a_listed_one_is_not_taken_for_it(tacit: Tacit, runs: Path, store: Path) -> None:
    listed = made_up.run(runs / "a")
    enter(store, listed)
    shutil.rmtree(listed.path)
    made_up.run(runs / "a", rounds=1)
    found = tacit("account", "odometer", store, "--json").object
    assert found["epsilon"] is None
    assert "the run's folder is not there" in found["reasons_not_private"][0]


def test_the_odometer_counts_no_run_it_cannot_trust(tacit: Tacit, runs: Path, store: Path) -> None:
    enter(store, made_up.run(runs / "a", draw=Poisson(0.5)))
    found = tacit("account", "odometer", store, "--json").object
    assert found["epsilon"] is None
    assert "are not those of the sampling" in found["reasons_not_private"][0]
    folder = made_up.run(runs / "b")
    enter(store, folder)
    folder.ledger_path.unlink()
    reasons = tacit("account", "odometer", store, "--json").object["reasons_not_private"]
    assert "has not begun" in reasons[1]  # but users were asked


def test_the_odometer_across_adjacencies(tacit: Tacit, runs: Path, store: Path) -> None:
    enter(store, made_up.run(runs / "a"))
    enter(store, made_up.run(runs / "b", sampler=REPLACE))
    found = tacit("account", "odometer", store, "--json").object
    assert (found["epsilon"], found["counted"]) == (None, None)
    assert "Expected one adjacency" in found["reasons_not_private"][0]
    assert "no store" in tacit("account", "odometer", runs).refusal(3)


def test_the_sizes_of_cohorts_from_a_store_are_compared_where_it_is_at_hand(
    tacit: Tacit, runs: Path, store: Path
) -> None:
    store_id = open_store(store).store_id
    data, named = DataRecord(store=store_id), {"store": "talk", "held_out": 0}
    made_up.run(runs / "unnamed", users=50, sampler=Poisson(0.2), data=data)
    made_up.run(runs / "honest", users=50, sampler=Poisson(0.2), data=data, about=named)
    made_up.run(runs / "tampered", users=50, sampler=Poisson(0.2), draw=Poisson(0.5), data=data, about=named)
    assert "their sizes could not be checked" in tacit("account", "run", "unnamed").out  # no recipe names the store
    assert "the cohorts agree with the stated sampling" in tacit("account", "run", "honest").out
    assert "are not those of the sampling" in tacit("account", "run", "tampered").refusal(4)
    made_up.run(runs / "foreign", users=50, sampler=Poisson(0.2), data=DataRecord(store="another"), about=named)
    assert "their sizes could not be checked" in tacit("account", "run", "foreign").out
