"""The odometer of a store: every run that read its users, whatever became of the run.

Composition only holds if no run is forgotten, tuning runs and failed ones least of all. So a run enters itself here before its
ledger is begun, and the list lies in the store's own folder, where it does not depend on run folders staying where they
are. (A world is generated, has no people in it, and keeps none.)

``odometer.jsonl``, mode 0600: one line a run, canonical JSON, each with the digest of the line before it and its own. A
changed, missing or moved line is reported with its number. A last line without its end was cut short by a crash inside
`register`, so its run never began: the next run cuts it off.

A run that is listed and released nothing costs nothing. A run that is listed and not found makes the total unknown.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path

from tacit.errors import RunError
from tacit.privacy.durable import append_synced, disk_error, sync_folder
from tacit.privacy.participation_record import refuse_if_others_can_read
from tacit.privacy.records import canonical

NAME = "odometer.jsonl"
_BEFORE_THE_FIRST = "0" * 64


@dataclass(frozen=True)
class Entry:
    """A run on this store: its id, where its folder was, when it registered, and whether it meant to claim privacy."""

    run_id: str
    path: str
    registered: str
    claims_privacy: bool


def register(store: Path, *, run_id: str, run: Path, claims_privacy: bool) -> None:
    """Enter a run; when this returns, the line is on disk. Again from where it was last: nothing to do.

    A run that was moved, or moved back, is entered again, with where it is now. RunError if the list cannot be written, is
    damaged, or may be read by others: then the run must not begin.
    """
    place = str(run.resolve())
    with _locked(store / NAME) as descriptor:
        whole, entries, head = _scan(store / NAME)
        last = next((each for each in reversed(entries) if each.run_id == run_id), None)
        if last is not None and (last.path, last.claims_privacy) == (place, claims_privacy):
            return
        now = datetime.now(UTC).isoformat(timespec="seconds")
        content = asdict(Entry(run_id, place, now, claims_privacy)) | {"previous": head}
        line = canonical(content | {"digest": _digest(content)}) + b"\n"
        try:
            os.ftruncate(descriptor, whole)
            append_synced(descriptor, line)
        except OSError as error:
            raise disk_error(error, store / NAME, "the run was not begun") from error


def read(store: Path) -> list[Entry]:
    """Every entry, oldest first; a run that was moved is there more than once. No list is an empty one."""
    return _scan(store / NAME)[1]


def runs_of(store: Path) -> dict[str, list[Entry]]:
    """The entries of each run, by run id, in the order in which runs registered first."""
    found: dict[str, list[Entry]] = {}
    for entry in read(store):
        found.setdefault(entry.run_id, []).append(entry)
    return found


@contextmanager
def _locked(path: Path) -> Iterator[int]:
    """The list, open for adding to it, by this process alone."""
    new = not path.exists()
    try:
        descriptor = os.open(path, os.O_RDWR | os.O_APPEND | os.O_CREAT, 0o600)
    except OSError as error:
        raise disk_error(error, path, "the run was not begun") from error
    try:
        refuse_if_others_can_read(path)
        fcntl.flock(descriptor, fcntl.LOCK_EX)  # held for the time of one line
        if new:
            sync_folder(path.parent)
        yield descriptor
    finally:
        os.close(descriptor)


def _scan(path: Path) -> tuple[int, list[Entry], str]:
    """How many bytes are whole lines, their entries, and the last one's digest."""
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        return 0, [], _BEFORE_THE_FIRST
    except OSError as error:
        raise RunError(f"Cannot read {path} ({error.strerror}): its owner alone can.") from error
    whole = data.rfind(b"\n") + 1
    entries: list[Entry] = []
    head = _BEFORE_THE_FIRST
    for number, line in enumerate(data[:whole].split(b"\n")[:-1], start=1):
        try:
            content = json.loads(line)
            digest, previous = content.pop("digest"), content["previous"]
            if canonical(content | {"digest": digest}) != line or digest != _digest(content) or previous != head:
                raise ValueError
            entries.append(Entry(**{name: value for name, value in content.items() if name != "previous"}))
        except (ValueError, TypeError, KeyError, AttributeError):
            raise RunError(
                f"The odometer {path} is damaged at line {number}: it was changed, or a line before it is missing."
            ) from None
        head = digest
    return whole, entries, head


def _digest(content: dict[str, object]) -> str:
    return hashlib.sha256(canonical(content)).hexdigest()
