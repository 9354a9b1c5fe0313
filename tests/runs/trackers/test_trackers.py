"""Trackers send the numbers of evaluations, the plan and the guarantee, and switch off what their packages capture."""

from __future__ import annotations

import doctest
import math
import struct
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
from tensorboardX.proto.event_pb2 import Event

import tacit
from tacit.errors import RunError
from tacit.runs import callbacks, progress
from tacit.runs.callbacks import Callback, RunEnd, RunStart
from tacit.runs.metrics import read_metrics
from tacit.runs.trackers import mlflow, sent, tensorboard, wandb
from tacit.simulation.training import start_run
from tests.support.fake_trackers import fake_mlflow, fake_wandb
from tests.support.tiny_recipe import tiny

PLAN = {
    "mechanism": "gaussian",
    "cohort": 20.0,
    "delta": 1e-06,
    "secagg": None,
    "restarts": [],
    "adaptive": {"quantile": 0.5},
}
SETTINGS = {
    "rounds": 16,
    "privacy.mechanism": "gaussian",
    "privacy.cohort": 20.0,
    "privacy.delta": 1e-06,
    "privacy.adaptive": '{"quantile": 0.5}',
}
START = RunStart("mine", "7f" * 16, PLAN, rounds=16, rounds_done=0)
RESUMED = RunStart("mine", "7f" * 16, PLAN, rounds=16, rounds_done=4)
METRICS = {"measured_on": "held-out users", "top1": 0.25, "words": 200, "epsilon_if_planned_to_end_here": None}
END = RunEnd("finished", 1.5, 1e-06, "ε = 1.50 at δ = 1e-06.")
CLAIMS_NOTHING = RunEnd("finished", math.inf, 1e-06, "No privacy is claimed: epsilon is infinite, because of a seed.")


@pytest.mark.parametrize("module", [callbacks, progress, sent, tensorboard, mlflow, wandb])
def test_examples_in_docstrings(module: ModuleType) -> None:
    done = doctest.testmod(module)
    assert done.attempted > 0
    assert done.failed == 0


@pytest.mark.parametrize(
    ("tracker", "package", "extra"),
    [("TensorBoard", "tensorboardX", "tensorboard"), ("MLflow", "mlflow", "mlflow"), ("WandB", "wandb", "wandb")],
)
def test_a_package_that_is_missing_is_named(
    tracker: str, package: str, extra: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("MLFLOW_DISABLE_TELEMETRY", "true")
    monkeypatch.setattr(sys, "path", [])
    monkeypatch.delitem(sys.modules, package, raising=False)
    arguments = [tmp_path] if tracker == "TensorBoard" else []
    with pytest.raises(RunError, match=rf"This callback needs the package {package}\.") as raised:
        getattr(tacit, tracker)(*arguments)
    assert raised.value.hint == f'pip install "tacit[{extra}]"'


# TensorBoard, read back from its files.


def events(folder: Path) -> Iterator[Event]:
    for path in sorted(folder.iterdir()):
        content = path.read_bytes()
        while content:
            (size,) = struct.unpack("<Q", content[:8])
            yield Event.FromString(content[12 : 12 + size])
            content = content[16 + size :]


def _value(written: Any) -> Any:
    return written.tensor.string_val[0].decode() if written.tensor.string_val else written.simple_value


def points(folder: Path) -> list[tuple[str, int, float, Any]]:
    """(tag, step, wall time, value) of everything that was written."""
    return [
        (value.tag, event.step, event.wall_time, _value(value))
        for event in events(folder)
        for value in event.summary.value
    ]


def test_tensorboard_gets_rounds_plan_and_guarantee(tmp_path: Path) -> None:
    tracker = tacit.TensorBoard(tmp_path)
    tracker.on_start(START)
    tracker.on_evaluation(4, METRICS)
    tracker.on_end(END)
    plan, *rest, said = points(tmp_path / "mine")
    assert plan[:3] == ("plan/text_summary", 0, 0.0)
    for name, value in SETTINGS.items():
        assert f"| {name} | {value} |" in plan[3]
    assert rest == [
        ("top1", 4, 4.0, 0.25),
        ("words", 4, 4.0, 200.0),
        ("guarantee/epsilon", 16, 16.0, 1.5),
        ("guarantee/delta", 16, 16.0, pytest.approx(1e-06)),
    ]
    assert said == ("guarantee/text_summary", 16, 16.0, END.guarantee)


def test_tensorboard_replaces_the_rounds_that_a_resumed_run_repeats(tmp_path: Path) -> None:
    tracker = tacit.TensorBoard(tmp_path)
    tracker.on_start(RESUMED)
    tracker.on_end(RunEnd("stopped"))
    sessions = [event.step for event in events(tmp_path / "mine") if event.session_log.status]
    assert sessions == [5]
    assert points(tmp_path / "mine") == []


def test_tensorboard_beside_a_run(tmp_path: Path) -> None:
    """A real run: every point is in the public metrics, and nothing else is there."""
    start_run(tiny(), tmp_path / "run", tacit.TensorBoard(tmp_path / "board"))
    found = points(tmp_path / "board" / "run")
    lines = {line["round"]: line for line in read_metrics(tmp_path / "run" / "metrics.jsonl")}
    seen = [each for each in found if not each[0].startswith(("plan", "guarantee"))]
    assert len(seen) == sum(len(sent.numbers(line)) - 1 for line in lines.values())  # all but the round
    for tag, step, _, value in seen:
        assert value == pytest.approx(lines[step][tag])
    assert {each[0] for each in found} - {each[0] for each in seen} == {
        "plan/text_summary",
        "guarantee/text_summary",
        "guarantee/epsilon",
        "guarantee/delta",
    }


# MLflow and W&B, by packages that write down how they are called.


def test_mlflow_gets_rounds_plan_and_guarantee(monkeypatch: pytest.MonkeyPatch) -> None:
    client = fake_mlflow(monkeypatch)
    tracker = tacit.MLflow(experiment="keyboard", tracking_uri="http://there")
    assert mlflow.os.environ["MLFLOW_DISABLE_TELEMETRY"] == "true"
    tracker.on_start(START)
    tracker.on_evaluation(4, METRICS)
    tracker.on_end(END)
    assert client.named("create_experiment") == [("keyboard", {})]
    ((experiment, made),) = client.named("create_run")
    assert (experiment, made["run_name"], made["tags"]) == ("e1", "mine", {"tacit.run_id": START.run_id})
    assert {name: value for _, name, value, _ in client.named("log_param")} == SETTINGS
    began = {"timestamp": made["start_time"]}  # no point tells when it was made
    assert client.named("log_metric") == [
        ("r1", "top1", 0.25, {**began, "step": 4}),
        ("r1", "words", 200.0, {**began, "step": 4}),
        ("r1", "epsilon", 1.5, {**began, "step": 0}),
        ("r1", "delta", 1e-06, {**began, "step": 0}),
    ]
    assert client.named("set_tag") == [("r1", "guarantee", END.guarantee, {})]
    assert client.named("set_terminated") == [("r1", {"status": "FINISHED", "end_time": made["start_time"]})]


def test_mlflow_goes_on_with_a_run_that_is_resumed(monkeypatch: pytest.MonkeyPatch) -> None:
    before = SimpleNamespace(info=SimpleNamespace(run_id="r0", start_time=7))
    client = fake_mlflow(monkeypatch, search_runs=[before], get_experiment_by_name=SimpleNamespace(experiment_id="e0"))
    tracker = tacit.MLflow()
    tracker.on_start(RESUMED)
    tracker.on_evaluation(6, {"top1": 0.5})
    tracker.on_end(RunEnd("stopped"))
    assert START.run_id in client.named("search_runs")[0][-1]["filter_string"]
    assert not client.named("create_run") + client.named("create_experiment") + client.named("log_param")
    assert client.named("log_metric") == [("r0", "top1", 0.5, {"timestamp": 7, "step": 6})]
    assert client.named("set_terminated") == [("r0", {"status": "KILLED", "end_time": 7})]


def test_wandb_gets_rounds_plan_and_guarantee(monkeypatch: pytest.MonkeyPatch) -> None:
    run, begun = fake_wandb(monkeypatch)
    tracker = tacit.WandB(project="keyboard", mode="offline")
    tracker.on_start(START)
    tracker.on_evaluation(4, METRICS)
    tracker.on_end(END)
    (started,) = begun
    captured = started.pop("settings")
    assert captured == wandb.NOTHING_ELSE
    assert captured["disable_git"]
    assert captured["disable_code"]
    assert captured["x_disable_stats"]
    assert captured["x_disable_meta"]
    assert captured["console"] == "off"
    about = {"id": START.run_id, "name": "mine", "resume": "allow", "config": SETTINGS, "save_code": False}
    assert started == {"project": "keyboard", "entity": None, "mode": "offline", **about}
    assert run.named("log") == [({"round": 4, "top1": 0.25, "words": 200.0}, {})]
    assert run.summary == {"epsilon": 1.5, "delta": 1e-06, "guarantee": END.guarantee}
    assert run.named("finish") == [({"exit_code": 0},)]


def build(tracker: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Callback:
    fake_mlflow(monkeypatch)
    fake_wandb(monkeypatch)
    found: Callback = getattr(tacit, tracker)(*([tmp_path] if tracker == "TensorBoard" else []))
    return found


@pytest.mark.parametrize("tracker", ["TensorBoard", "MLflow", "WandB"])
def test_a_run_that_ends_in_pretraining_is_not_sent(
    tracker: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    made = build(tracker, monkeypatch, tmp_path)
    made.on_pretraining(1, 2, 0.5)
    made.on_end(RunEnd("failed"))
    assert list(tmp_path.iterdir()) == []


def test_an_infinite_epsilon_is_a_sentence_and_no_number(monkeypatch: pytest.MonkeyPatch) -> None:
    run, _ = fake_wandb(monkeypatch)
    tracker = tacit.WandB()
    tracker.on_start(START)
    tracker.on_end(CLAIMS_NOTHING)
    assert run.summary == {"delta": 1e-06, "guarantee": CLAIMS_NOTHING.guarantee}
