"""Cut a store into shards for the disks of several machines; see `tacit.data.sharded` for what is written."""

from __future__ import annotations

import shutil
from contextlib import ExitStack
from pathlib import Path

import numpy as np

from tacit.data.build import OffsetFile, Progress, no_progress, save_users, write_info
from tacit.data.folders import new_folder
from tacit.data.sharded import ITEM_OFFSETS, MOST_SHARDS, ShardedStore, folder_of, shard_of
from tacit.data.store import BUDGET, RUNS, VOCABULARY, Store, open_store
from tacit.data.users import all_names
from tacit.data.views import Subset
from tacit.errors import DataError


def cut_into_shards(store: Store, out: Path, shards: int, *, progress: Progress = no_progress) -> ShardedStore:
    """The same users under the same names and numbers, in so many shards, with the list of the runs on them and their account.

    The store itself stays as it is. Nothing is left if it fails.
    """
    if not 1 <= shards <= MOST_SHARDS:
        raise DataError(f"Expected from 1 to {MOST_SHARDS:,} shards, got {shards}.")
    if store.info.shards is not None:
        raise DataError(f"The store {store.path} lies in {store.info.shards} shards already.")
    where = shard_of(all_names(store), shards, store.info.held_out)
    with new_folder(out) as folder:
        with ExitStack() as files:
            for name, counts in (
                ("user_offsets", store.example_counts()),
                (ITEM_OFFSETS, store.token_counts()),
            ):
                files.enter_context(OffsetFile(folder, name)).append(counts)
        for name in ("users.bin", VOCABULARY, RUNS):
            if (store.path / name).exists():
                shutil.copy2(store.path / name, folder / name)
        if (store.path / BUDGET).exists():  # the same people: both stores draw from one account
            (folder / BUDGET).symlink_to((store.path / BUDGET).resolve())
        for shard in range(shards + 1):
            members = Subset(store, np.flatnonzero(where == shard))
            save_users(
                members,
                folder / folder_of(shard, shards),
                source="; ".join(store.info.sources),
                vocabulary=store.vocabulary,
                held_out=store.info.held_out,
                keep_names=True,
                store_id=store.store_id,
                texts=None if store.info.text_bytes is None else members.texts,
            )
            progress("writing shards", shard + 1, shards + 1)
        write_info(folder, store.info.model_copy(update={"shards": shards}))
    found = open_store(out)
    assert isinstance(found, ShardedStore)
    return found
