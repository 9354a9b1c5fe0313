"""Runs as tasks of Ray: they end, fail, stop and are told of as processes are; mistakes about clusters are one sentence."""

from __future__ import annotations

import dataclasses
import os
import socket
import subprocess
import sys
import threading
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import tacit
from tacit.errors import RecipeError, WorkerError
from tacit.simulation.ray.identity import identity
from tacit.simulation.sweep import ray_tasks
from tacit.simulation.sweep.ray_tasks import RayTasks, connected, room, run_task
from tacit.simulation.sweep.running import run_cases
from tests.support.swept import begun, cases_with_noise, small_store


class Cancelled(Exception):
    """A task that was cancelled."""


class MadeUpRay:
    """As much of Ray as a sweep uses: tasks are threads of this process, one at a time."""

    exceptions = SimpleNamespace(TaskCancelledError=Cancelled)

    def __init__(self, fails: str = "") -> None:
        self.fails, self.options_given, self._one = fails, {}, threading.Lock()

    def cluster_resources(self) -> dict[str, float]:
        return {"CPU": 3.0}

    def nodes(self) -> list[dict[str, bool]]:
        return [{"Alive": True}, {"Alive": True}, {"Alive": False}]

    def remote(self, function: Callable[..., Any]) -> Any:
        def options(**given: Any) -> Any:
            self.options_given: dict[str, Any] = given
            return SimpleNamespace(remote=lambda *arguments: self._begin(function, arguments))

        return SimpleNamespace(options=options)

    def _begin(self, function: Callable[..., Any], arguments: tuple[Any, ...]) -> Future[Any]:
        task: Future[Any] = Future()

        def work() -> None:
            try:
                if arguments[1] == self.fails:
                    raise ConnectionError("the machine is gone")
                with self._one:
                    task.set_result(function(*arguments))
            except BaseException as error:
                task.set_exception(error)

        threading.Thread(target=work, daemon=True).start()
        return task

    def wait(self, tasks: list[Future[Any]], timeout: float) -> tuple[list[Future[Any]], list[Future[Any]]]:
        done = [task for task in tasks if not task.exception(60) or task.done()]
        return done, []

    def get(self, task: Future[Any]) -> Any:
        return task.result()

    def cancel(self, task: Future[Any], force: bool) -> None:
        raise AssertionError("nothing is left to cancel")


class Heard(tacit.SweepCallback):
    def __init__(self) -> None:
        self.ends: dict[str, Any] = {}
        self.rounds: list[tuple[str, int]] = []

    def on_evaluation(self, case: str, round: int, metrics: Any) -> None:
        assert "round" not in metrics
        self.rounds.append((case, round))

    def on_end(self, case: str, result: tacit.CaseResult) -> None:
        self.ends[case] = (result.state, result.problem)


def test_tasks_are_followed_and_one_that_is_lost_has_failed(tmp_path: Path) -> None:
    sweep = begun(tmp_path / "sweep", cases_with_noise(small_store(tmp_path / "store"), [2.0, 3.0]))
    ray, heard = MadeUpRay(fails="z3"), Heard()
    tasks = RayTasks(sweep, ray, None, 0.0, ())
    assert tasks.at_once == 3
    assert (ray.options_given["num_cpus"], ray.options_given["num_gpus"]) == (1, 0.0)
    run_cases(sweep, sweep.cases, launcher=tasks, minutes=None, callback=heard)
    assert heard.ends == {"z2": ("finished", None), "z3": ("failed", "Its task of Ray ended with ConnectionError.")}
    assert heard.rounds == [("z2", 1), ("z2", 2)]
    shared = RayTasks(sweep, MadeUpRay(), 2, 0.25, ())
    assert shared.at_once == 2


@pytest.mark.process
def test_jax_is_not_imported_before_the_cases_are_prepared() -> None:
    """Before its import `tacit.api.sweep.prepared` leaves the accelerator's memory to the runs."""
    code = "import sys; import tacit.simulation.sweep.ray_tasks; sys.exit('jax' in sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True)


def test_a_machine_with_other_code_trains_nothing_and_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sweep, here = begun(tmp_path / "sweep", cases_with_noise(small_store(tmp_path / "store"), [2.0])), identity()
    other = dataclasses.replace(here, jax="9.9")
    driver = threading.current_thread()
    monkeypatch.setattr(ray_tasks, "identity", lambda: here if threading.current_thread() is driver else other)
    heard = Heard()
    run_cases(sweep, sweep.cases, launcher=RayTasks(sweep, MadeUpRay(), None, 0.0, ()), minutes=None, callback=heard)
    sentence = (
        f"Expected jax {here.jax} on the machine {socket.gethostname()}, as where the sweep was started, got 9.9."
    )
    assert heard.ends == {"z2": ("failed", sentence)}
    assert not sweep.run_path(sweep.cases[0]).exists()


def test_a_machine_that_does_not_see_the_folders_is_told(tmp_path: Path) -> None:
    before = os.getcwd()
    with pytest.raises(WorkerError, match=rf"does not see the sweep {tmp_path}: every machine needs it"):
        run_task(str(tmp_path), "z2", [], before, identity())
    sweep = begun(tmp_path / "sweep", cases_with_noise(small_store(tmp_path / "store"), [2.0]))
    with pytest.raises(WorkerError, match=rf"has no folder {tmp_path / 'nowhere'}: every machine needs the one from"):
        run_task(str(sweep.path), "z2", [], str(tmp_path / "nowhere"), identity())
    assert not sweep.run_path(sweep.cases[0]).exists()


def test_several_machines_keep_one_list_of_the_runs_on_a_store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A copy of a store that a URL names has a list of its own on each machine."""
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    url = f"file://{small_store(tmp_path / 'store')}"
    cases = cases_with_noise(url, [2.0])
    ray = MadeUpRay()
    monkeypatch.setattr(ray_tasks, "connected", lambda address: nullcontext(ray))
    with pytest.raises(RecipeError, match=f"Expected stores in folders that all machines see, got {url}: each machine"):
        tacit.sweep(cases, out=tmp_path / "sweep", engine="ray")
    assert not (tmp_path / "sweep").exists()
    monkeypatch.setattr(ray, "nodes", lambda: [{"Alive": True}])
    found = tacit.sweep(cases, out=tmp_path / "sweep", engine="ray")
    assert [each.state for each in found.results()] == ["finished"]


def test_without_room_for_a_run_nothing_is_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ray_tasks, "connected", lambda address: nullcontext(MadeUpRay()))
    with pytest.raises(RecipeError, match="no room for a run with 1 GPU"):
        tacit.sweep({"recipe": "demo"}, out=tmp_path / "sweep", engine="ray", gpus_per_run=1)
    assert not (tmp_path / "sweep").exists()


def test_the_room_in_a_cluster() -> None:
    assert room({"CPU": 7.0}, 0.0) == 7
    assert room({"CPU": 7.0, "GPU": 2.0}, 0.25) == 8
    assert room({"GPU": 3.0}, 2) == 1
    with pytest.raises(RecipeError, match=r"no room for a run with 1 GPU\."):
        room({"CPU": 7.0}, 1)


def test_no_ray_and_no_cluster_are_one_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        nobody = f"127.0.0.1:{free.getsockname()[1]}"
        with (
            pytest.raises(WorkerError, match=f"No Ray cluster answers at {nobody}: Connection refused"),
            connected(nobody),
        ):
            pass
    with pytest.raises(WorkerError, match="as auto or host:port, got nonsense"), connected("nonsense"):
        pass
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(WorkerError, match="Ray is not installed") as raised, connected(None):
        pass
    assert raised.value.hint == "pip install 'tacit[ray]'"


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        ({"at_once": 0}, "Expected at_once to be a whole number above 0, got 0"),
        ({"engine": "spark"}, "Expected engine to be processes or ray, got 'spark'"),
        ({"address": "auto"}, "with the engine ray only"),
        ({"engine": "ray", "gpus_per_run": 1.5}, "a share of one GPU or a whole number of them for each run, got 1.5"),
        ({"engine": "ray", "gpus_per_run": -1}, "a share of one GPU"),
    ],
)
def test_where_runs_go_on_is_checked_first(tmp_path: Path, given: dict[str, Any], sentence: str) -> None:
    with pytest.raises(RecipeError, match=sentence):
        tacit.sweep({"recipe": "demo"}, out=tmp_path / "sweep", **given)
    assert not (tmp_path / "sweep").exists()


@pytest.mark.process
@pytest.mark.slow
def test_a_sweep_on_ray(tmp_path: Path) -> None:
    pytest.importorskip("ray")
    cases = cases_with_noise(small_store(tmp_path / "store"), [2.0, 3.0])
    found = tacit.sweep(cases, out=tmp_path / "sweep", engine="ray")
    assert [(each.state, each.rounds) for each in found.results()] == [("finished", 2), ("finished", 2)]
    [cost] = found.cost()
    assert (cost.runs, cost.to_come) == (2, 0)
