"""`tacit train`: what a person reads, what is kept when it ends early, and how it goes on."""

from __future__ import annotations

import errno
import io
import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from rich.console import Console

from tacit import files
from tacit.cli.summary import print_summary, privacy_sentence
from tacit.data.store import Store
from tacit.data.users import Examples
from tacit.privacy.participation import log as participation_record
from tacit.privacy.record.ledger import read_ledger
from tacit.privacy.statement.wording import epsilon_text
from tacit.recipe.engine import Ray
from tacit.recipe.training import on_engine
from tacit.runs import progress as progress_module
from tacit.runs.callbacks import RunEnd, RunStart, WorkersReport
from tacit.runs.folder import RunFolder
from tacit.runs.journal import RunJournal
from tacit.runs.metrics import EPSILON_SO_FAR
from tacit.runs.progress import Progress
from tacit.simulation.ray import users as ray_users
from tacit.simulation.ray.connection import Connection
from tacit.training import recipes
from tests.support.commands import Tacit, everything
from tests.support.ctrl_c import hearing_ctrl_c
from tests.support.inline_pool import InlinePool
from tests.support.store_keys import key_holding_out
from tests.support.tiny_recipe import tiny


def assert_whole(run: Path, rounds: int) -> None:
    """The ledger is intact, fits who took part, and the run has finished."""
    ledger = read_ledger(run / "ledger.jsonl")
    assert ledger.torn == 0
    assert ledger.closed is not None
    assert (ledger.closed.outcome, ledger.next_round, ledger.rounds_committed) == ("finished", rounds, rounds)
    participation_record.verify(run / "private" / "participation.bin", ledger)


def test_json_is_one_object_and_nothing_else(tacit: Tacit, here: Path) -> None:
    answer = tacit("train", "tiny.toml", "--set", "run.rounds=2", "--json")
    told = answer.object
    assert told["run"] == "runs/tiny-1"
    assert told["rounds"] == 2
    assert told["privacy"]["epsilon"] > 0
    assert json.loads((here / "runs/tiny-1/summary.json").read_text()) == {k: v for k, v in told.items() if k != "run"}
    assert re.fullmatch(
        r"Plan: 2 rounds of about 12 users\. ε will be \d.*\n"
        r"Vocabulary: \d+\.\d% of the held-out people's words are outside .*\n"
        r"round 2/2: top-1 \d+\.\d%, ε if planned to end here \d+\.\d\d\n",
        answer.err,
    )
    assert_whole(here / "runs/tiny-1", 2)
    assert tacit("runs", "--json").object["runs"][0]["state"] == "finished"


def test_a_person_reads_accuracy_privacy_and_where_it_is(tacit: Tacit, here: Path) -> None:
    answer = tacit("train", "tiny.toml", "--set", "run.rounds=1", "--out", "my [red] run")
    assert answer.code == 0
    said = " ".join(answer.out.split())
    for words in ("Next word guessed right", "always the same word", "best possible", "In the top three"):
        assert words in said
    metrics = json.loads((here / "my [red] run" / "summary.json").read_text())["metrics"]
    outside = metrics["out_of_vocabulary"]
    assert (
        f"By the papers' metric {metrics['papers_top1']:.1%}, and {metrics['papers_top3']:.1%} in the top three" in said
    )
    assert f"Vocabulary {outside:.1%} of the held-out people's words are outside the vocabulary" in said
    assert f"accuracy cannot exceed {1 - outside:.1%}." in said
    assert re.search(r"Privacy: ε = \d+\.\d\d at δ = 0\.0001, for all the data of any one user \(", said)
    assert "for the one round that was planned; it has run." in said
    assert """The run is in my [red] run. Try: tacit predict 'my [red] run' "see you\"""" in said
    assert said.endswith("Type on it in your browser: tacit keyboard 'my [red] run'")
    assert (here / "my [red] run" / "summary.json").exists()
    assert (here / "my [red] run" / "recipe.toml").read_text() == tiny(run={"rounds": 1}).to_toml()


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (("no-such",), "Expected a recipe file, got 'no-such', which does not exist."),
        ((".",), "Expected a recipe file, got '.', which is a folder."),
        (("tiny.toml", "--set", "privacy.clipnorm=1"), "Unknown key privacy.clipnorm in the recipe."),
        (("tiny.toml", "--set", "privacy.clip_norm=-1"), "Expected privacy.clip_norm > 0, got -1."),
        (("tiny.toml", "--set", "privacy.cohort=401"), "Expected privacy.cohort ≤ privacy.population = 400, got 401."),
        (("tiny.toml", "--set", "model.preset=huge"), "Expected model.preset among"),
        (("tiny.toml", "--set", "rounds"), "Expected --set section.key=value, got 'rounds'."),
        (("tiny.toml", "--resume", "runs/x", "--out", "y"), "Expected --resume or --out, got both"),
        (
            ("--resume", "runs/x", "--set", "privacy.delta=1e-7"),
            "Expected --resume with no change but --set run.rounds=N",
        ),
        (
            ("--resume", "runs/x", "--set", "run=9"),
            "Expected --resume with no change but --set run.rounds=N, got --set run=9",
        ),
        (
            ("--resume", "runs/x", "--set", "run.rounds=many"),
            "Expected run.rounds to be a whole number above 0, got 'many'",
        ),
        (("broken.toml",), "broken.toml is not valid TOML"),
        (("tiny.toml", "--workers", "2"), "Expected --engine ray with --workers."),
        (
            ("tiny.toml", "--engine", "built-in", "--gpus-per-worker", "1"),
            "Expected --engine ray with --gpus-per-worker.",
        ),
        (
            ("tiny.toml", "--engine", "ray", "--address", "ray://head:1"),
            "Expected an address such as auto or host:port",
        ),
        (
            ("tiny.toml", "--set", "engine.workers=2"),
            "Expected engine.kind = 'ray' with engine.workers, got 'built-in'",
        ),
        (
            ("tiny.toml", "--engine", "ray", "--set", "engine.gpus_per_worker=1.5"),
            "Expected gpus_per_worker to be a share of one GPU or a whole number of them, got 1.5",
        ),
    ],
)
def test_mistakes_are_told_before_anything_is_made(
    tacit: Tacit, here: Path, arguments: tuple[str, ...], sentence: str
) -> None:
    (here / "broken.toml").write_text("a = = 1")
    before = everything(here)
    assert tacit("train", *arguments).refusal(2).startswith(sentence)
    assert everything(here) == before
    assert not (here / "runs").exists()


@pytest.mark.process
def test_two_workers_on_ray_train_a_recipe(tacit: Tacit, here: Path) -> None:
    """Nothing is left running."""
    answer = tacit("train", "tiny.toml", "--engine", "ray", "--workers", "2", "--out", "runs/ray", "--json")
    assert answer.code == 0, answer.err
    assert json.loads(answer.out)["privacy"]["epsilon"] is not None
    kept = RunFolder.open(here / "runs" / "ray").recipe()["engine"]
    assert (kept["kind"], kept["workers"]) == ("ray", 2)
    import ray

    assert not ray.is_initialized()


@pytest.fixture
def asked_of_ray(here: Path, monkeypatch: pytest.MonkeyPatch) -> list[Ray]:
    """What was asked of Ray, whose workers are in this process; ray.toml is a recipe for a cluster."""
    asked: list[Ray] = []

    def pool(settings: Ray) -> InlinePool:
        asked.append(settings)
        return InlinePool(2)

    monkeypatch.setattr(Connection, "of", lambda settings: None)
    monkeypatch.setattr(ray_users, "RayPool", pool)
    cluster = Ray(address="head:6379", gpus_per_worker=1, pieces=5)
    (here / "ray.toml").write_text(on_engine(tiny(), cluster).to_toml())
    return asked


def test_options_of_ray_go_before_what_the_recipe_says_and_the_rest_stays(
    tacit: Tacit, here: Path, asked_of_ray: list[Ray]
) -> None:
    assert tacit("train", "ray.toml", "--engine", "ray", "--gpus-per-worker", "0", "--out", "run").code == 0
    assert asked_of_ray == [Ray(address="head:6379", gpus_per_worker=0, pieces=5)]
    assert tacit("train", "ray.toml", "--engine", "built-in", "--out", "here").code == 0
    assert len(asked_of_ray) == 1
    kept = RunFolder.open(here / "here").recipe()["engine"]
    assert (kept["kind"], kept.get("address"), kept.get("pieces")) == ("built-in", None, None)


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ((), [Ray(address="head:6379", gpus_per_worker=1, pieces=5)]),
        (("--engine", "built-in"), []),
        (("--engine", "ray", "--address", "new:1"), [Ray(address="new:1", gpus_per_worker=1, pieces=5)]),
    ],
    ids=["as it was", "built-in", "on another cluster"],
)
def test_a_run_goes_on_with_the_engine_that_is_asked_for(
    tacit: Tacit, here: Path, asked_of_ray: list[Ray], options: tuple[str, ...], expected: list[Ray]
) -> None:
    """Another cluster has the old one's number of pieces, so that a seeded run repeats itself, and its GPUs."""
    RunFolder.create(here / "run", (here / "ray.toml").read_text())
    answer = tacit("train", "--resume", "run", *options)
    assert answer.code == 0, answer.err
    assert asked_of_ray == expected


def test_a_store_that_is_not_there(tacit: Tacit, here: Path) -> None:
    world = tiny().to_toml().replace('world = "keyboard"', 'store = "nothing"')
    (here / "stored.toml").write_text(world)
    assert "nothing" in tacit("train", "stored.toml").refusal(3)
    assert not (here / "runs").exists()


@pytest.mark.parametrize("kind", ["folder", "file", "run", "below a file"])
def test_somebody_elses_directory_is_left_alone(tacit: Tacit, here: Path, kind: str) -> None:
    out = here / "mine"
    if kind == "folder":
        out.mkdir()
        (out / "letter.txt").write_text("dear diary")
    elif kind == "run":
        RunFolder.create(out, tiny().to_toml())
    else:
        out.write_text("dear diary")
    before = everything(here)
    answer = tacit("train", "tiny.toml", "--out", out / "run" if kind == "below a file" else out)
    assert "mine" in answer.refusal(4)
    assert ("--resume" in answer.err) == (kind == "run")
    assert everything(here) == before


def test_only_a_run_that_can_go_on_is_resumed(tacit: Tacit, here: Path) -> None:
    assert "nothing, which does not exist" in tacit("train", "--resume", "nothing").refusal(4)
    assert "., which is no run" in tacit("train", "--resume", ".").refusal(4)
    assert tacit("train", "tiny.toml", "--set", "run.rounds=2", "--set", "run.seed=3", "--out", "run").code == 0
    before = everything(here / "run")
    changed = tacit("train", "tiny.toml", "--set", "run.seed=3", "--resume", "run").refusal(4)
    assert changed == "Expected the recipe the run run was begun with, where run.rounds is 2, got 6."
    assert "has finished, so there is nothing to resume" in tacit("train", "--resume", "run").refusal(4)
    assert everything(here / "run") == before


@pytest.mark.slow
def test_a_user_without_examples_trains_like_any_other(
    tacit: Tacit, here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    users = [{"user": f"u{i}", "text": ["see you", "the end ."]} for i in range(10)]
    users += [{"user": "silent", "text": ["@@"]}, {"user": "mute", "text": [""]}, {"user": "none", "text": []}]
    (here / "chat.jsonl").write_text("".join(json.dumps(user) + "\n" for user in users))
    (here / "words.txt").write_text("see\nyou\nthe\n")
    (here / "key").write_bytes(key_holding_out({"u7"}, [f"u{i}" for i in range(10)], 0.1))
    columns = ("--user", "user", "--text", "text", "--vocabulary", "words.txt", "--key-file", "key", "--held-out", 0.1)
    imported = tacit("data", "import", "chat.jsonl", *columns, "--out", "store", "--json").object
    assert imported["users"] == 10
    assert imported["skipped"] == {"rows without a text": 1, "texts without a word": 2}
    gather = Store.gather

    def one_has_nothing(self: Store, chosen: NDArray[np.int64]) -> Examples:
        """As a store would answer in which the examples of users 3 and 4 are gone."""
        found = gather(self, chosen)
        counts = np.where(np.isin(chosen, (3, 4)), 0, np.diff(found.user_offsets))
        kept = np.repeat(~np.isin(chosen, (3, 4)), np.diff(found.user_offsets))
        lengths = np.diff(found.example_offsets)
        return Examples(
            found.items[np.repeat(kept, lengths)],
            np.concatenate([[0], np.cumsum(lengths[kept])]),
            np.concatenate([[0], np.cumsum(counts)]),
        )

    monkeypatch.setattr(Store, "gather", one_has_nothing)
    recipe = tiny(data={"held_out": 1}, privacy={"population": 12, "cohort": 12, "delta": 0.01}, run={"rounds": 1})
    (here / "stored.toml").write_text(recipe.to_toml().replace('world = "keyboard"', 'store = "store"'))
    trained = tacit("train", "stored.toml", "--json").object
    assert trained["privacy"]["reasons_not_private"] == []
    assert len(trained["examples"]["see you"]) == 3
    shown = tacit("predict", trained["run"], "see you", "--count", 50, "--json").object
    assert [each["word"] for each in shown["suggestions"]].count("the") == 1
    assert len(shown["suggestions"]) == 3  # all the words there are


def test_a_full_disk_while_checkpointing_loses_nothing(
    tacit: Tacit, here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real, large = files.append_synced, []

    def full(descriptor: int, data: bytes) -> None:
        if len(data) > 10_000:
            large.append(len(data))
            if len(large) == 2:  # the second checkpoint, after four rounds
                os.write(descriptor, data[:5000])
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        real(descriptor, data)

    with monkeypatch.context() as patch:
        patch.setattr(files, "append_synced", full)
        answer = tacit("train", "tiny.toml", "--out", "run", "--json")
    told = answer.refusal(4)
    assert told.startswith("Disk full while writing run/checkpoints/round-000004.safetensors")
    assert "round-000002.safetensors, is intact" in told
    assert answer.err.endswith("hint: Free some space, then resume the run.\n")
    ledger = read_ledger(here / "run" / "ledger.jsonl")
    assert (ledger.torn, ledger.next_round, ledger.rounds_committed) == (0, 4, 2)
    assert sorted(path.name for path in (here / "run" / "checkpoints").iterdir()) == ["round-000002.safetensors"]
    assert tacit("train", "--resume", "run", "--json").object["privacy"]["releases"] == 6 + 2
    assert_whole(here / "run", 6)


def signals(monkeypatch: pytest.MonkeyPatch, round: int, times: int) -> None:
    """Ctrl-C, so many times, while this round's intent is being written."""
    before = RunJournal.before

    def interrupted(self: RunJournal, cohort: Any, norms: Any) -> None:
        before(self, cohort, norms)
        if cohort.round == round:
            for _ in range(times):
                signal.raise_signal(signal.SIGINT)

    monkeypatch.setattr(RunJournal, "before", interrupted)


def test_ctrl_c_stops_after_the_round_and_the_run_goes_on(
    tacit: Tacit, here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        signals(patch, round=2, times=1)
        stopped = tacit("train", "tiny.toml", "--out", "my run", "--json")
    assert (stopped.code, stopped.out) == (130, "")
    assert stopped.err.splitlines()[-1] == (
        "Stopped after the round under way, which is saved. Go on with: tacit train --resume 'my run'"
    )
    ledger = read_ledger(here / "my run" / "ledger.jsonl")
    assert (ledger.next_round, ledger.uncommitted()) == (3, ())
    assert tacit("runs", "show", "my run", "--json").object["state"] == "stopped"
    assert tacit("train", "--resume", "my run", "--json").object["privacy"]["releases"] == 6
    assert_whole(here / "my run", 6)


def test_a_second_ctrl_c_stops_at_once(tacit: Tacit, here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patch:
        signals(patch, round=3, times=2)
        stopped = tacit("train", "tiny.toml", "--out", "run")
    assert (stopped.code, stopped.out) == (130, "")
    assert stopped.err.splitlines()[-1] == (
        "Stopped at once; a round that was under way counts as released. Go on with: tacit train --resume run"
    )
    assert read_ledger(here / "run" / "ledger.jsonl").closed is None
    finished = tacit("train", "--resume", "run", "--json").object
    assert finished["privacy"]["releases"] == 6 + 2  # rounds 2 and 3 ran again: the checkpoint was after two
    assert_whole(here / "run", 6)


def test_ctrl_c_before_the_run_begins_leaves_nothing(tacit: Tacit, here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recipes, "open_dataset", lambda recipe: signal.raise_signal(signal.SIGINT))
    before = everything(here)
    with hearing_ctrl_c():
        stopped = tacit("train", "tiny.toml")
    assert (stopped.code, stopped.out) == (130, "")
    assert stopped.err == "Stopped before the run began; nothing was written.\n"
    assert everything(here) == before


@pytest.mark.process
def test_a_real_process_stops_on_ctrl_c_and_another_finishes_its_run(tacit: Tacit, here: Path) -> None:
    arguments = ["train", "tiny.toml", "--out", "run", "--json", "--set", "run.rounds=100"]
    arguments += ["--set", "run.evaluate_every=100", "--set", "run.checkpoint_every=100"]
    code = "from tacit.cli.app import main; main()"
    with hearing_ctrl_c():
        process = subprocess.Popen(
            [sys.executable, "-c", code, *arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
    ledger, deadline = here / "run" / "ledger.jsonl", time.monotonic() + 300
    while process.poll() is None and time.monotonic() < deadline:
        if ledger.exists() and ledger.read_bytes().count(b'"kind":"intent"') >= 2:
            process.send_signal(signal.SIGINT)
            break
        time.sleep(0.002)
    out, err = process.communicate(timeout=300)
    assert (process.returncode, out) == (130, "")
    assert err.splitlines()[-1].endswith("Go on with: tacit train --resume run")
    assert "Traceback" not in err
    stopped = read_ledger(ledger)
    assert stopped.uncommitted() == ()
    assert 2 <= stopped.next_round < 100
    assert tacit("train", "--resume", "run", "--json").object["privacy"]["releases"] == 100
    assert_whole(here / "run", 100)


START = RunStart("run", "0" * 32, {"cohort": 20.0}, rounds=6, rounds_done=0)


def test_a_terminal_gets_one_bar() -> None:
    screen = io.StringIO()
    console = Console(file=screen, force_terminal=True, width=120)
    with Progress(console=console) as progress:
        progress.on_start(START)
        progress.on_round(3, 6)
        progress.on_evaluation(4, {"top1": 0.25, EPSILON_SO_FAR: 1.2301})
        progress.on_round(4, 6)
    shown = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", screen.getvalue()).replace("\r", "\n").splitlines()[-1]
    for words in ("round 4/6", "top-1 25.0%", "ε if planned to end here 1.24", "users/s"):
        assert words in shown


def test_progress_says_how_many_workers_there_are_and_who_is_slow() -> None:
    screen = io.StringIO()
    with Progress(console=Console(file=screen, force_terminal=True, width=200)) as progress:
        progress.on_start(START)
        progress.on_workers(WorkersReport(3, 1, ("node-7:21", "node-2:5")))
    shown = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", screen.getvalue()).replace("\r", "\n").splitlines()[-1]
    assert "users/s by 3 workers (1 lost so far; slow: node-7:21 and 1 more)" in shown
    log = io.StringIO()
    progress = Progress(console=Console(file=log, width=200))
    progress.on_start(START)
    for lost in (0, 0, 1):
        progress.on_workers(WorkersReport(2, lost))
    assert log.getvalue().splitlines() == ["2 workers", "2 workers (1 lost so far)"]


def test_a_log_says_how_many_users_workers_train_a_second(monkeypatch: pytest.MonkeyPatch) -> None:
    """From the first evaluation on, and not from the first round: rounds are told late, and several at once before an
    evaluation. With no workers there is no such figure."""
    log, now = io.StringIO(), [100.0]
    monkeypatch.setattr(progress_module.time, "monotonic", lambda: now[0])
    progress = Progress(console=Console(file=log, width=200))
    progress.on_start(START)
    for told, at, evaluated in (((1,), 100.0, None), ((2, 3), 101.0, 3), ((4,), 106.0, None), ((5, 6), 107.0, 6)):
        now[0] = at
        for round in told:
            progress.on_round(round, 6)
            now[0] += 0.001
        now[0] = at
        if evaluated:
            progress.on_evaluation(evaluated, {"top1": 0.25})
            progress.on_workers(WorkersReport(2, 0))
    assert [line.partition("here ")[2] for line in log.getvalue().splitlines()] == ["∞", "", "∞, 10 users/s"]


def test_a_terminal_sees_pretraining_and_then_the_rounds() -> None:
    screen = io.StringIO()
    progress = Progress(console=Console(file=screen, force_terminal=True, width=120))
    progress.on_pretraining(300, 900, 2.5)
    (task,) = progress._display.drawn.tasks  # type: ignore[union-attr]
    assert (task.description, task.completed) == ("pre-training step", 300)
    progress.on_pretraining(900, 900, 2.0)
    progress.on_start(START)
    progress.on_round(1, 6)
    progress.on_end(RunEnd("stopped"))
    shown = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", screen.getvalue()).replace("\r", "\n")
    assert "round 1/6" in shown.splitlines()[-1]
    assert screen.getvalue().endswith("\x1b[?25h")  # the cursor is back


def test_a_log_gets_at_most_ten_lines_of_pretraining(here: Path, tacit: Tacit) -> None:
    (here / "pre.toml").write_text(
        (here / "tiny.toml").read_text() + '\n[pretrain]\nworld = "keyboard"\nusers = 20\nepochs = 1\n'
    )
    answer = tacit("train", "pre.toml", "--out", "run", "--set", "run.rounds=1")
    assert answer.code == 0
    lines = answer.err.splitlines()
    assert re.fullmatch(r"pre-training step (\d+)/\1: loss \d\.\d{3}", lines[0])
    assert lines[1].startswith("Plan: 1 round of about 12 users.")
    assert lines[2].startswith("Vocabulary: ")
    assert lines[3].startswith("round 0/1: top-1 ")
    screen = io.StringIO()
    progress = Progress(console=Console(file=screen))
    for done in range(1, 1001):
        progress.on_pretraining(done, 1000, 1.0)
    assert len(screen.getvalue().splitlines()) == 10


@pytest.mark.parametrize(
    ("epsilon", "shown"), [(1.2301, "1.24"), (1.25, "1.25"), (0.001, "0.01"), (float("inf"), "∞"), (None, "∞")]
)
def test_a_bound_is_rounded_up(epsilon: float | None, shown: str) -> None:
    assert epsilon_text(epsilon) == shown


def test_a_summary_survives_odd_words_and_claims_nothing_it_cannot() -> None:
    privacy = {"epsilon": None, "delta": 1e-6, "reasons_not_private": ["no noise", "a [seed]"]}
    assert "none can be claimed" in privacy_sentence(privacy)
    about = {"unit": "user", "adjacency": "zero out", "accountant": "zCDP", "assumptions": []}
    about |= {"rounds": "the 2 rounds that were planned", "computed_from": "a promise"}
    assert "held-out users, whom it does not cover" in privacy_sentence({**privacy, **about, "epsilon": 1.0})
    within = privacy_sentence({**privacy, **about, "epsilon": 1.0}, measured_within=True)
    assert "measured on these users, with noise added." in within
    screen = io.StringIO()
    summary = {
        "metrics": {"top1": 0.0, "top3": 0.1, "words": 1234},
        "baselines": {"unigram_top1": 0.0},
        "privacy": privacy,
        "examples": {"see [/]": [["[red]", 0.5], ["[/b]", 0.25]]},
    }
    print_summary(Console(file=screen, width=200), Path("runs/[x]"), summary)
    shown = screen.getvalue()
    for words in ("because no noise; a [seed].", "see [/] … [red] 50%, [/b] 25%", "The run is in runs/[x].", "1,234"):
        assert words in shown
    assert "times that" not in shown
