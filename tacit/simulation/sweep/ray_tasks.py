"""The runs of a sweep as tasks of Ray: one run is one task, with the cores or the share of a GPU that it needs.

The sweep's folder, the stores and the recipe's other files must be there on every machine of the cluster, under the same path.
A task that is lost with its machine leaves an interrupted run, and the same command goes on with it. A machine with another
Tacit or JAX than this process trains nothing: the sweep's statement is that of the code which settled its cases.
"""

from __future__ import annotations

import os
import socket
import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tacit.data.remote import is_url
from tacit.errors import RecipeError, WorkerError
from tacit.recipe.engine import Ray
from tacit.runs.metrics import read_metrics
from tacit.simulation.ray.connection import Connection
from tacit.simulation.ray.identity import Identity, identity
from tacit.simulation.ray.mistakes import mistake_in
from tacit.simulation.sweep.folder import SettledCase, SweepFolder, is_sweep
from tacit.simulation.sweep.one_run import run_named
from tacit.simulation.sweep.running import Heard, environment_for

# How often a task is asked whether it has ended, in seconds.
LOOK = 0.5
# What a process computes with that has one core: one CPU device, and one thread for it.
ONE_CORE = {"JAX_NUM_CPU_DEVICES": "1", "NPROC": "1"}


@contextmanager
def connected(address: str | None) -> Iterator[Any]:
    """The module `ray`, in a cluster: the one at this address, or one that is started on this machine and stopped again.

    WorkerError, in one sentence, if there is no Ray to be had. A program that has called `ray.init` itself keeps its Ray.
    """
    connection = Connection.of(Ray(address=address))
    try:
        yield connection.ray
    finally:
        connection.close()


class RayTasks:
    """Runs that are tasks of Ray, and a thread for each that looks whether it has ended."""

    def __init__(
        self, sweep: SweepFolder, ray: Any, at_once: int | None, gpus_per_run: float, modules: Sequence[str]
    ) -> None:
        """`at_once`: None for as many as the cluster has room for; `gpus_per_run`: 0 for one core each."""
        self._sweep, self._ray, self._modules, self._gpus = sweep, ray, list(modules), gpus_per_run
        self.at_once = room(ray.cluster_resources(), gpus_per_run) if at_once is None else at_once
        self._tasks: dict[str, Any] = {}
        share = max(1, round(1 / gpus_per_run)) if 0 < gpus_per_run < 1 else 1
        environment = environment_for(share, ONE_CORE if gpus_per_run == 0 else {})
        if path := os.environ.get("PYTHONPATH"):
            environment["PYTHONPATH"] = path
        self._run = ray.remote(run_task).options(
            num_cpus=1 if gpus_per_run == 0 else 0,
            num_gpus=gpus_per_run,
            max_retries=0,
            runtime_env={"env_vars": environment},
        )

    def begin(self, case: SettledCase, heard: Heard) -> None:
        folder, here = str(self._sweep.path.resolve()), str(Path.cwd())
        self._tasks[case.name] = self._run.remote(folder, case.name, self._modules, here, identity())
        threading.Thread(target=self._follow, args=(case, self._tasks[case.name], heard), daemon=True).start()

    def ended(self, case: SettledCase) -> None:
        task = self._tasks.pop(case.name)
        try:
            self._ray.get(task)
        except self._ray.exceptions.TaskCancelledError:
            return
        except Exception as error:
            found = mistake_in(error)
            problem = f"Its task of Ray ended with {type(error).__name__}." if found is None else found.sentence
            self._sweep.write_notes(case, seconds=0.0, problem=problem)

    def stop(self) -> None:
        for task in self._tasks.values():
            self._ray.cancel(task, force=False)

    def kill(self) -> None:
        for task in self._tasks.values():
            self._ray.cancel(task, force=True)

    def _follow(self, case: SettledCase, task: Any, heard: Heard) -> None:
        """Pass on what the run's folder shows until the task has ended."""
        path, told = self._sweep.run_path(case) / "metrics.jsonl", -1
        ended = False
        while not ended:
            ended = bool(self._ray.wait([task], timeout=LOOK)[0])
            for record in read_metrics(path) if path.exists() else ():
                if record["round"] > told:
                    told = record["round"]
                    metrics = {name: value for name, value in record.items() if name != "round"}
                    heard.put((case, {"kind": "evaluation", "round": told, "metrics": metrics}))
        heard.put((case, None))


def require_one_list(cases: Iterable[SettledCase], ray: Any) -> None:
    """RecipeError if several machines would each have a copy of a store, and with it a list of the runs on its users."""
    stores = (case.recipe.data.store for case in cases)
    urls = {store for store in stores if store is not None and is_url(store)}
    if urls and len([node for node in ray.nodes() if node["Alive"]]) > 1:
        raise RecipeError(
            f"Expected stores in folders that all machines see, got {', '.join(sorted(urls))}: each machine would have a list "
            "of its own of the runs on these people."
        )


def room(resources: Mapping[str, float], gpus_per_run: float) -> int:
    """How many runs a cluster has room for; RecipeError for none."""
    found = int(resources.get("GPU", 0) / gpus_per_run) if gpus_per_run else int(resources.get("CPU", 0))
    if found < 1:
        what = f"{gpus_per_run:g} {'GPUs' if gpus_per_run > 1 else 'GPU'}" if gpus_per_run else "one core"
        raise RecipeError(f"The Ray cluster has no room for a run with {what}.")
    return found


def run_task(folder: str, name: str, modules: list[str], here: str, code: Identity) -> int:
    """What a task does: train one case, from the folder in which the sweep was started.

    WorkerError if this machine runs other code than the process that runs the sweep, or does not see its folders.
    """
    host = socket.gethostname()
    if (difference := code.difference(identity())) is not None:
        package, there, found = difference
        raise WorkerError(
            f"Expected {package} {there} on the machine {host}, as where the sweep was started, got {found}."
        )
    if not is_sweep(Path(folder)):
        raise WorkerError(
            f"The machine {host} does not see the sweep {folder}: every machine needs it under the same path."
        )
    try:
        os.chdir(here)
    except OSError:
        raise WorkerError(
            f"The machine {host} has no folder {here}: every machine needs the one from which the sweep was started."
        ) from None
    return run_named(Path(folder), name, modules, lambda event: None)
