"""Real workers on Ray: killed, frozen, of another version, without the store; and the driver killed."""

from __future__ import annotations

import dataclasses
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tacit
from tacit.errors import StoreError, WorkerError
from tacit.learning.batches import TextBatches
from tacit.learning.next_word import NextWord
from tacit.learning.work import FedAvg, LocalWork
from tacit.privacy.record.ledger import read_ledger
from tacit.recipe.engine import Ray
from tacit.recipe.training import on_engine
from tacit.runs.callbacks import Callback, WorkersReport
from tacit.simulation.ray import pool
from tacit.simulation.ray.pool import RayPool
from tacit.simulation.ray.users import RayUsers
from tacit.simulation.training import resume_run, start_run
from tests.support.inline_pool import run_inline
from tests.support.ray_faults import cluster, run_with_kills
from tests.support.run_arrays import assert_same_arrays
from tests.support.tiny_recipe import tiny

pytest.importorskip("ray")
pytestmark = pytest.mark.process


@pytest.fixture(scope="module")
def nodes() -> Iterator[Any]:
    """A cluster of two nodes with room for a worker each, to which this process belongs: starting one takes long."""
    with cluster() as found:
        found.connect()
        yield found


@pytest.fixture(autouse=True)
def own_cache(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


@pytest.mark.slow
def test_killed_workers_and_nodes_change_neither_model_nor_ledger(nodes: Any, tmp_path: Path) -> None:
    killer = run_with_kills(nodes, tmp_path, kills=3, nodes=1, rounds=6)
    assert killer.killed == {"worker": 2, "node": 1}


class Watched(Callback):
    """Remembers what was said of workers."""

    def __init__(self) -> None:
        self.reports: list[WorkersReport] = []

    def on_workers(self, report: WorkersReport) -> None:
        self.reports.append(report)


def test_a_frozen_worker_is_given_up_and_the_run_gives_the_same_bytes_as_with_one_worker(
    nodes: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is frozen for good when it has a piece. Its time is over at once; on a busy machine any short time is too short."""
    recipe = tiny(run={"rounds": 3, "seed": 5})
    run_inline(recipe, tmp_path / "whole")
    frozen = []

    def freezing(self: RayPool, *given: object, **named: object) -> None:
        plain(self, *given, **named)  # type: ignore[arg-type]
        if not frozen and self._members:
            member = self._members[0]
            if member.done:
                frozen.append(member.about.pid)
                os.kill(member.about.pid, signal.SIGSTOP)
        for member in self._members:
            if member.about.pid in frozen:
                member.since = -1e9

    plain = RayPool._hand_out
    monkeypatch.setattr(RayPool, "_hand_out", freezing)
    watched = Watched()
    start_run(on_engine(recipe, Ray(workers=2, pieces=3)), tmp_path / "frozen", watched)
    assert frozen
    assert watched.reports[-1].lost == 1
    assert_same_arrays(tmp_path / "whole", tmp_path / "frozen")
    assert len(read_ledger(tmp_path / "frozen" / "ledger.jsonl").intents) == 3


DRIVER = """
import json
import os
import signal
import sys
from pathlib import Path
import tacit
from tacit.recipe.engine import Ray
from tacit.recipe.training import on_engine
from tacit.simulation.ray.pool import RayPool
from tacit.simulation.ray.worker import PieceTask
from tacit.simulation.training import start_run
from tests.support.ray_faults import descendants
from tests.support.tiny_recipe import tiny
rounds, plain = [], RayPool.do
def dying(self, tasks, fetch):
    rounds.extend(tasks[:1] if isinstance(tasks[0], PieceTask) else [])
    for done in plain(self, tasks, fetch):
        yield done
        if len(rounds) == 3:
            print(json.dumps(sorted(descendants(os.getpid()))), flush=True)
            os.kill(os.getpid(), signal.SIGKILL)
RayPool.do = dying
start_run(on_engine(tiny(run={"rounds": 6, "seed": 5}), Ray(workers=1, pieces=3)), Path(sys.argv[1]), tacit.Callback())
"""


def test_a_killed_driver_leaves_no_process_and_its_run_goes_on_with_another_ray(nodes: Any, tmp_path: Path) -> None:
    """It is killed within its third round, when one piece of it has come back."""
    out = tmp_path / "killed"
    command = [sys.executable, "-c", DRIVER, str(out)]
    ended = subprocess.run(command, cwd=Path(__file__).parents[3], stdout=subprocess.PIPE, check=False)
    assert ended.returncode == -signal.SIGKILL
    started = set(json.loads(ended.stdout.splitlines()[-1]))
    assert len(started) > 3
    assert len(read_ledger(out / "ledger.jsonl").intents) == 3
    until = time.monotonic() + 300
    while _of_ray(started) and time.monotonic() < until:
        time.sleep(0.1)
    assert not _of_ray(started)
    run_inline(tiny(run={"rounds": 6, "seed": 5}), tmp_path / "whole")
    resume_run(out, Callback())
    assert_same_arrays(tmp_path / "whole", out)


def test_a_worker_with_another_tacit_is_refused_and_no_run_is_left(
    nodes: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    here = pool.identity()
    monkeypatch.setattr(pool, "identity", lambda: dataclasses.replace(here, jax="9.9"))
    with pytest.raises(WorkerError, match=rf"Expected jax 9\.9 on the worker .*, as on this machine, got {here.jax}"):
        tacit.train(recipe=tiny(), engine=tacit.Ray(workers=1), out=tmp_path / "run")
    assert not (tmp_path / "run").exists()


class OnlyHere:
    """Users whom other processes cannot read: what they say is raised there, when users are read or when they arrive."""

    def __init__(self, users: tacit.MemoryUsers, says: Exception, *, arrives: bool) -> None:
        self._users, self._says, self._arrives, self._at = users, says, arrives, os.getpid()

    def __reduce__(self) -> tuple[Any, ...]:
        return (_arrived if self._arrives else _raised), (self._users, self._says)

    def __len__(self) -> int:
        return len(self._users)

    def gather(self, users: np.ndarray) -> object:
        if os.getpid() != self._at:
            raise self._says
        return self._users.gather(users)

    def names(self, users: np.ndarray) -> object:
        return self._users.names(users)


def _arrived(users: tacit.MemoryUsers, says: Exception) -> OnlyHere:
    found = OnlyHere(users, says, arrives=True)
    found._at = 0
    return found


def _raised(users: tacit.MemoryUsers, says: Exception) -> OnlyHere:
    raise says


@pytest.mark.parametrize(
    ("says", "arrives", "sentence"),
    [
        (tacit.TacitError("There is no store."), True, r"^The worker .* cannot read the users: There is no store\.$"),
        (StoreError("There is no store."), False, r"^The worker .* cannot read the users: There is no store\.$"),
        (MemoryError(), True, r"^The worker .* has too little memory for cpu work on a chunk of users\.$"),
        (
            ModuleNotFoundError("No module named 'mine'"),
            False,
            r"^The worker .* cannot import what the users or the work are made of: .*No module named 'mine'\.$",
        ),
    ],
    ids=["a store that cannot be read", "a store that is not there", "memory", "a module that is not there"],
)
def test_what_a_worker_cannot_get_is_told(nodes: Any, says: Exception, arrives: bool, sentence: str) -> None:
    people = tacit.users({f"user {number}": ["you"] for number in range(4)}, vocabulary=["you"])
    users = OnlyHere(people, says, arrives=arrives)
    work = LocalWork(FedAvg(), NextWord())
    shape = TextBatches("windows", 3, 2, 3)
    engine = RayUsers(users, work, tiny().privacy, shape, settings=Ray(workers=1), parameters=10)  # type: ignore[arg-type]
    with pytest.raises(WorkerError, match=sentence):
        engine.open()


def _of_ray(processes: set[int]) -> set[int]:
    """Those of these processes that are the server of a cluster, a node or a worker; a node's agents take a minute to end."""
    found = set()
    for process in processes:
        with suppress(OSError):
            line = Path(f"/proc/{process}/cmdline").read_bytes()
            worker = line.startswith(b"ray::") and b"Agent" not in line
            if worker or b"gcs/gcs_server" in line or b"raylet/raylet" in line:
                found.add(process)
    return found
