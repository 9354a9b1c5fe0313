"""The run folder: ours or refused, complete or not there."""

from __future__ import annotations

import errno
import json
import os
import stat
from pathlib import Path

import numpy as np
import pytest

from tacit.errors import LedgerError, RunError
from tacit.privacy.participation.log import ParticipationWriter
from tacit.privacy.record.ledger import read_ledger
from tacit.privacy.record.records import FRESH_NOISE, Committed, Resumed
from tacit.runs import checkpoints
from tacit.runs import folder as module
from tacit.runs.consistency import OPENED
from tacit.runs.finding import find_runs
from tacit.runs.folder import NOISE, RunFolder, first_difference
from tests.support.ledger_records import intent, opened

RECIPE = "[learning]\nrate = 0.5\n\n[privacy]\nclip = 0.8\nseeded = false\n"


@pytest.fixture
def run(tmp_path: Path) -> RunFolder:
    return RunFolder.create(tmp_path / "runs" / "first", RECIPE, vocabulary=["the", "naïve", "I"])


def snapshot(path: Path) -> dict[str, bytes | None]:
    return {str(each): each.read_bytes() if each.is_file() else None for each in sorted(path.rglob("*"))}


def test_what_is_created_can_be_opened(run: RunFolder) -> None:
    again = RunFolder.open(run.path)
    assert again == run
    assert again.recipe() == {"learning": {"rate": 0.5}, "privacy": {"clip": 0.8, "seeded": False}}
    assert again.vocabulary() == ["the", "naïve", "I"]
    assert again.summary() is None
    assert not again.begun
    assert json.loads((run.path / "run.json").read_text())["tacit run"] == 1
    again.write_summary({"rounds": 3})
    assert again.summary() == {"rounds": 3}


def test_a_json_recipe_and_no_words(tmp_path: Path) -> None:
    run = RunFolder.create(tmp_path / "run", '{"learning": {"rate": 0.5}}')
    assert run.recipe() == {"learning": {"rate": 0.5}}
    assert run.vocabulary() is None


def test_runs_have_ids_of_their_own(tmp_path: Path) -> None:
    assert RunFolder.create(tmp_path / "a", "").run_id != RunFolder.create(tmp_path / "b", "").run_id


def test_an_empty_directory_is_taken(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    RunFolder.create(tmp_path / "empty", RECIPE)
    assert RunFolder.open(tmp_path / "empty").recipe()["learning"] == {"rate": 0.5}


def test_somebody_elses_directory_is_left_alone(tmp_path: Path) -> None:
    theirs = tmp_path / "theirs"
    theirs.mkdir()
    (theirs / "thesis.tex").write_text("precious")
    (tmp_path / "file").write_text("precious")
    before = snapshot(tmp_path)
    with pytest.raises(RunError, match="not empty and holds no run"):
        RunFolder.create(theirs, RECIPE)
    with pytest.raises(RunError, match="which is a file"):
        RunFolder.create(tmp_path / "file", RECIPE)
    with pytest.raises(RunError, match="Cannot make"):
        RunFolder.create(tmp_path / "file" / "below", RECIPE)
    assert snapshot(tmp_path) == before


def test_another_run_is_left_alone(run: RunFolder) -> None:
    before = snapshot(run.path)
    with pytest.raises(RunError, match="holds a run already") as caught:
        RunFolder.create(run.path, "other = true")
    assert "--resume" in str(caught.value.hint)
    assert snapshot(run.path) == before


@pytest.mark.parametrize("existed", [True, False])
def test_a_full_disk_leaves_nothing_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, existed: bool) -> None:
    if existed:
        (tmp_path / "run").mkdir()

    def fail(*arguments: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", fail)
        with pytest.raises(RunError, match="Disk full"):
            RunFolder.create(tmp_path / "run", RECIPE)
    assert [str(path.relative_to(tmp_path)) for path in tmp_path.rglob("*")] == (["run"] if existed else [])
    RunFolder.create(tmp_path / "run", RECIPE)


def test_what_is_no_run_cannot_be_opened(tmp_path: Path) -> None:
    with pytest.raises(RunError, match="does not exist"):
        RunFolder.open(tmp_path / "nothing")
    with pytest.raises(RunError, match="is no run"):
        RunFolder.open(tmp_path)
    for content in ("", "[]", '{"name": "a web project"}', "\udcff"):
        (tmp_path / "run.json").write_bytes(content.encode(errors="surrogateescape"))
        with pytest.raises(RunError, match="not one of Tacit's"):
            RunFolder.open(tmp_path)
    (tmp_path / "run.json").write_text('{"tacit run": 2, "run_id": "x", "created": "later"}')
    with pytest.raises(RunError, match="format 2"):
        RunFolder.open(tmp_path)


def test_a_changed_recipe_is_named(run: RunFolder) -> None:
    run.require_same_recipe({"privacy": {"clip": 0.8, "seeded": False}, "learning": {"rate": 0.5}})
    with pytest.raises(RunError, match=r"where privacy.clip is 0.8, got 0.9"):
        run.require_same_recipe({"learning": {"rate": 0.5}, "privacy": {"clip": 0.9, "seeded": True}})
    with pytest.raises(RunError, match=r"learning.rate is 0.5, got absent"):
        run.require_same_recipe({"learning": {}, "privacy": {"clip": 0.8, "seeded": False}})


def test_first_difference() -> None:
    assert first_difference({"a": {"b": [1, 2]}}, {"a": {"b": [1, 2]}}) is None
    assert first_difference({"a": 1}, {"a": 1.0}) is None
    assert first_difference({"a": 1}, {"a": True}) == ("a", "1", "True")
    assert first_difference({"a": {"b": 1}}, {"a": 1}) == ("a", "{'b': 1}", "1")
    assert first_difference({"b": 1, "a": 1}, {"b": 2, "a": 2}) == ("a", "1", "2")


def test_private_things_are_the_owners(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        run = RunFolder.create(tmp_path / "run", RECIPE)
    finally:
        os.umask(before)
    assert stat.S_IMODE(run.private_path.stat().st_mode) == 0o700


def test_the_ledger_belongs_to_the_run(run: RunFolder, tmp_path: Path) -> None:
    with pytest.raises(LedgerError, match="Expected the ledger of the run"):
        run.create_ledger(opened(run_id="another"))
    with pytest.raises(LedgerError, match="There is no ledger"):
        run.open_ledger()
    run.create_ledger(opened(run_id=run.run_id)).close()
    assert run.begun
    (run.checkpoints_path / ".round-000001.safetensors.tmp").write_text("left by a killed process")
    run.open_ledger().close()
    assert os.listdir(run.checkpoints_path) == []
    other = RunFolder.create(tmp_path / "other", RECIPE)
    other.ledger_path.write_bytes(run.ledger_path.read_bytes())
    with pytest.raises(LedgerError, match="another run"):
        other.open_ledger()


def test_a_ledger_that_is_gone_is_not_begun_again(run: RunFolder) -> None:
    with ParticipationWriter(run.participation_path) as record:
        run.create_ledger(opened(run_id=run.run_id)).close()
        record.append(0, 0, [1])
    run.ledger_path.unlink()
    with pytest.raises(LedgerError, match="its ledger is gone"):
        run.create_ledger(opened(run_id=run.run_id))
    assert not run.ledger_path.exists()


def bound(run: RunFolder) -> dict[str, str]:
    """What binds a checkpoint to the ledger that it is saved under."""
    return {OPENED: read_ledger(run.ledger_path).digests()[0]}


def test_a_checkpoint_of_another_ledger_is_no_point_to_resume_from(run: RunFolder, tmp_path: Path) -> None:
    other = RunFolder.create(tmp_path / "other", RECIPE)
    for each in (run, other):
        with each.create_ledger(opened(run_id=each.run_id)) as ledger:
            ledger.append(intent(0))
    checkpoints.save(run.checkpoints_path, 1, {"x": np.array(1.0)}, bound(other))
    with pytest.raises(RunError, match="was not saved under its ledger"):
        run.resume_point()


def test_the_point_to_resume_from(run: RunFolder) -> None:
    def save(round: int, value: float) -> str:
        return checkpoints.save(run.checkpoints_path, round, {"x": np.array(value)}, bound(run), keep_last=3)

    with run.create_ledger(opened(run_id=run.run_id)) as ledger:
        assert run.resume_point() is None
        ledger.append(intent(0))
        ledger.append(Committed(1, save(1, 1.0)))
        ledger.append(intent(1))
        save(2, 2.0)  # killed before the ledger heard of it: good all the same
        point = run.resume_point()
        assert point is not None
        assert point.round == 2
        ledger.append(Committed(2, point.digest))

        save(2, 2.5)  # somebody else's
        with pytest.raises(RunError, match="is not the one the ledger names"):
            run.resume_point()

        checkpoints.path_of(run.checkpoints_path, 2).write_bytes(b"damaged")
        with pytest.raises(RunError, match="round-000002"):
            run.resume_point()
        checkpoints.path_of(run.checkpoints_path, 2).unlink()
        with pytest.raises(RunError, match=r"after 2 rounds that the ledger .* names is missing"):
            run.resume_point()
        older = run.resume_point(older_if_damaged=True)
        assert older is not None
        assert older.round == 1
        ledger.append(Resumed(1, ledger.ledger.lost_from(1), FRESH_NOISE))
        assert run.resume_point() == older

        save(5, 5.0)
        with pytest.raises(LedgerError, match="after 5 rounds, but its ledger knows of 1"):
            run.resume_point()


def test_runs_are_found_below_a_root(tmp_path: Path, run: RunFolder) -> None:
    second = RunFolder.create(tmp_path / "runs" / "sweep" / "second", RECIPE)
    (tmp_path / "runs" / "notes").mkdir()
    RunFolder.create(tmp_path / "runs" / ".trash" / "third", RECIPE)
    RunFolder.create(second.sections_path / "inner", RECIPE)
    assert find_runs(tmp_path / "runs") == [run.path, second.path]
    assert find_runs(run.path) == [run.path]
    with pytest.raises(RunError, match="not there"):
        find_runs(tmp_path / "nothing")


def test_of_two_processes_one_gets_the_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = RunFolder.create(tmp_path / "run", RECIPE)
    before = snapshot(run.path)
    monkeypatch.setattr(module, "refuse_if_taken", lambda path: None)  # both looked before either wrote
    with pytest.raises(RunError, match="taken by another process"):
        RunFolder.create(tmp_path / "run", "")
    assert snapshot(run.path) == before


def test_a_checkpoint_of_rounds_that_were_given_up_is_no_point_to_resume_from(run: RunFolder) -> None:
    """Its noise would go on beside the account: the rounds after it would stand in the wrong branch."""
    with run.create_ledger(opened(run_id=run.run_id)) as ledger:
        for round in range(2):
            ledger.append(intent(round))
        given_up = checkpoints.save(run.checkpoints_path, 2, {"x": np.array(1.0)}, bound(run))
        ledger.append(Committed(2, given_up))
        ledger.append(Resumed(0, ledger.ledger.lost_from(0), FRESH_NOISE))  # it could not be read, and now it can
        for round in range(2):
            ledger.append(intent(round, 1))
        with pytest.raises(RunError, match="holds rounds that the run gave up"):
            run.resume_point()
        checkpoints.save(run.checkpoints_path, 2, {"x": np.array(2.0)}, bound(run))  # of the rounds that ran again
        assert run.resume_point() is not None


def test_a_checkpoint_goes_on_with_the_noise_that_was_saved_with_it(run: RunFolder) -> None:
    def save(noise: float) -> str:
        return checkpoints.save(run.private_path, 1, {"noise": np.array(noise)}, {}, mode=0o600)

    with run.create_ledger(opened(run_id=run.run_id)) as ledger:
        ledger.append(intent(0))
        checkpoints.save(run.checkpoints_path, 1, {"x": np.array(1.0)}, bound(run) | {NOISE: save(0.5)})
        assert run.resume_point() is not None
        save(0.25)
        with pytest.raises(RunError, match="was not saved with the run's checkpoint after 1 rounds"):
            run.resume_point()
        checkpoints.remove_all(run.private_path)
        with pytest.raises(RunError, match="There is no checkpoint"):
            run.resume_point()


def test_a_ledger_cut_off_before_a_checkpoint_is_not_believed(run: RunFolder) -> None:
    with run.create_ledger(opened(run_id=run.run_id)) as ledger:
        ledger.append(intent(0))
        checkpoints.save(run.checkpoints_path, 1, {"x": np.array(1.0)}, {})
    assert run.ledger().next_round == 1
    lines = run.ledger_path.read_bytes().splitlines(keepends=True)
    run.ledger_path.write_bytes(b"".join(lines[:-1]))
    with pytest.raises(LedgerError, match="after 1 rounds, but its ledger knows of 0"):
        run.ledger()
