"""The watcher sees what changes in run folders, and reads nothing that has not changed."""

from __future__ import annotations

import asyncio
import shutil
import threading
from pathlib import Path
from types import SimpleNamespace

import pytest

from tacit.privacy.record.records import Closed
from tacit.runs.metrics import MetricsWriter
from tacit.web import watcher as module
from tacit.web.events import Events
from tacit.web.rows import unread
from tacit.web.watcher import RunWatcher
from tests.support.boards import until
from tests.support.made_runs import made_run


@pytest.fixture
def watched(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """A watcher of the folder, that looks often; with what it told."""
    monkeypatch.setattr(module, "SEARCH_S", 0.05)
    monkeypatch.setattr(module, "POLL_S", 0.02)
    told, gone = [], []
    watcher = RunWatcher([tmp_path], on_change=told.append, on_gone=gone.append)
    watcher.watched(1)
    watcher.told, watcher.gone = told, gone
    yield watcher
    watcher.stop()


def state(watcher: RunWatcher, name: str) -> str | None:
    return next((row.state for row in watcher.rows() if row.name == name), None)


def test_a_run_comes_changes_and_goes(watched: RunWatcher, tmp_path: Path) -> None:
    made_run(tmp_path / "first")
    watched.start()
    until(lambda: state(watched, "first") == "finished", "the first run")
    run = made_run(tmp_path / "second", outcome=None, planned=9)
    until(lambda: state(watched, "second") == "interrupted", "the second run")
    key = next(row.key for row in watched.rows() if row.name == "second")
    assert watched.path(key) == run.path
    with run.open_ledger() as ledger:  # a process trains it
        until(lambda: state(watched, "second") == "running", "the run to be seen running")
        with MetricsWriter(run.metrics_path) as metrics:
            metrics.append({"round": 5, "top1": 0.875})
        until(lambda: watched.row(key).metrics.get("top1") == 0.875, "the new figure")
    until(lambda: state(watched, "second") == "interrupted", "the killed process")
    with run.open_ledger() as ledger:
        ledger.append(Closed(4, "stopped"))
    until(lambda: state(watched, "second") == "stopped", "the end")
    shutil.rmtree(run.path)
    until(lambda: watched.gone == [key], "the run to be gone")
    assert watched.path(key) is None
    assert [row.version for row in watched.told if row.key == key] == sorted(
        row.version for row in watched.told if row.key == key
    )


def test_what_has_not_changed_is_not_read_again(watched: RunWatcher, tmp_path: Path, monkeypatch) -> None:
    made_run(tmp_path / "one")
    made_run(tmp_path / "two")
    watched.start()
    until(lambda: all(row.cost_known for row in watched.rows()), "the runs")
    read = []
    monkeypatch.setattr(
        module,
        "read_row",
        lambda path, cost: read.append(path.name) or unread(path).model_copy(update={"cost_known": True}),
    )
    made_run(tmp_path / "three")
    until(lambda: "three" in read, "the new run")
    assert set(read) == {"three"}


def test_a_run_that_nobody_can_read_hides_no_other(watched: RunWatcher, tmp_path: Path, monkeypatch) -> None:
    made_run(tmp_path / "first")
    made_run(tmp_path / "second")
    read = module.read_row

    def fails(path: Path, cost):
        if path.name == "second":  # it is the newer one, so it is read first
            raise RuntimeError("a bug")
        return read(path, cost)

    monkeypatch.setattr(module, "read_row", fails)
    watched.start()
    until(lambda: state(watched, "first") == "finished", "the other run")
    row = next(row for row in watched.rows() if row.name == "second")
    assert (row.state, row.problem.count("a bug")) == ("damaged", 0)
    assert row.problem.endswith("The board's terminal shows why.")


def test_runs_are_read_although_looking_at_files_is_slow(tmp_path: Path, monkeypatch) -> None:
    for number in range(6):
        made_run(tmp_path / str(number))
    clock = [0.0]

    def passing(seconds: float, real):
        def passes(*arguments):
            clock[0] += seconds
            return real(*arguments)

        return passes

    monkeypatch.setattr(module, "time", SimpleNamespace(monotonic=lambda: clock[0]))
    monkeypatch.setattr(module, "_print", passing(1.0, module._print))
    monkeypatch.setattr(module, "read_row", passing(1.5, module.read_row))
    watcher = RunWatcher([tmp_path])
    watcher._search()
    assert watcher._read_changed() is False  # 6 s of looking give 12 s to read in, which is enough for all
    assert all(row.state == "finished" for row in watcher.rows())
    watcher.stop()


def test_a_cost_that_takes_long_holds_up_no_round(watched: RunWatcher, tmp_path: Path, monkeypatch) -> None:
    costs, go_on = [], threading.Event()

    def slow(*arguments, real=module.cost_of):
        costs.append(1)
        go_on.wait(60)
        return real(*arguments)

    monkeypatch.setattr(module, "cost_of", slow)
    run = made_run(tmp_path / "one", outcome=None, planned=9)
    with run.open_ledger():
        watched.start()
        until(lambda: state(watched, "one") == "running", "the run")
        key = watched.rows()[0].key
        for round in range(5, 9):
            with MetricsWriter(run.metrics_path) as metrics:
                metrics.append({"round": round, "top1": round / 10})
            until(lambda round=round: watched.row(key).metrics.get("top1") == round / 10, "the round")
        assert watched.row(key).epsilon is None
        assert not watched.row(key).cost_known
        go_on.set()
        until(lambda: watched.row(key).epsilon, "the cost")
        assert len(costs) == 1  # not one for each round
    until(lambda: state(watched, "one") == "interrupted" and watched.row(key).cost_known, "the end")
    assert len(costs) == 2  # and again when nobody trains it any more


def test_a_pace_needs_two_rounds_and_forgets_those_before_a_resume(tmp_path: Path) -> None:
    known = module._Known(tmp_path, unread(tmp_path))
    row = unread(tmp_path).model_copy(update={"state": "running", "rounds": 3})
    assert known.pace(row, 10.0) is None
    assert known.pace(row.model_copy(update={"rounds": 5}), 14.0) == 2.0
    assert known.pace(row.model_copy(update={"rounds": 4}), 20.0) is None  # it went back
    assert known.pace(row.model_copy(update={"state": "stopped"}), 21.0) is None


def test_listeners_get_what_changes_and_a_beat(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tacit.web.events.BEAT_S", 0.01)
    watched: list[int] = []

    async def listen() -> list[str]:
        events, heard = Events(), []
        async for text in events.stream(watched.append):
            heard.append(text)
            if len(heard) == 2:
                events.row(unread(tmp_path))
                events.gone("a-key")
            if any("a-key" in each for each in heard):
                events.close()
        return heard

    heard = asyncio.run(listen())
    assert heard[0].startswith("retry: 1000\nevent: hello")
    assert heard[1].startswith("event: beat")
    assert any(each.startswith("event: run\ndata: {") for each in heard)
    assert all(each.endswith("\n\n") for each in heard)
    assert watched == [1, -1]


def test_a_listener_that_does_not_read_is_cut_off(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tacit.web.events.MOST_WAITING", 3)

    async def listen() -> list[str]:
        events = Events()
        stream = events.stream(lambda change: None)
        heard = [await anext(stream)]
        for _ in range(9):
            events.gone("k")
        await asyncio.sleep(0.05)
        return heard + [text async for text in stream]

    assert len(asyncio.run(listen())) == 4  # the greeting and what waited, then the end
