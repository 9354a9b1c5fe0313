"""A run on several Ray nodes of this machine, whose workers and nodes are killed at random moments.

The tests do it with a few kills. With many, and more rounds to be killed in:

    python -m tests.support.ray_faults --kills 30 --rounds 40
"""

from __future__ import annotations

import argparse
import json
import os
import random
import signal
import tempfile
import threading
import time
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import numpy as np

from tests.support.run_arrays import assert_same_arrays
from tests.support.tiny_recipe import tiny

NODES = 2


@contextmanager
def cluster(nodes: int = NODES) -> Iterator[Any]:
    """A head without room for workers, and nodes with room for one each."""
    from tacit.simulation.ray.connection import NO_TOKENS, TOKEN_MODE, import_ray, on_loopback, set_token_mode

    # Nodes are started by this process, which has used JAX by then; each is a program of its own at once.
    warnings.filterwarnings("ignore", message=r"os\.fork\(\) was called", category=RuntimeWarning)
    ray = import_ray()
    from ray.cluster_utils import Cluster

    before = os.environ.get(TOKEN_MODE)
    set_token_mode(NO_TOKENS)
    small = {"object_store_memory": 100 << 20, "include_dashboard": False}
    with on_loopback():
        found = Cluster(initialize_head=True, head_node_args={"num_cpus": 0, **small})
        try:
            for _ in range(nodes):
                found.add_node(num_cpus=1, object_store_memory=100 << 20)
            yield found
        finally:
            with suppress(Exception):
                ray.shutdown()
            found.shutdown()
            set_token_mode(before)


def descendants(root: int) -> set[int]:
    """A process and all that it has started."""
    parents = {}
    for folder in Path("/proc").iterdir():
        with suppress(OSError, ValueError):
            parents[int(folder.name)] = int((folder / "stat").read_text().rsplit(")", 1)[1].split()[1])
    found, before = {root}, 0
    while len(found) != before:
        before = len(found)
        found |= {process for process, parent in parents.items() if parent in found}
    return found


def workers_of(nodes: Any) -> list[tuple[Any, int]]:
    """The worker processes under the raylets of these nodes, each with its node."""
    parents = {each.process.pid: node for node in nodes for each in node.all_processes.get("raylet", [])}
    found = []
    for folder in Path("/proc").iterdir():
        with suppress(OSError, ValueError, IndexError):
            pid = int(folder.name)
            parent = int((folder / "stat").read_text().rsplit(")", 1)[1].split()[1])
            if parent in parents and (folder / "cmdline").read_bytes().startswith(b"ray::Worker"):
                found.append((parents[parent], pid))
    return found


class Killer:
    """Kills a worker, or a whole node, at a random moment of each of these rounds; a killed node is replaced by a new one.

    `around` goes around an engine's `collect`. A round ends no sooner than its kill has happened, which may be just after it.
    """

    def __init__(self, cluster: Any, kinds: dict[int, str], seconds: float, seed: int) -> None:
        self._cluster, self._kinds, self._seconds = cluster, kinds, seconds
        self._random = random.Random(seed)
        self.killed: Counter[str] = Counter()
        self.in_a_round = 0

    def around(self, collect: Callable[..., Any]) -> Callable[..., Any]:
        def killing(engine: Any, broadcast: Any, cohort: Any, *others: Any, **named: Any) -> Any:
            kind = self._kinds.get(cohort.round)
            if kind is None:
                return collect(engine, broadcast, cohort, *others, **named)
            training = threading.Event()
            thread = threading.Thread(target=self._kill, args=(kind, self._random.uniform(0, self._seconds), training))
            training.set()
            thread.start()
            try:
                return collect(engine, broadcast, cohort, *others, **named)
            finally:
                training.clear()
                thread.join()
                if kind == "node":
                    self._cluster.add_node(num_cpus=1, object_store_memory=100 << 20)

        return killing

    def _kill(self, kind: str, delay: float, training: threading.Event) -> None:
        time.sleep(delay)
        while not (there := workers_of(self._cluster.worker_nodes)):
            time.sleep(0.01)
        node, pid = self._random.choice(there)
        self.in_a_round += training.is_set()
        if kind == "node":
            self._cluster.remove_node(node, allow_graceful=False)
        else:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        self.killed[kind] += 1


def run_with_kills(nodes_of_ray: Any, folder: Path, *, kills: int, nodes: int, rounds: int, seed: int = 1) -> Killer:
    """Train a seeded recipe on this cluster, undisturbed and with kills, and compare all that there is; who was killed."""
    from tacit.recipe.engine import Ray
    from tacit.recipe.training import on_engine
    from tacit.runs.callbacks import Callback
    from tacit.simulation.ray.users import RayUsers
    from tacit.simulation.training import start_run

    recipe = tiny(
        run={"rounds": rounds, "seed": 5, "evaluate_every": rounds},
        privacy={"cohort": 60},
        data={"tokens_per_user": 400},
        work={"epochs": 8},
    )
    recipe = on_engine(recipe, Ray(address="auto", workers=NODES, pieces=8))
    chance, collect = random.Random(seed), RayUsers.collect
    kinds = ["node"] * nodes + ["worker"] * (kills - nodes)
    chance.shuffle(kinds)
    start_run(recipe, folder / "whole", Callback())
    seconds = seconds_a_round(folder / "whole")
    killer = Killer(nodes_of_ray, dict(zip(chance.sample(range(rounds), kills), kinds, strict=True)), seconds, seed)
    RayUsers.collect = killer.around(collect)  # type: ignore[method-assign]
    try:
        start_run(recipe, folder / "killed", Callback())
    finally:
        RayUsers.collect = collect  # type: ignore[method-assign]
    assert_same_arrays(folder / "whole", folder / "killed")
    whole, killed = (intents(folder / name) for name in ("whole", "killed"))
    assert whole == killed
    assert len(killed) == rounds
    return killer


def seconds_a_round(run: Path) -> float:
    """The median time of a round."""
    ends = [json.loads(line)["seconds"] for line in (run / "private" / "diagnostics.jsonl").read_text().splitlines()]
    return float(np.median(np.diff(ends)))


def intents(run: Path) -> list[Any]:
    """What a run's ledger says of its rounds, without the digests, in which each run's own secrets are."""
    from tacit.privacy.record.ledger import read_ledger

    return [
        (each.round, each.attempt, dict(each.blocks), each.denominator)
        for each in read_ledger(run / "ledger.jsonl").intents
    ]


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--kills", type=int, default=30)
    parser.add_argument("--nodes", type=int, default=8, help="how many of the kills are of whole nodes")
    parser.add_argument("--rounds", type=int, default=40)
    given = parser.parse_args()
    began = time.monotonic()
    with tempfile.TemporaryDirectory() as place:
        os.environ["XDG_CACHE_HOME"] = f"{place}/cache"
        with cluster() as there:
            there.connect()
            found = run_with_kills(there, Path(place), kills=given.kills, nodes=given.nodes, rounds=given.rounds)
    print(
        f"killed {dict(found.killed)} in {given.rounds} rounds, {found.in_a_round} of them while users were trained: "
        f"the same model and ledger, {time.monotonic() - began:.0f} s"
    )
