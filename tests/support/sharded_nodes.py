"""A store in shards as two machines have it: each Ray node of this machine sees a folder of its own, by its environment."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import Any

from tacit.data.sharded import ShardedStore
from tacit.data.store import open_store

# Names the folder in which a node's copy of the store lies.
NODE = "TACIT_TEST_NODE"


class OnNodes(ShardedStore):
    """The store, of which a process of a node opens that node's copy."""

    def __reduce__(self) -> tuple[Any, ...]:
        return _opened, (self.path,)


def _opened(path: Path) -> OnNodes:
    return on_nodes(Path(os.environ[NODE]) if NODE in os.environ else path)


def on_nodes(path: Path) -> OnNodes:
    found = open_store(path)
    assert isinstance(found, ShardedStore)
    return OnNodes(found.path, found.info, found.vocabulary)


def copy_for_node(store: ShardedStore, node: Path, shards: set[int]) -> dict[str, str]:
    """A node's copy, with these shards alone; returns the environment that names it."""
    shutil.copytree(store.path, node, ignore=shutil.ignore_patterns("shard-*"))
    for shard in shards:
        shutil.copytree(store.path / f"shard-{shard}", node / f"shard-{shard}")
    return {NODE: str(node)}
