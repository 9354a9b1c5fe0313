"""`tacit data shard`: cut a store into shards for the disks of several machines."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from tacit.cli.data_files import progress_bar
from tacit.cli.options import Json
from tacit.cli.results import emit
from tacit.cli.results.data import ShardResult
from tacit.data.sharded import ShardedStore, folder_of
from tacit.data.sharding import cut_into_shards
from tacit.data.store import open_store
from tacit.data.summary import NOT_COVERED


def shard(
    store: Annotated[Path, typer.Argument(help="A store that `tacit data import` made.")],
    shards: Annotated[int, typer.Option("--shards", metavar="N", help="How many shards: one a machine, or more.")],
    out: Annotated[Path, typer.Option("--out", help="The sharded store to make: a new folder.")],
    as_json: Json = False,
) -> None:
    """Cut a store into shards for the disks of several machines.

    `tacit train --engine ray` then trains each user on a machine that has their shard.
    Users keep their names, so the same people are held out as in the store that was cut.

    Example: tacit data shard stores/mine --shards 4 --out stores/mine-sharded
    """
    with progress_bar() as progress:
        made = cut_into_shards(open_store(store), out, shards, progress=progress)
    rows = [_row(made, number) for number in range(made.shards + 1)]
    if as_json:
        shown = {"store": str(made.path), "store_id": made.store_id, "shards": rows[:-1], "held_out": rows[-1]}
        emit(ShardResult, shown)
        return
    console = Console()
    title = f"[bold]{escape(str(made.path))}[/]: {len(made):,} users in {made.shards} shards"
    console.print(title, highlight=False, soft_wrap=True)
    table = Table(box=None, pad_edge=False)
    table.add_column("")
    for name in ("users", "examples", "MB"):
        table.add_column(name, justify="right")
    for row in rows:
        table.add_row(row["folder"], f"{row['users']:,}", f"{row['examples']:,}", f"{row['bytes'] / 1e6:,.1f}")
    console.print(table)
    console.print(
        f"Copy the folder to every machine under the same path, {made.path.resolve()}, with the shards that the machine is to "
        "train. The machine on which you start training needs shard-held-out.",
        highlight=False,
        soft_wrap=True,
        markup=False,
    )
    console.print(NOT_COVERED)


def _row(store: ShardedStore, number: int) -> dict[str, Any]:
    name = folder_of(number, store.shards)
    found = open_store(store.path / name)
    size = sum(file.stat().st_size for file in found.path.iterdir())
    return {"folder": name, "users": len(found), "examples": found.info.examples, "bytes": size}
