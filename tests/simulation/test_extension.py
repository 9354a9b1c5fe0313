"""A finished run gets more rounds: the ledger says so, and the guarantee covers all of them, whoever decided and why."""

from __future__ import annotations

import math
import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import tacit
from tacit.errors import LedgerError, RunError
from tacit.privacy.accounting.several_runs import PLANNED, together
from tacit.privacy.accounting.spent import EXTENDED, spent_by
from tacit.privacy.participation import log as participation_record
from tacit.privacy.record.ledger import LedgerWriter, read_ledger
from tacit.privacy.record.records import Closed, Extended, ExtendedRun
from tacit.recipe.training import parse_recipe
from tacit.runs import checkpoints
from tacit.runs.extension import extension_of
from tacit.runs.folder import RunFolder
from tacit.runs.journal import StopRequested
from tacit.simulation.training import start_run
from tests.support.tiny_recipe import tiny


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of three rounds."""
    out = tmp_path_factory.mktemp("runs") / "run"
    start_run(tiny(run={"rounds": 3}), out, tacit.Callback())
    return out


@pytest.fixture(scope="module")
def extended(finished: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same run, extended to five rounds."""
    out = tmp_path_factory.mktemp("extended") / "run"
    shutil.copytree(finished, out)
    tacit.resume(out, rounds=5)
    return out


def test_the_guarantee_of_an_extended_run_covers_all_rounds(finished, extended):
    before, after = tacit.open_run(finished), tacit.open_run(extended)
    assert (after.state, after.rounds_done, after.summary["rounds"]) == ("finished", 5, 5)
    guarantee = after.guarantee()
    assert (guarantee.rounds_planned, guarantee.rounds_run, guarantee.releases) == (5, 5, 5)
    planned_so = spent_by(replace(before.ledger.opened, rounds=5), after.ledger.intents)
    assert before.cost().epsilon < planned_so.epsilon < after.cost().epsilon < math.inf
    assert after.cost().accountant == EXTENDED
    assert guarantee.epsilon == after.cost().epsilon == after.summary["privacy"]["epsilon"]
    assert any("Whoever extended the run, from the 3 rounds" in line.text for line in guarantee.assumptions)
    assert after.cost().delta == before.cost().delta


def test_epsilon_is_the_one_that_was_announced(finished, extended):
    announced = extension_of(RunFolder.open(finished), 5)
    assert announced.after.epsilon == tacit.open_run(extended).cost().epsilon
    assert announced.before.epsilon == tacit.open_run(finished).cost().epsilon
    assert f"will be {math.ceil(announced.after.epsilon * 100) / 100:.2f} at δ = 0.0001" in announced.sentence()


def test_the_ledger_and_the_other_files_tell_one_story(finished, extended):
    first, ledger = read_ledger(finished / "ledger.jsonl"), read_ledger(extended / "ledger.jsonl")
    added = ledger.records[len(first.records) :]
    assert ledger.records[: len(first.records)] == first.records
    assert [record.kind for record in added[:2]] == ["extended", "resumed"]
    assert [intent.round for intent in ledger.intents] == list(range(5))
    assert isinstance(ledger.opened, ExtendedRun)
    assert (ledger.opened.rounds, ledger.opened.extended_from) == (5, (3,))
    participation_record.verify(extended / "private" / "participation.bin", ledger)
    assert (extended / "recipe.toml").read_bytes() == (finished / "recipe.toml").read_bytes()
    assert checkpoints.rounds_kept(extended / "checkpoints")[-1] == 5
    assert "5 of 5" in tacit.open_run(extended).report(extended / "report.html").read_text()


def test_an_extended_run_is_the_longer_run_with_the_same_noise(tmp_path):
    """Two seeded runs, one planned for five rounds and one extended to them: the models are equal up to rounding.

    The audit of the gate adds and takes away its canaries in the first rounds only of the extended run.
    """
    for rounds in (3, 5):
        start_run(tiny(run={"rounds": rounds, "seed": 5}), tmp_path / str(rounds), tacit.Callback())
    tacit.resume(tmp_path / "3", rounds=5)
    one, other = (checkpoints.latest(tmp_path / name / "checkpoints") for name in ("3", "5"))
    assert one is not None
    assert other is not None
    for name, array in one.arrays.items():
        np.testing.assert_allclose(array, other.arrays[name], rtol=1e-4, atol=1e-6)


def test_several_extensions_and_an_interruption(finished, tmp_path):
    run = tmp_path / "run"
    shutil.copytree(finished, run)

    class Stop(tacit.Callback):
        def on_round(self, round: int, rounds: int) -> None:
            raise StopRequested

    with pytest.raises(StopRequested):
        tacit.resume(run, rounds=6, callbacks=[Stop()])
    assert tacit.open_run(run).summary == {}  # the result of three rounds is not that of the run that goes on
    with pytest.raises(
        RunError, match=r"Expected a run that has finished, to extend it to 9 rounds, got .*not finished"
    ):
        tacit.resume(run, rounds=9)
    assert tacit.resume(run).rounds_done == 6
    tacit.resume(run, rounds=7)
    assert tacit.open_run(run).ledger.opened.extended_from == (3, 6)
    text = " ".join(line.text for line in tacit.open_run(run).guarantee().assumptions)
    assert "from the 3 rounds that were planned first to 6 and then to 7" in text


def test_several_runs_are_composed_by_an_odometer_if_one_was_extended(finished, extended, tmp_path):
    other = tmp_path / "other"
    start_run(tiny(run={"rounds": 2}), other, tacit.Callback())
    whole = [read_ledger(run / "ledger.jsonl") for run in (extended, other)]
    found = together(whole)
    assert found == together(whole, adaptive=True)
    assert PLANNED not in found.assumptions
    assert PLANNED in together([read_ledger(run / "ledger.jsonl") for run in (finished, other)]).assumptions


def test_a_ledger_without_its_extension_claims_nothing(extended):
    """Leave the record out of the reading: the rounds beyond the plan make epsilon infinite."""
    ledger = read_ledger(extended / "ledger.jsonl")
    shorter = replace(ledger, records=tuple(each for each in ledger.records if not isinstance(each, Extended)))
    assert math.isinf(spent_by(shorter.opened, shorter.intents).epsilon)


@pytest.mark.parametrize(
    ("plan", "why"),
    [
        (
            {"mechanism": "tree", "sampling": "check_in", "min_separation": 5},
            "the noise of the mechanism 'tree' is correlated between rounds, and was planned and charged for this number",
        ),
        ({"sampling": "check_in", "min_separation": 5}, "its users check in, and the plan promises how often"),
    ],
)
def test_other_runs_say_why_they_cannot_be_extended(tmp_path, plan, why):
    run = tmp_path / "run"
    start_run(tiny(privacy=plan, run={"rounds": 2}), run, tacit.Callback())
    before = (run / "ledger.jsonl").read_bytes()
    with pytest.raises(RunError, match=why):
        tacit.resume(run, rounds=4)
    assert (run / "ledger.jsonl").read_bytes() == before


def test_fewer_rounds_and_a_plain_resume_are_refused(finished):
    with pytest.raises(RunError, match=r"Expected run.rounds > 3, the rounds that .* has run, got 3"):
        tacit.resume(finished, rounds=3)
    with pytest.raises(RunError, match="nothing to resume") as refused:
        tacit.resume(finished)
    assert "--set run.rounds=6" in str(refused.value.hint)


def test_an_infinite_epsilon_stays_infinite(tmp_path):
    run = tmp_path / "run"
    no_noise = {"mechanism": "none", "noise_multiplier": 0.0}
    start_run(tiny(privacy=no_noise, run={"rounds": 2}), run, tacit.Callback())
    assert extension_of(RunFolder.open(run), 3).sentence().endswith("ε stays infinite.")
    assert math.isinf(tacit.resume(run, rounds=3).cost().epsilon)


@pytest.mark.parametrize("rounds", [2, 3])
def test_the_ledger_takes_no_extension_to_fewer_rounds(finished, tmp_path, rounds):
    path = tmp_path / "ledger.jsonl"
    shutil.copy(finished / "ledger.jsonl", path)
    with LedgerWriter.open(path) as writer, pytest.raises(LedgerError, match="expected more than the 3 rounds"):
        writer.append(Extended(rounds))


def test_the_ledger_takes_no_extension_of_a_run_that_has_not_finished(finished, tmp_path):
    path = tmp_path / "ledger.jsonl"
    with LedgerWriter.create(path, read_ledger(finished / "ledger.jsonl").opened) as writer:
        with pytest.raises(LedgerError, match="only a run that has finished can be extended"):
            writer.append(Extended(9))
        writer.append(Closed(0, "diverged"))
        with pytest.raises(LedgerError, match=r"the run was closed before it \(diverged\)"):
            writer.append(Extended(9))


def test_no_ledger_begins_with_the_record_of_an_extended_run(extended, tmp_path):
    with pytest.raises(LedgerError, match="as it was written"):
        LedgerWriter.create(tmp_path / "ledger.jsonl", read_ledger(extended / "ledger.jsonl").opened)


def test_a_recipe_that_names_other_rounds_than_the_first_record_is_noticed(extended, tmp_path):
    run = tmp_path / "run"
    shutil.copytree(extended, run)
    recipe = parse_recipe(RunFolder.open(run).recipe())
    longer = recipe.model_copy(update={"run": recipe.run.model_copy(update={"rounds": 5})})
    (run / "recipe.toml").write_text(longer.to_toml())
    with pytest.raises(LedgerError, match=r"recipe.toml is not the one that the ledger names"):
        tacit.open_run(run).cost()


def test_a_run_whose_learning_rate_has_fallen_to_zero_gets_no_rounds_that_change_nothing(tmp_path: Path) -> None:
    server = {"schedule": "linear", "learning_rate": 1.0}
    start_run(tiny(run={"rounds": 2}, server=server), tmp_path / "run", tacit.Callback())
    with pytest.raises(RunError, match="would cost privacy and change nothing"):
        extension_of(RunFolder.open(tmp_path / "run"), 4)


def test_the_guarantee_says_that_added_rounds_are_charged_as_such(finished: Path, extended: Path) -> None:
    charged = "The decision to add rounds may depend on what was released"
    assert charged in " ".join(tacit.open_run(extended).guarantee().as_markdown().split())
    assert charged not in " ".join(tacit.open_run(finished).guarantee().as_markdown().split())
