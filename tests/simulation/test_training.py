"""A run from recipe to summary: resumed runs equal uninterrupted ones, the ledger is complete, the cost is the spent one."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tacit
from tacit.errors import DivergedError, PrivacyError, RunError
from tacit.privacy.participation import log as participation_record
from tacit.privacy.record.ledger import read_ledger
from tacit.privacy.record.records import Closed, Intent, Resumed
from tacit.runs import checkpoints
from tacit.runs.folder import RunFolder
from tacit.runs.journal import RunJournal, StopRequested
from tacit.runs.metrics import EPSILON_SO_FAR, read_metrics
from tacit.simulation.batched import BatchedUsers
from tacit.simulation.training import resume_run, start_run
from tacit.training.recipes import RecipeSetup
from tacit.training.trained import load_trained
from tests.support.run_arrays import assert_same_arrays, final_arrays
from tests.support.stopping import stop_after
from tests.support.tiny_recipe import killable, tiny


@pytest.fixture(scope="module")
def seeded_run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An uninterrupted seeded run, to compare with."""
    out = tmp_path_factory.mktemp("runs") / "seeded"
    start_run(tiny(run={"seed": 5}), out, tacit.Callback())
    return out


def test_a_private_run_states_what_it_spent(tmp_path):
    out = tmp_path / "run"
    summary = start_run(tiny(), out, tacit.Callback())
    privacy = summary["privacy"]
    assert 0 < privacy["epsilon"] < 100
    assert (privacy["unit"], privacy["releases"], privacy["reasons_not_private"]) == ("user", 6, [])
    ledger = read_ledger(out / "ledger.jsonl")
    assert [intent.round for intent in ledger.intents] == list(range(6))
    assert ledger.intents[0].sampling == {"kind": "poisson", "probability": 12 / 400}
    assert ledger.intents[0].blocks == {"update": {"bound": 0.3, "noise_multiplier": 0.8}}
    assert isinstance(ledger.records[-1], Closed)
    participation_record.verify(out / "private" / "participation.bin", ledger)
    kept = ["diagnostics.jsonl", "gate_audit.json", "participation.bin", "users.sha256"]
    assert sorted(path.name for path in (out / "private").iterdir()) == kept
    assert not any("users" in record for record in read_metrics(out / "metrics.jsonl"))  # cohort sizes are the owner's
    assert [record["round"] for record in read_metrics(out / "metrics.jsonl")] == [2, 4, 6]
    epsilons = [record[EPSILON_SO_FAR] for record in read_metrics(out / "metrics.jsonl")]
    assert epsilons == sorted(epsilons)
    assert epsilons[-1] == pytest.approx(privacy["epsilon"], rel=0.01)


def test_what_is_said_before_a_run_does_not_depend_on_how_many_users_there_are():
    few, many = (RecipeSetup.build(tiny(data={"users": users})).warnings() for users in (20, 400))
    assert few == many


@pytest.mark.slow
def test_two_private_runs_draw_different_noise(tmp_path):
    for name in ("a", "b"):
        start_run(tiny(run={"rounds": 1}), tmp_path / name, tacit.Callback())
    a, b = (final_arrays(tmp_path / name) for name in ("a", "b"))
    assert any((a[name] != b[name]).any() for name in a)


def test_a_seeded_run_repeats_itself_and_claims_nothing(seeded_run, tmp_path):
    summary = start_run(tiny(run={"seed": 5}), tmp_path / "again", tacit.Callback())
    assert_same_arrays(seeded_run, tmp_path / "again")
    assert summary["privacy"]["epsilon"] is None
    assert "seed" in summary["privacy"]["reasons_not_private"][0]


def test_stopping_at_a_round_and_resuming_gives_the_same_run(seeded_run, tmp_path, monkeypatch):
    monkeypatch.setattr(RunJournal, "before", stop_after(RunJournal.before, 3))
    with pytest.raises(StopRequested):
        start_run(tiny(run={"seed": 5}), tmp_path / "run", tacit.Callback())
    monkeypatch.undo()
    ledger = read_ledger(tmp_path / "run" / "ledger.jsonl")
    assert ledger.uncommitted() == ()  # the round under way was finished and saved: nothing is accounted twice
    resume_run(tmp_path / "run", tacit.Callback())
    assert_same_arrays(seeded_run, tmp_path / "run")
    strip = lambda run: list(read_metrics(run / "metrics.jsonl"))  # noqa: E731
    assert strip(tmp_path / "run") == strip(seeded_run)


KILLED = """
import sys
from pathlib import Path
import tacit
from tests.support.tiny_recipe import killable
from tacit.simulation.training import resume_run
from tacit.simulation.training import start_run
out = Path(sys.argv[1])
resume_run(out, tacit.Callback()) if out.exists() else start_run(killable(sys.argv[2]), out, tacit.Callback())
"""


def kill_after(out: Path, kind: str, intents: int) -> None:
    """Start or resume the run in a process of its own and kill -9 it once so many intents are in the ledger."""
    ledger = out / "ledger.jsonl"
    process = subprocess.Popen([sys.executable, "-c", KILLED, str(out), kind], cwd=Path(__file__).parents[2])
    deadline = time.monotonic() + 120
    while process.poll() is None and time.monotonic() < deadline:
        if ledger.exists() and ledger.read_bytes().count(b'"kind":"intent"') >= intents:
            process.send_signal(signal.SIGKILL)
            break
        time.sleep(0.002)
    assert process.wait() == -signal.SIGKILL


@pytest.mark.process
@pytest.mark.parametrize("kind", ["seeded", "seeded blt", "seeded averaged"])
def test_kill_and_resume_gives_the_uninterrupted_run_and_a_complete_ledger(kind, tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    start_run(killable(kind), tmp_path / "whole", tacit.Callback())
    out = tmp_path / "killed"
    kill_after(out, kind, 7)
    kill_after(out, kind, 19)
    resume_run(out, tacit.Callback())
    assert_same_arrays(tmp_path / "whole", out)
    assert [r["round"] for r in read_metrics(out / "metrics.jsonl")] == list(range(2, 41, 2))
    participation_record.verify(out / "private" / "participation.bin", read_ledger(out / "ledger.jsonl"))


@pytest.mark.process
def test_a_private_run_that_was_killed_pays_for_its_lost_rounds(tmp_path):
    out = tmp_path / "killed"
    kill_after(out, "private", 6)
    before = read_ledger(out / "ledger.jsonl")
    summary = resume_run(out, tacit.Callback())
    after = read_ledger(out / "ledger.jsonl")
    (resumed,) = (record for record in after.records if isinstance(record, Resumed))
    assert summary["privacy"]["releases"] == 40 + len(resumed.lost)
    assert len(after.intents) == 40 + len(resumed.lost)
    lost = [intent for intent in before.intents if [intent.round, intent.attempt] in resumed.lost]
    for intent in lost:  # ran again as another attempt, with another cohort's record
        again = next(i for i in after.intents if (i.round, i.attempt) == (intent.round, intent.attempt + 1))
        assert again.participation != intent.participation


@pytest.mark.slow
def test_a_damaged_checkpoint_is_reported_and_an_older_one_costs_again(tmp_path, monkeypatch):
    monkeypatch.setattr(RunJournal, "before", stop_after(RunJournal.before, 4))
    with pytest.raises(StopRequested):
        start_run(tiny(), tmp_path / "run", tacit.Callback())
    monkeypatch.undo()
    newest = checkpoints.path_of(tmp_path / "run" / "checkpoints", 5)
    newest.write_bytes(newest.read_bytes()[:-8])
    with pytest.raises(RunError, match="damaged"):
        resume_run(tmp_path / "run", tacit.Callback())
    summary = resume_run(tmp_path / "run", tacit.Callback(), older_if_damaged=True)
    assert summary["privacy"]["releases"] == 6 + 1  # round 4 ran twice


def test_a_run_that_diverges_keeps_its_last_finite_checkpoint(tmp_path):
    recipe = tiny(
        server={"optimizer": "sgd", "learning_rate": 3e38},
        run={"checkpoint_every": 1},
        privacy={"clip_norm": 1e6},
    )
    with pytest.raises(DivergedError, match="Training diverged by round"):
        start_run(recipe, tmp_path / "run", tacit.Callback())
    closed = read_ledger(tmp_path / "run" / "ledger.jsonl").closed
    assert closed is not None
    assert closed.outcome == "diverged"
    kept = checkpoints.latest(tmp_path / "run" / "checkpoints")
    assert kept is None or all(np.isfinite(array).all() for array in kept.arrays.values())
    with pytest.raises(RunError, match="has diverged, so there is nothing to resume"):
        resume_run(tmp_path / "run", tacit.Callback())


def test_a_private_model_that_overflows_is_stopped_and_scores_nothing(tmp_path):
    recipe = tiny(server={"optimizer": "sgd", "learning_rate": 1e30}, run={"evaluate_every": 1, "checkpoint_every": 1})
    with pytest.raises(DivergedError, match="not finite"):
        start_run(recipe, tmp_path / "run", tacit.Callback())
    assert all(record["top1"] < 0.5 for record in read_metrics(tmp_path / "run" / "metrics.jsonl"))
    closed = read_ledger(tmp_path / "run" / "ledger.jsonl").closed
    assert closed is not None
    assert closed.outcome == "diverged"


def test_a_run_whose_every_update_overflows_is_stopped(tmp_path):
    recipe = tiny(
        work={"learning_rate": 1e37},
        privacy={"mechanism": "none", "noise_multiplier": 0.0, "clip_norm": None},
        run={"checkpoint_every": 1},
    )
    with pytest.raises(DivergedError, match="Training diverged by round"):
        start_run(recipe, tmp_path / "run", tacit.Callback())


def test_a_finished_run_is_not_resumed(seeded_run):
    with pytest.raises(RunError, match="has finished, so there is nothing to resume"):
        resume_run(seeded_run, tacit.Callback())


def test_a_changed_recipe_is_refused(seeded_run):
    with pytest.raises(RunError, match=r"run.rounds is 6, got 7"):
        resume_run(seeded_run, tacit.Callback(), tiny(run={"seed": 5, "rounds": 7}))


def test_a_reason_not_to_be_private_cannot_be_edited_away(tmp_path, monkeypatch):
    monkeypatch.setattr(RunJournal, "before", stop_after(RunJournal.before, 1))
    recipe = tiny(privacy={"mechanism": "none", "noise_multiplier": 0.0})
    with pytest.raises(StopRequested):
        start_run(recipe, tmp_path / "run", tacit.Callback())
    monkeypatch.undo()
    (tmp_path / "run" / "recipe.toml").write_text(tiny().to_toml())
    with pytest.raises(PrivacyError, match="Expected what the ledger was begun with"):
        resume_run(tmp_path / "run", tacit.Callback())


@pytest.mark.slow
def test_a_copy_of_a_run_draws_other_noise(tmp_path, monkeypatch):
    """Two folders that go on from the same point must never put the same noise on two sums."""
    monkeypatch.setattr(RunJournal, "before", stop_after(RunJournal.before, 3))
    with pytest.raises(StopRequested):
        start_run(tiny(), tmp_path / "run", tacit.Callback())
    monkeypatch.undo()
    shutil.copytree(tmp_path / "run", tmp_path / "copy")
    for name in ("run", "copy"):
        resume_run(tmp_path / name, tacit.Callback())
    one, other = (final_arrays(tmp_path / name) for name in ("run", "copy"))
    assert all((one[name] != other[name]).any() for name in one if one[name].size > 4)


def test_somebody_elses_folder_is_left_alone(tmp_path):
    (tmp_path / "letter.txt").write_text("dear diary")
    with pytest.raises(RunError):
        start_run(tiny(), tmp_path, tacit.Callback())
    assert os.listdir(tmp_path) == ["letter.txt"]


def test_fixed_size_rounds_refuse_a_population_smaller_than_stated(tmp_path):
    recipe = tiny(privacy={"population": 500, "sampling": "fixed"})
    with pytest.raises(PrivacyError, match="amplified less than the plan claims"):
        start_run(recipe, tmp_path / "run", tacit.Callback())


def test_fixed_size_rounds_run_and_are_accounted_under_replace_one(tmp_path):
    summary = start_run(tiny(privacy={"sampling": "fixed"}, run={"rounds": 2}), tmp_path / "run", tacit.Callback())
    assert summary["privacy"]["adjacency"] == "replace one user"
    cohorts = list(participation_record.read(tmp_path / "run" / "private" / "participation.bin"))
    assert [len(cohort.users) for cohort in cohorts] == [12, 12]


@pytest.mark.parametrize(
    "changes",
    [
        {"work": {"kind": "fedsgd"}},
        {"work": {"clip_every_step": True}, "privacy": {"clipping": "per_layer"}},
        {"privacy": {"estimator": "clipped", "example_cap": 20.0, "total_weight": 300.0}},
        {"privacy": {"mechanism": "none", "noise_multiplier": 0.0, "clip_norm": None}},
        {"data": {"layout": "sentences"}},
        {"privacy": {"clip_schedule": [{"round": 1, "clip_norm": 0.1}]}},
    ],
    ids=["fedsgd", "every step, per layer", "clipped estimator", "no privacy", "sentences", "schedule"],
)
def test_every_choice_runs(changes, tmp_path):
    summary = start_run(tiny(**{**changes, "run": {"rounds": 2}}), tmp_path / "run", tacit.Callback())
    assert (summary["privacy"]["epsilon"] is None) == (changes.get("privacy", {}).get("mechanism") == "none")
    intents = [r for r in read_ledger(tmp_path / "run" / "ledger.jsonl").records if isinstance(r, Intent)]
    if "clip_schedule" in changes.get("privacy", {}):
        assert [intent.blocks["update"]["bound"] for intent in intents] == [0.3, 0.1]
    found = load_trained(tmp_path / "run")
    model, words = found.model, found.words
    assert model.embedding.shape == (len(words), 4)


def test_an_intent_is_durable_before_users_are_touched(tmp_path, monkeypatch):
    seen = []
    collect = BatchedUsers.collect

    def watching(self: Any, broadcast: Any, cohort: Any, norms: Any, **others: Any) -> Any:
        ledger = read_ledger(RunFolder.open(tmp_path / "run").ledger_path)
        seen.append(ledger.intents[-1].round == cohort.round)
        return collect(self, broadcast, cohort, norms, **others)

    monkeypatch.setattr(BatchedUsers, "collect", watching)
    start_run(tiny(run={"rounds": 3}), tmp_path / "run", tacit.Callback())
    assert seen == [True] * 3
