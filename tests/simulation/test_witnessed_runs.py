"""Runs with a witness: nothing of a round shows before it is signed, copies are refused, and silence stops the run or not."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import tacit
from tacit.errors import DivergedError, LedgerError, WitnessError
from tacit.privacy.record.ledger import read_ledger
from tacit.privacy.record.records import Intent
from tacit.recipe.training import Recipe, parse_recipe
from tacit.runs import checkpoints, heads
from tacit.runs.folder import RunFolder
from tacit.runs.journal import RunJournal, Schedule
from tacit.runs.log_key import origin_of
from tacit.runs.metrics import MetricsWriter, read_metrics
from tacit.runs.witness import Witness
from tacit.runs.witness_check import check_witness
from tacit.simulation.training import resume_run, start_run
from tacit.transparency.client import WitnessClient, WitnessSilent
from tacit.transparency.witness import Witness as Server
from tests.support.stopping import stopped
from tests.support.tiny_recipe import tiny
from tests.support.witnesses import listening
from tests.support.witnesses_at_rest import witness_in


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Server:
    return witness_in(tmp_path_factory.mktemp("witness"))


@pytest.fixture(scope="module")
def witness(server: Server) -> Iterator[Witness]:
    with listening(server) as address:
        yield Witness(address=address, key=server.key.public.text())


def recipe(witness: Witness, *, required: bool = True, **sections: Any) -> Recipe:
    section = witness.settings()["witness"] | {"required": required}
    return parse_recipe({**tiny(**sections).model_dump(exclude_none=True), "witness": section})


class Warnings(tacit.Callback):
    """What a run warned of, and how it ended."""

    def __init__(self) -> None:
        self.warnings: list[str] = []
        self.outcome = ""

    def on_warning(self, sentence: str) -> None:
        self.warnings.append(sentence)

    def on_end(self, end: tacit.runs.callbacks.RunEnd) -> None:
        self.outcome = end.outcome


def test_nothing_of_a_round_shows_before_its_head_is_signed(
    tmp_path: Path, witness: Witness, server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    checked: list[str] = []

    def require_signed(what: str) -> None:
        folder = RunFolder.open(tmp_path / "run")
        records = read_ledger(folder.ledger_path).records
        last = max((place for place, record in enumerate(records) if isinstance(record, Intent)), default=0)
        head = server.latest(origin_of(folder.run_id))
        assert head is not None, what
        assert head.size > last, what
        checked.append(what)

    class Watch(tacit.Callback):
        def on_evaluation(self, round: int, metrics: Any) -> None:
            require_signed("evaluation")

        def on_end(self, end: Any) -> None:
            require_signed("end")

    append, save = MetricsWriter.append, checkpoints.save

    def append_signed(self: MetricsWriter, record: Any) -> Any:
        if self.path.name == "metrics.jsonl":
            require_signed("metrics")
        return append(self, record)

    def save_signed(*arguments: Any, **more: Any) -> Any:
        require_signed("checkpoint")
        return save(*arguments, **more)

    monkeypatch.setattr(MetricsWriter, "append", append_signed)
    monkeypatch.setattr(checkpoints, "save", save_signed)
    start_run(recipe(witness), tmp_path / "run", Watch())
    assert {what: checked.count(what) for what in set(checked)} == {
        "evaluation": 3,
        "metrics": 3,
        "checkpoint": 3,
        "end": 1,
    }
    monkeypatch.undo()
    found = check_witness(RunFolder.open(tmp_path / "run"))
    assert found.signed == found.records == found.in_folder
    named = tacit.open_run(tmp_path / "run").guarantee().as_markdown()
    assert "before the witness tacit.example/witness had signed a head" in named
    assert "no witness has signed" not in named


def test_a_folder_restored_from_an_older_copy_is_refused(tmp_path: Path, witness: Witness) -> None:
    """A world has no odometer: the witness alone knows that the run went on."""
    run, copy = tmp_path / "run", tmp_path / "copy"
    stopped(recipe(witness), run, 3)
    shutil.copytree(run, copy)
    resume_run(run, tacit.Callback())
    assert check_witness(RunFolder.open(run)).signed == len(read_ledger(run / "ledger.jsonl").records)
    before = {path: path.read_bytes() for path in copy.rglob("*") if path.is_file()}
    with pytest.raises(LedgerError, match=r"has signed a head of .* does not continue"):
        resume_run(copy, tacit.Callback())
    assert {path: path.read_bytes() for path in copy.rglob("*") if path.is_file()} == before


def _silent_after(monkeypatch: pytest.MonkeyPatch, answers: int) -> None:
    """The witness answers so many times, and then no more."""
    left, countersign = [answers], WitnessClient.countersign

    def asked(self: WitnessClient, *arguments: Any) -> Any:
        left[0] -= 1
        if left[0] < 0:
            raise WitnessSilent("The witness does not answer.") from OSError()
        return countersign(self, *arguments)

    monkeypatch.setattr(WitnessClient, "countersign", asked)
    monkeypatch.setattr(heads, "PATIENCE_S", 0.0)


def test_a_required_witness_that_falls_silent_stops_the_run_which_can_go_on(
    tmp_path: Path, witness: Witness, monkeypatch: pytest.MonkeyPatch
) -> None:
    followed = Warnings()
    with monkeypatch.context() as patch:
        _silent_after(patch, 3)  # the beginning, and before each of two evaluations with their checkpoints
        with pytest.raises(WitnessError, match="has stopped, because the witness is required"):
            start_run(recipe(witness), tmp_path / "run", followed)
    folder = RunFolder.open(tmp_path / "run")
    ledger = folder.ledger()
    assert (followed.outcome, ledger.closed.outcome if ledger.closed else "") == ("stopped", "stopped")
    shown = max(record["round"] for record in read_metrics(folder.metrics_path))
    # The rounds after those that were shown are in the ledger, and nothing of them is anywhere else.
    assert shown == max(checkpoints.rounds_kept(folder.checkpoints_path)) < len(ledger.intents)
    assert folder.summary() is None
    resume_run(tmp_path / "run", followed)
    assert followed.outcome == "finished"
    assert not followed.warnings
    assert len(folder.ledger().intents) == 6 + len(ledger.intents) - shown  # what was lost counts again
    assert check_witness(folder).signed == len(folder.ledger().records)


def test_that_a_run_diverged_shows_only_after_the_head_is_signed(
    tmp_path: Path, witness: Witness, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whether a model is finite depends on the round."""
    recipe_ = recipe(
        witness,
        server={"optimizer": "sgd", "learning_rate": 3e38},
        run={"evaluate_every": 40, "checkpoint_every": 40, "rounds": 40},
        privacy={"clip_norm": 1e6},
    )
    followed = Warnings()
    with monkeypatch.context() as patch:
        patch.setattr(Schedule, "early", ())
        _silent_after(patch, 1)  # the beginning
        with pytest.raises(WitnessError, match="has stopped, because the witness is required"):
            start_run(recipe_, tmp_path / "run", followed)
    closed = RunFolder.open(tmp_path / "run").ledger().closed
    assert (followed.outcome, closed.outcome if closed else "") == ("stopped", "stopped")
    with pytest.raises(DivergedError):
        resume_run(tmp_path / "run", followed)
    assert followed.outcome == "diverged"


def test_a_witness_that_is_away_at_the_end_leaves_the_run_finished(
    tmp_path: Path, witness: Witness, monkeypatch: pytest.MonkeyPatch
) -> None:
    followed = Warnings()
    with monkeypatch.context() as patch:
        close = RunJournal.close

        def away(self: RunJournal, outcome: str) -> None:
            _silent_after(patch, 0)
            close(self, outcome)

        patch.setattr(RunJournal, "close", away)
        start_run(recipe(witness, run={"rounds": 1}), tmp_path / "run", followed)
    folder = RunFolder.open(tmp_path / "run")
    assert followed.outcome == "finished"
    assert ["tacit witness submit" in each for each in followed.warnings] == [True]
    assert check_witness(folder).signed == 2  # the first record and the round's intent, but not how the run ended
    heads.submit(folder, witness)
    assert check_witness(folder).signed == len(folder.ledger().records)


def test_a_witness_that_is_not_required_may_be_away(
    tmp_path: Path, witness: Witness, monkeypatch: pytest.MonkeyPatch
) -> None:
    followed = Warnings()
    _silent_after(monkeypatch, 0)
    start_run(recipe(witness, required=False, run={"rounds": 2}), tmp_path / "run", followed)
    assert followed.outcome == "finished"
    assert ["goes on without its signature" in each for each in followed.warnings] == [True, False]
    assert not (tmp_path / "run" / heads.HEAD).exists()
    stated = tacit.open_run(tmp_path / "run").guarantee().as_markdown()
    assert "records that are in no signed head" in stated.lower()
