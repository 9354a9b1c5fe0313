"""A run that went on from a copy is two runs: the store's list knows the ledger's head, and refuses a second branch."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import Any

import pytest

import tacit
from tacit.data.build import save_users
from tacit.data.vocabulary import Vocabulary, word_list
from tacit.errors import LedgerError, RunError
from tacit.privacy.record.ledger import LedgerWriter, read_ledger
from tacit.privacy.record.records import Committed, Resumed
from tacit.recipe.training import Recipe
from tacit.runs import checkpoints, odometer
from tacit.runs.folder import RunFolder
from tacit.runs.journal import RunJournal, StopRequested
from tacit.runs.metrics import MetricsWriter
from tacit.runs.store_cost import look_up
from tacit.simulation.training import resume_run, start_run
from tests.support.list_users import ListUsers
from tests.support.stopping import stop_after
from tests.support.store_keys import KEY
from tests.support.tiny_recipe import tiny

REFUSED = "is not the one that the odometer"


@pytest.fixture
def recipe(tmp_path: Path) -> Recipe:
    """Six rounds on a store of sixty users, a checkpoint after every other one."""
    words = Vocabulary(tuple(f"w{i}" for i in range(50)), word_list("test"))
    sentences = [[[4 + (user + word) % 50 for word in range(5)]] * 4 for user in range(64)]
    save_users(ListUsers(sentences), tmp_path / "store", source="test", vocabulary=words, key=KEY)
    privacy = {"population": 60, "cohort": 20, "delta": 1e-5, "noise_multiplier": 2.0}
    return tiny(privacy=privacy, data={"world": None, "store": str(tmp_path / "store"), "held_out": 4})


def stopped(recipe: Recipe, out: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A run that a person stopped in its fourth round."""
    with monkeypatch.context() as patch:
        patch.setattr(RunJournal, "before", stop_after(RunJournal.before, 3))
        with pytest.raises(StopRequested):
            start_run(recipe, out, tacit.Callback())
    return out


def state(store: Path) -> Any:
    [entries] = odometer.runs_of(store).values()
    return look_up(store, entries)


@pytest.mark.slow
def test_stop_copy_finish_restore_resume_is_refused(
    tmp_path: Path, recipe: Recipe, monkeypatch: pytest.MonkeyPatch
) -> None:
    run, store = stopped(recipe, tmp_path / "run", monkeypatch), tmp_path / "store"
    shutil.copytree(run, tmp_path / "copy")
    resume_run(run, tacit.Callback())
    assert state(store).problem is None
    shutil.move(run, tmp_path / "finished")
    shutil.move(tmp_path / "copy", run)
    before = {path: path.read_bytes() for path in run.rglob("*") if path.is_file()}
    with pytest.raises(LedgerError, match=REFUSED) as caught:
        resume_run(run, tacit.Callback())
    assert caught.value.sentence.count(". ") == 0
    assert {path: path.read_bytes() for path in run.rglob("*") if path.is_file()} == before
    assert REFUSED in (state(store).problem or "")  # what it released is in the folder that was moved away
    shutil.rmtree(run)
    shutil.move(tmp_path / "finished", run)
    assert state(store).problem is None


def test_whichever_copy_goes_on_second_is_refused(
    tmp_path: Path, recipe: Recipe, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = stopped(recipe, tmp_path / "run", monkeypatch)
    shutil.copytree(run, tmp_path / "copy")
    resume_run(tmp_path / "copy", tacit.Callback())
    with pytest.raises(LedgerError, match=REFUSED):
        resume_run(run, tacit.Callback())
    assert state(tmp_path / "store").problem is None  # the copy's ledger holds all that was released


def test_a_copy_is_refused_as_soon_as_the_other_one_has_resumed(
    tmp_path: Path, recipe: Recipe, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = stopped(recipe, tmp_path / "run", monkeypatch)
    shutil.copytree(run, tmp_path / "copy")

    def killed(self: RunJournal, *_: Any) -> None:
        raise ZeroDivisionError

    with monkeypatch.context() as patch:
        patch.setattr(RunJournal, "before", killed)
        with pytest.raises(ZeroDivisionError):
            resume_run(run, tacit.Callback())
    with pytest.raises(LedgerError, match=REFUSED):
        resume_run(tmp_path / "copy", tacit.Callback())
    resume_run(run, tacit.Callback())


def test_two_copies_that_go_on_at_the_same_moment_do_not_both_go_on(
    tmp_path: Path, recipe: Recipe, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The copy resumes between the other one's check and its first record."""
    run, resume_point = stopped(recipe, tmp_path / "run", monkeypatch), RunFolder.resume_point
    shutil.copytree(run, tmp_path / "copy")

    def overtaken(self: RunFolder, **options: Any) -> Any:
        if self.path == run:
            resume_run(tmp_path / "copy", tacit.Callback())
        return resume_point(self, **options)

    monkeypatch.setattr(RunFolder, "resume_point", overtaken)
    with pytest.raises(LedgerError, match="goes on in another place"):
        resume_run(run, tacit.Callback())
    assert len(read_ledger(run / "ledger.jsonl").intents) == 4


def test_a_folder_without_ledger_that_is_copied_begins_once(
    tmp_path: Path, recipe: Recipe, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = stopped(recipe, tmp_path / "run", monkeypatch)
    for path in (run / "ledger.jsonl", run / "private" / "participation.bin", *(run / "checkpoints").iterdir()):
        path.unlink()
    with pytest.raises(LedgerError, match="has begun before"):
        resume_run(run, tacit.Callback())
    assert "its ledger is gone" in (state(tmp_path / "store").problem or "")


@pytest.mark.parametrize("kind", [Committed, Resumed])
def test_a_run_killed_between_ledger_and_list_goes_on(
    tmp_path: Path, recipe: Recipe, monkeypatch: pytest.MonkeyPatch, kind: type
) -> None:
    """The ledger extends the head that the list knows, whatever was added since."""
    run, append = stopped(recipe, tmp_path / "run", monkeypatch), LedgerWriter.append

    def killed(self: LedgerWriter, record: Any) -> str:
        digest = append(self, record)
        if isinstance(record, kind):
            raise ZeroDivisionError
        return digest

    with monkeypatch.context() as patch:
        patch.setattr(LedgerWriter, "append", killed)
        with pytest.raises(ZeroDivisionError):
            resume_run(run, tacit.Callback())
    assert state(tmp_path / "store").problem is None
    resume_run(run, tacit.Callback())
    found = state(tmp_path / "store")
    assert found.problem is None
    assert len(found.evidence.ledger.intents) == len(read_ledger(run / "ledger.jsonl").intents)


def test_the_head_is_in_the_list_before_anything_of_the_rounds_is_written(
    tmp_path: Path, recipe: Recipe, monkeypatch: pytest.MonkeyPatch
) -> None:
    """At every write of a checkpoint or of metrics, the list holds the intents of all rounds that it depends on."""
    store, seen = tmp_path / "store", []

    def watched(function: Any) -> Any:
        def watching(*arguments: Any, **options: Any) -> Any:
            [run_id] = odometer.runs_of(store)
            ledger = read_ledger(tmp_path / "run" / "ledger.jsonl")
            intents = [number for number, each in enumerate(ledger.records, start=1) if each.kind == "intent"]
            if intents:  # what is written before the first round depends on none
                seen.append((odometer.heads_of(store)[run_id][-1].length, intents[-1]))
            return function(*arguments, **options)

        return watching

    monkeypatch.setattr(checkpoints, "save", watched(checkpoints.save))
    monkeypatch.setattr(MetricsWriter, "append", watched(MetricsWriter.append))
    start_run(recipe, tmp_path / "run", tacit.Callback())
    assert len(seen) >= 6
    assert all(recorded >= needed for recorded, needed in seen)
    [heads] = odometer.heads_of(store).values()
    final = read_ledger(tmp_path / "run" / "ledger.jsonl")
    assert (heads[-1].length, heads[-1].head) == (len(final.records), final.head)  # Closed is the last


def test_recording_a_head_reads_nothing_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What was verified before is not read again: a thousand heads cost a thousand lines, not half a million."""
    odometer.register(tmp_path, run_id="a", run=tmp_path / "a", claims_privacy=True)
    listed, read, real = odometer.Odometer(tmp_path), list[int](), odometer._read_from
    monkeypatch.setattr(os, "fsync", lambda _: None)

    def counting(descriptor: int, start: int) -> bytes:
        found = real(descriptor, start)
        read.append(len(found))
        return found

    monkeypatch.setattr(odometer, "_read_from", counting)
    for length in range(1, 1001):
        listed.record_head("a", length, f"{length:064x}")
    assert sum(read) <= 2 * (tmp_path / odometer.NAME).stat().st_size
    assert [each.length for each in odometer.heads_of(tmp_path)["a"]] == list(range(1, 1001))


def test_lines_cut_off_while_a_run_goes_on_are_noticed(tmp_path: Path) -> None:
    listed = odometer.Odometer(tmp_path)
    listed.register(run_id="a", run=tmp_path / "a", claims_privacy=True)
    before = (tmp_path / odometer.NAME).read_bytes()
    listed.record_head("a", 1, "ab" * 32)
    (tmp_path / odometer.NAME).write_bytes(before)
    with pytest.raises(RunError, match="cut off its end"):
        listed.record_head("a", 2, "cd" * 32)
    with pytest.raises(RunError, match="does not list the run"):
        odometer.Odometer(tmp_path).record_head("b", 1, "ab" * 32)


def test_run_folder_is_named_in_the_refusal(tmp_path: Path, recipe: Recipe, monkeypatch: pytest.MonkeyPatch) -> None:
    run = stopped(recipe, tmp_path / "run", monkeypatch)
    shutil.copytree(run, tmp_path / "copy")
    resume_run(run, tacit.Callback())
    with pytest.raises(LedgerError, match="copy") as caught:
        resume_run(tmp_path / "copy", tacit.Callback())
    assert "from a copy" in str(caught.value.hint)
    assert RunFolder.open(run).ledger().closed is not None
