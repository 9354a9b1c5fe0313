"""Callbacks: the order of calls, errors that stop a run without harm, and that nothing private is reached from a call."""

from __future__ import annotations

import gc
import json
import math
import pickle
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tacit
from tacit.errors import DivergedError
from tacit.privacy.record.ledger import read_ledger
from tacit.runs import checkpoints
from tacit.runs.callbacks import Callbacks, Notifier, RunEnd, RunStart, StopRequested, notifying
from tacit.runs.metrics import read_metrics
from tacit.simulation.training import resume_run, start_run
from tests.support.run_arrays import assert_same_arrays
from tests.support.tiny_recipe import tiny

METHODS = ("on_warning", "on_pretraining", "on_start", "on_round", "on_evaluation", "on_end")
START = RunStart("run", "0" * 32, {"cohort": 20.0}, rounds=6, rounds_done=0)
SEEDED = {"seed": 5}


class Recorder(tacit.Callback):
    """Remembers every call; raises in the call that `fails` names, with its first argument where one is given."""

    def __init__(self, fails: str | None = None, at: int | None = None) -> None:
        self.calls: list[tuple[str, tuple[Any, ...]]] = []
        self._fails, self._at = fails, at

    def _called(self, name: str, *arguments: Any) -> None:
        self.calls.append((name, arguments))
        if name == self._fails and self._at in (None, arguments[0]):
            raise ValueError(f"{name} fails")

    def names(self) -> list[str]:
        return [name for name, _ in self.calls]

    def ends(self) -> list[RunEnd]:
        return [arguments[0] for name, arguments in self.calls if name == "on_end"]


for _name in METHODS:
    setattr(Recorder, _name, lambda self, *arguments, _name=_name: self._called(_name, *arguments))


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A seeded run that nothing disturbed."""
    out = tmp_path_factory.mktemp("whole") / "run"
    start_run(tiny(run=SEEDED), out, tacit.Callback())
    return out


def test_a_run_is_told_in_order_and_as_it_is_written(tmp_path: Path) -> None:
    recorder = Recorder()
    summary = start_run(tiny(privacy={"noise_multiplier": 3.0}), tmp_path / "run", recorder)
    names = [name for name in recorder.names() if name != "on_warning"]
    assert names[0] == "on_start"
    assert names[-1] == "on_end"
    start = recorder.calls[recorder.names().index("on_start")][1][0]
    assert (start.name, start.rounds, start.rounds_done, start.plan["cohort"]) == ("run", 6, 0, 12.0)
    assert [call[1] for call in recorder.calls if call[0] == "on_round"] == [(n, 6) for n in range(1, 7)]
    told = [{"round": call[1][0], **call[1][1]} for call in recorder.calls if call[0] == "on_evaluation"]
    assert told == list(read_metrics(tmp_path / "run" / "metrics.jsonl"))
    (end,) = recorder.ends()
    assert (end.outcome, end.epsilon) == ("finished", summary["privacy"]["epsilon"])
    assert end.delta == 1e-4
    assert end.guarantee is not None
    assert end.guarantee.startswith("ε = ")


def test_infinite_epsilon_is_told_with_its_reason(tmp_path: Path) -> None:
    recorder = Recorder()
    start_run(tiny(run={**SEEDED, "rounds": 1}), tmp_path / "run", recorder)
    (end,) = recorder.ends()
    assert end.epsilon == math.inf
    assert "epsilon is infinite, because" in str(end.guarantee)


@pytest.mark.parametrize(
    ("fails", "at", "stops_after"),
    [("on_start", None, 0), ("on_round", 1, 2), ("on_round", 3, 4), ("on_evaluation", 2, 2), ("on_evaluation", 4, 4)],
)
def test_an_error_stops_the_run_where_it_can_go_on(
    fails: str, at: int | None, stops_after: int, whole: Path, tmp_path: Path
) -> None:
    recorder, run = Recorder(fails, at), tmp_path / "run"
    with pytest.raises(ValueError, match=f"{fails} fails"):
        start_run(tiny(run=SEEDED), run, recorder)
    assert recorder.ends() == [RunEnd("stopped")]
    ledger = read_ledger(run / "ledger.jsonl")
    assert ledger.closed is not None
    assert (ledger.closed.outcome, ledger.uncommitted()) == ("stopped", ())  # every round is saved
    assert len(ledger.intents) == stops_after
    resumed = Recorder()
    resume_run(run, resumed)
    assert resumed.calls[0][1][0].rounds_done == stops_after
    assert_same_arrays(whole, run)
    assert list(read_metrics(run / "metrics.jsonl")) == list(read_metrics(whole / "metrics.jsonl"))
    assert len(read_ledger(run / "ledger.jsonl").intents) == 6  # nothing is paid for twice


def test_an_error_between_checkpoints_gets_one(tmp_path: Path) -> None:
    """The round that is two behind is told; the one just done is the one that must be saved."""
    run = tmp_path / "run"
    with pytest.raises(ValueError, match="on_round fails"):
        start_run(tiny(run={**SEEDED, "evaluate_every": 4, "checkpoint_every": 6}), run, Recorder("on_round", 1))
    kept = checkpoints.rounds_kept(run / "checkpoints")
    assert kept == [3]
    assert read_ledger(run / "ledger.jsonl").uncommitted() == ()
    assert [line["round"] for line in read_metrics(run / "private" / "diagnostics.jsonl")] == [1, 2, 3]


@pytest.mark.parametrize(("fails", "at"), [("on_evaluation", 6), ("on_round", 6), ("on_end", None)])
def test_an_error_in_the_last_round_lets_the_run_finish(
    fails: str, at: int | None, whole: Path, tmp_path: Path
) -> None:
    recorder, run = Recorder(fails, at), tmp_path / "run"
    with pytest.raises(ValueError, match=f"{fails} fails"):
        start_run(tiny(run=SEEDED), run, recorder)
    assert [end.outcome for end in recorder.ends()] == ["finished"]
    closed = read_ledger(run / "ledger.jsonl").closed
    assert closed is not None
    assert closed.outcome == "finished"
    assert_same_arrays(whole, run)
    assert json.loads((run / "summary.json").read_text()) == json.loads((whole / "summary.json").read_text())


@pytest.mark.parametrize("fails", ["on_evaluation", "on_pretraining"])
def test_an_error_before_the_first_round_releases_nothing(fails: str, tmp_path: Path) -> None:
    recipe = tiny(run={"rounds": 2})
    pretrain = {"world": "keyboard", "users": 20, "steps": 2}
    recipe = recipe.model_validate({**recipe.model_dump(exclude_none=True), "pretrain": pretrain})
    recorder, run = Recorder(fails), tmp_path / "run"
    with pytest.raises(ValueError, match=f"{fails} fails"):
        start_run(recipe, run, recorder)
    assert len(recorder.ends()) == 1
    if fails == "on_evaluation":  # of the pre-trained model
        assert read_ledger(run / "ledger.jsonl").intents == ()
    else:
        assert not (run / "ledger.jsonl").exists()
    assert resume_run(run, tacit.Callback())["privacy"]["releases"] == 2


def test_a_diverged_run_says_so_whatever_callbacks_do(tmp_path: Path) -> None:
    recorder = Recorder("on_end")
    with pytest.raises(DivergedError) as raised:
        start_run(tiny(server={"learning_rate": 1e13}), tmp_path / "run", recorder)
    assert [end.outcome for end in recorder.ends()] == ["diverged"]
    assert "on_end fails" in str(raised.value.__cause__)


@pytest.mark.parametrize(
    ("raised", "outcome"),
    [(KeyboardInterrupt(), "stopped"), (StopRequested(), "stopped"), (OSError("disk"), "failed"), (None, None)],
)
def test_whatever_is_raised_is_an_end(raised: BaseException | None, outcome: str | None) -> None:
    recorder = Recorder("on_end")
    if raised is None:
        with notifying(recorder):
            pass
        assert recorder.calls == []
        return
    with pytest.raises(type(raised)) as found, notifying(recorder):
        raise raised
    assert [end.outcome for end in recorder.ends()] == [outcome]
    assert found.value.__notes__ == ["A callback failed, too: ValueError('on_end fails')"]


def test_after_an_error_only_the_end_is_told() -> None:
    recorder = Recorder("on_round")
    notifier = Notifier(recorder)
    notifier.start(START)
    notifier.round(1, 6)
    notifier.round(2, 6)
    notifier.evaluation(2, {})
    notifier.end(RunEnd("stopped"))
    notifier.end(RunEnd("failed"))
    assert recorder.names() == ["on_start", "on_round", "on_end"]
    assert str(notifier.error) == "on_round fails"


def test_several_callbacks_are_all_told_and_the_first_error_is_raised() -> None:
    class Greedy(tacit.Callback):
        def on_evaluation(self, round: int, metrics: Any) -> None:
            metrics.clear()

    first, last = Recorder("on_evaluation"), Recorder()
    together = Callbacks([Greedy(), first, last])
    together.on_warning("careful")
    together.on_pretraining(1, 2, 0.5)
    together.on_start(START)
    together.on_round(1, 6)
    with pytest.raises(ValueError, match="on_evaluation fails"):
        together.on_evaluation(2, {"top1": 0.5})
    together.on_end(RunEnd("finished", 1.0, 1e-6, "ε = 1"))
    assert first.calls == last.calls
    assert last.names() == list(METHODS)
    assert last.calls[4] == ("on_evaluation", (2, {"top1": 0.5}))  # nobody took anything from it


# By attack: what can be reached from what a callback gets.

PUBLIC_TYPES = (str, int, float, bool, type(None), dict, list, tuple, RunStart, RunEnd)


def reachable(first: Any, depth: int = 12) -> Iterator[Any]:
    """Every object that the garbage collector can reach from this one; classes are not followed."""
    seen, layer = {id(first): first}, [first]
    for _ in range(depth):
        yield from layer
        following = []
        keys = [
            key for each in layer if isinstance(each, dict) for key in each
        ]  # the collector does not visit strings there
        for each in (*gc.get_referents(*layer), *keys):
            if id(each) not in seen and not isinstance(each, type):
                seen[id(each)] = each
                following.append(each)
        layer = following


class Thief(tacit.Callback):
    """Takes everything that it can reach."""

    def __init__(self) -> None:
        self.loot: list[Any] = []
        self.pickled = b""

    def _take(self, *arguments: Any) -> None:
        self.loot += reachable(list(arguments))
        self.pickled += pickle.dumps(arguments)


for _name in METHODS:
    setattr(Thief, _name, Thief._take)


@pytest.mark.parametrize("adaptive", [False, True])
def test_a_thief_gets_nothing_private(adaptive: bool, tmp_path: Path) -> None:
    thief, run = Thief(), tmp_path / "run"
    section = {"adaptive": {"quantile": 0.5, "count_noise": 2.0}} if adaptive else {}
    start_run(tiny(privacy=section), run, thief)
    assert {type(each) for each in thief.loot} <= set(PUBLIC_TYPES)
    diagnostics = list(read_metrics(run / "private" / "diagnostics.jsonl"))
    assert len(diagnostics) == 6
    words = {each for each in thief.loot if isinstance(each, str)}
    assert {"top1", "cohort", "finished"} <= words  # the attack does reach what is there
    assert not words & (diagnostics[0].keys() - {"round"})
    assert not any(str(tmp_path) in word or "private" in word.split("/") for word in words)
    norms = {value for line in diagnostics for value in line["norm_quantiles"].values()}
    secrets = norms | {line["seconds"] for line in diagnostics}
    assert not secrets & {each for each in thief.loot if isinstance(each, float)}
    assert b"norm_quantiles" not in thief.pickled
    assert not any(isinstance(each, np.ndarray) for each in thief.loot)
