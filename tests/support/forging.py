"""A forger who knows the format: edits a run's ledger, its recipe or its checkpoints, and makes every digest fit again."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tacit.privacy.record.records import canonical
from tacit.runs import checkpoints
from tacit.runs.folder import RunFolder

Records = list[dict[str, Any]]


def records_of(run: Path) -> Records:
    """The ledger's records as plain JSON, without their places in the chain."""
    found = [json.loads(line) for line in (run / "ledger.jsonl").read_bytes().splitlines()]
    return [{k: v for k, v in each.items() if k not in ("seq", "previous", "digest")} for each in found]


def write_records(run: Path, records: Records) -> list[str]:
    """Write them as a ledger whose chain is whole; the digest of each."""
    previous, digests, lines = "0" * 64, [], []
    for seq, record in enumerate(records):
        content = record | {"seq": seq, "previous": previous}
        previous = hashlib.sha256(canonical(content)).hexdigest()
        lines.append(canonical(content | {"digest": previous}) + b"\n")
        digests.append(previous)
    (run / "ledger.jsonl").write_bytes(b"".join(lines))
    return digests


def forge(run: Path, edit: Callable[[Records], Any]) -> None:
    """Edit the records of the ledger, in place, and hash the chain again."""
    records = records_of(run)
    edit(records)
    write_records(run, records)


def in_every_intent(change: Callable[[dict[str, Any]], Any]) -> Callable[[Records], None]:
    """The same edit in each intent."""

    def edit(records: Records) -> None:
        for record in records:
            if record["kind"] == "intent":
                change(record)

    return edit


def forge_recipe(run: Path, before: str, after: str) -> None:
    """Edit the text of recipe.toml, and the digest of it in the ledger's first record."""
    path = run / "recipe.toml"
    text = path.read_text()
    assert before in text
    path.write_text(text.replace(before, after))
    digest = hashlib.sha256(path.read_bytes()).hexdigest()
    forge(run, lambda records: records[0].update(recipe=digest))


def forge_checkpoints(run: Path) -> None:
    """Bind the checkpoints that are there to the ledger as it is now, and its Committed records to them."""
    folder, records = RunFolder.open(run), records_of(run)
    opened = write_records(run, records)[0]
    there = checkpoints.rounds_kept(folder.checkpoints_path)
    for kept in [checkpoints.load(checkpoints.path_of(folder.checkpoints_path, round)) for round in there]:
        metadata = {name: opened if name == "opened" else value for name, value in kept.metadata.items()}
        digest = checkpoints.save(folder.checkpoints_path, kept.round, kept.arrays, metadata, keep_last=100)
        for record in records:
            if record["kind"] == "committed" and record["checkpoint"] == kept.digest:
                record["checkpoint"] = digest
    write_records(run, records)
