"""Users whose text lies in shards are trained where it lies, and the model is that of the store that was cut."""

from __future__ import annotations

import os
import pickle
import shutil
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tacit
from tacit.data.build import save_users
from tacit.data.sharded import ShardedStore
from tacit.data.sharding import cut_into_shards
from tacit.data.store import open_store
from tacit.data.views import Subset
from tacit.errors import StoreError, WorkerError
from tacit.recipe.engine import Ray
from tacit.recipe.training import Recipe, on_engine
from tacit.runs.callbacks import Callback
from tacit.simulation.ray.pool import RayPool
from tacit.simulation.training import start_run
from tacit.training import datasets
from tests.support.inline_pool import InlinePool, run_inline
from tests.support.ray_faults import cluster
from tests.support.run_arrays import assert_same_arrays, final_arrays
from tests.support.sharded_nodes import copy_for_node, on_nodes
from tests.support.tiny_recipe import tiny

SHARDS = 2


@pytest.fixture(autouse=True)
def own_cache(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


@pytest.fixture(scope="module")
def stores(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the store `whole` and the same users in `cut`."""
    folder = tmp_path_factory.mktemp("stores")
    world = tacit.KeyboardWorld(1, 440, vocabulary_size=300)
    words = tacit.Vocabulary(world.words[4:], "word list: of the world")
    save_users(Subset(world, np.arange(440)), folder / "whole", source="made up", vocabulary=words, held_out=0.05)
    cut_into_shards(open_store(folder / "whole"), folder / "cut", SHARDS)
    return folder


def recipe_of(store: Path, **sections: Any) -> Recipe:
    data = {"world": None, "store": str(store), "users": 1, "length": 6, "tokens_per_user": 24, "held_out": 8}
    given = tiny(**sections).model_dump(mode="json", exclude_none=True)
    given["data"] = {key: value for key, value in data.items() if key not in ("world", "users")}
    return Recipe.model_validate(given)


def test_the_model_is_that_of_the_store_that_was_cut_with_any_number_of_workers(stores: Path, tmp_path: Path) -> None:
    same = {"run": {"seed": 3, "rounds": 2}}
    one, two = InlinePool(1), InlinePool(2, lambda done: done[::-1])
    run_inline(recipe_of(stores / "whole", **same), tmp_path / "whole", InlinePool(2), pieces=5)
    run_inline(recipe_of(stores / "cut", **same), tmp_path / "one", one, pieces=5)
    run_inline(recipe_of(stores / "cut", **same), tmp_path / "two", two, pieces=5)
    assert_same_arrays(tmp_path / "one", tmp_path / "two")
    whole, cut = final_arrays(tmp_path / "whole"), final_arrays(tmp_path / "one")
    for name in whole:
        np.testing.assert_allclose(cut[name], whole[name], atol=1e-6, rtol=1e-6)
    assert {pickle.loads(task).shard for task in one.tasks[:-1]} == {0, 1}  # the last one is the audit's canaries


def test_the_built_in_engine_needs_all_shards(stores: Path, tmp_path: Path) -> None:
    start_run(recipe_of(stores / "cut", run={"rounds": 1}), tmp_path / "run", Callback())
    part = shutil.copytree(stores / "cut", tmp_path / "part", ignore=shutil.ignore_patterns("shard-1"))
    with pytest.raises(StoreError, match="shard-1 is not on this machine"):
        start_run(recipe_of(Path(part), run={"rounds": 1}), tmp_path / "other", Callback())
    assert not (tmp_path / "other").exists()


def test_the_whole_protocol_of_secure_sums_needs_one_worker(stores: Path, tmp_path: Path) -> None:
    privacy = {
        "sampling": "check_in",
        "min_separation": 3,
        "max_participation": 2,
        "mechanism": "blt",
        "noise_multiplier": 4.0,
        "secagg": {"bits": 26, "protocol": True},
    }
    recipe = recipe_of(stores / "cut", privacy=privacy)
    with pytest.raises(WorkerError, match=r"in one worker, and the store .* lies in shards\."):
        run_inline(recipe, tmp_path / "run", InlinePool(2))


class Lost(Callback):
    """Kills a worker when it hears of the first round, and counts those who were lost."""

    def __init__(self, pool: list[RayPool]) -> None:
        self.pool, self.lost, self.killed = pool, 0, 0

    def on_workers(self, report: Any) -> None:
        self.lost = report.lost
        if not self.killed:
            self.killed = next(each for each in self.pool[0]._members if each.has(1)).about.pid
            os.kill(self.killed, signal.SIGKILL)


@pytest.fixture
def nodes(stores: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """Two nodes, each with a copy of the store that has one shard. Room is on the first node for one more worker."""
    store = open_store(stores / "cut")
    assert isinstance(store, ShardedStore)
    here = shutil.copytree(store.path, tmp_path / "driver", ignore=shutil.ignore_patterns("shard-[0-9]*"))
    monkeypatch.setattr(datasets, "open_store", lambda path: on_nodes(Path(path)))
    with cluster(nodes=0) as found:
        for shard, room in ((0, 2), (1, 1)):
            named = copy_for_node(store, tmp_path / f"node{shard}", {shard})
            found.last = found.add_node(num_cpus=room, object_store_memory=100 << 20, env_vars=named)
        found.connect()
        found.folder = Path(here)
        yield found


@pytest.mark.slow
@pytest.mark.process
def test_each_machine_trains_the_users_whose_shard_it_has(
    stores: Path, tmp_path: Path, nodes: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A worker that is killed comes back where its shard is; with its machine gone, the run stops with one sentence."""
    pytest.importorskip("ray")
    pools: list[RayPool] = []
    plain = RayPool.open

    def opened(pool: RayPool) -> Any:
        pools.insert(0, pool)
        return plain(pool)

    monkeypatch.setattr(RayPool, "open", opened)
    ray = Ray(address="auto", workers=2, pieces=5)
    recipe = recipe_of(nodes.folder, run={"seed": 3, "rounds": 3})
    watched = Lost(pools)
    start_run(on_engine(recipe, ray), tmp_path / "run", watched)
    assert watched.killed
    assert watched.lost == 1
    whole = recipe_of(stores / "cut", run={"seed": 3, "rounds": 3})
    run_inline(whole, tmp_path / "inline", InlinePool(1), pieces=5)
    assert_same_arrays(tmp_path / "inline", tmp_path / "run")

    nodes.remove_node(nodes.last, allow_graceful=False)
    with pytest.raises(WorkerError, match=r"No worker has shard 1 of the store\."):
        start_run(on_engine(recipe, ray), tmp_path / "other", Callback())
    assert not (tmp_path / "other").exists()
