"""The odometer of a store: a list of every run that read its users, whether or not it finished, and how far each run got.

Composition only holds if no run is left out, including tuning runs and failed ones. So a run enters itself here before its
ledger is begun, and the list is kept in the store's own folder, so that run folders may be moved. (A generated world has no
people in it and no odometer.)

``odometer.jsonl``, mode 0600: canonical JSON, one line an entry, each with the digest of the line before it and its own. A
changed, missing or moved line is reported with its number. A last line without its end was cut short by a crash while it was
added, so nothing depended on it: the next one cuts it off. There are three kinds of line:

    run     the run's id, where its folder was, when it registered, whether it meant to claim privacy
    head    the run's id, how many records its ledger had, and the digest of the last of them
    budget  how many lines the account of these people had when its budget was set, and the digest of the last (`runs.budget`)

**Branches.** Stop a run, copy its folder, finish it, restore the copy and finish that: two models were released, and each
ledger records only one of them. So the ledger's head is recorded here
- when the ledger is begun, and when a run resumes: before its first round,
- before a model is evaluated or saved: whatever is written of a round comes after the head that holds its intent,
- when the run ends.
A run may only go on with a ledger that **extends** every head recorded for it, that is, whose record number `length` has the
digest `head`. A ledger is always on disk before its head is recorded, so a crash in between leaves a ledger that is longer
than the list knows, and extends it. Of two branches, the one that resumes second lacks the first one's `Resumed` record and
is refused, whichever of the two is the copy. Two processes that resume at the same moment are told apart when they record: the
second finds a head that is not its own. `tacit account odometer` counts no run whose ledger does not extend its heads.

**What this cannot find.** If somebody restores the store's folder together with the run's, or works with a copy of both, the
list is restored too: a chain stays valid when lines are cut off its end. If a process was killed before any result of a round
was written, the round is in the ledger alone, and an older copy of the run folder does not have it.

A run that is listed and released nothing costs nothing. A run that is listed and not found makes the total unknown.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from tacit.data.store import RUNS
from tacit.errors import LedgerError, RunError
from tacit.files import append_synced, disk_error, refuse_if_others_can_read, sync_folder
from tacit.privacy.record.ledger import Ledger
from tacit.privacy.record.records import canonical

NAME = RUNS
_BEFORE_THE_FIRST = "0" * 64
_COPY = "The run was resumed from a copy of its folder: go on with that copy, and delete the others."


@dataclass(frozen=True)
class Entry:
    """A run on this store: its id, where its folder was, when it registered, and whether it meant to claim privacy."""

    run_id: str
    path: str
    registered: str
    claims_privacy: bool


@dataclass(frozen=True)
class Head:
    """How far a run's ledger had got: its number of records, and the digest of the last one."""

    run_id: str
    length: int
    head: str


@dataclass(frozen=True)
class BudgetHead:
    """How far the account of these people had got when its budget was set: its number of lines, and the digest of the last."""

    length: int
    head: str


Item = Entry | Head | BudgetHead
_KINDS: dict[str, type[Entry] | type[Head] | type[BudgetHead]] = {"run": Entry, "head": Head, "budget": BudgetHead}


@dataclass
class _Verified:
    """What the list holds as far as it was read: whole lines up to byte `size`, with the last one's digest."""

    size: int = 0
    lines: int = 0
    digest: str = _BEFORE_THE_FIRST
    entries: list[Entry] = field(default_factory=list)
    heads: dict[str, list[Head]] = field(default_factory=dict)
    budget: BudgetHead | None = None

    def last_entry(self, run_id: str) -> Entry | None:
        return next((each for each in reversed(self.entries) if each.run_id == run_id), None)

    def read(self, data: bytes, path: Path) -> None:
        """The lines that follow; RunError names the first that does not belong there. An incomplete last line is left out."""
        whole = data.rfind(b"\n") + 1
        for line in data[:whole].split(b"\n")[:-1]:
            try:
                content = json.loads(line)
                digest, previous = content.pop("digest"), content["previous"]
                if canonical(content | {"digest": digest}) != line or digest != _digest(content):
                    raise ValueError
                if previous != self.digest:
                    raise ValueError
                fields = {name: value for name, value in content.items() if name not in ("previous", "kind")}
                self.take(_KINDS[content["kind"]](**fields), len(line) + 1, digest)
            except (ValueError, TypeError, KeyError, AttributeError):
                raise RunError(
                    f"The odometer {path} is damaged at line {self.lines + 1}: it was changed, or a line before it is missing."
                ) from None

    def take(self, item: Item, size: int, digest: str) -> None:
        self.size, self.lines, self.digest = self.size + size, self.lines + 1, digest
        match item:
            case Entry():
                self.entries.append(item)
            case Head():
                self.heads.setdefault(item.run_id, []).append(item)
            case BudgetHead():
                self.budget = item


class Odometer:
    """The list of a store, open for adding. It reads again only the lines that others have added."""

    def __init__(self, store: Path) -> None:
        self.path = store / NAME
        self._verified = _Verified()
        self._ours: dict[str, Head] = {}  # of each run, the head that this process knows its ledger to hold

    def register(self, *, run_id: str, run: Path, claims_privacy: bool) -> None:
        """Enter a run; when this returns, the line is on disk. A run that is already listed in this place is not entered again.

        A run that was moved, or moved back, is entered again, with where it is now. RunError if the list cannot be written,
        is damaged, or may be read by others: then the run must not begin.
        """
        place = str(run.resolve())
        with self._locked() as descriptor:
            last = self._verified.last_entry(run_id)
            if last is None or (last.path, last.claims_privacy) != (place, claims_privacy):
                now = datetime.now(UTC).isoformat(timespec="seconds")
                self._append(descriptor, Entry(run_id, place, now, claims_privacy), "the run was not begun")

    def record_head(self, run_id: str, length: int, head: str) -> None:
        """Record how far the ledger of a run that is registered got; when this returns, the line is on disk.

        LedgerError if another process has recorded a head of the same run since `require_extended`: it went on from a copy.
        """
        with self._locked() as descriptor:
            if self._verified.last_entry(run_id) is None:
                raise RunError(f"The odometer {self.path} does not list the run {run_id}.")
            if self._known(run_id) != self._ours.get(run_id):
                raise LedgerError(
                    f"The run {run_id} goes on in another place, as the odometer {self.path} shows.", hint=_COPY
                )
            now = Head(run_id, length, head)
            if now != self._known(run_id):
                self._append(descriptor, now, "nothing of the last rounds was written")
            self._ours[run_id] = now

    def record_budget(self, length: int, head: str) -> None:
        """Record how far the account of these people got; when this returns, the line is on disk."""
        with self._locked() as descriptor:
            self._append(descriptor, BudgetHead(length, head), "the budget is set, and the odometer does not show it")

    def require_extended(self, ledger: Ledger) -> None:
        """LedgerError unless the ledger extends every head that is recorded for its run."""
        run_id = ledger.opened.run_id
        with self._locked():
            heads = self._verified.heads.get(run_id, [])
            if (objection := objection_to(ledger, heads, self.path)) is not None:
                raise LedgerError(f"{objection}.", hint=_COPY)
            if heads:
                self._ours[run_id] = heads[-1]

    def require_new(self, run_id: str) -> None:
        """LedgerError if the run has had a ledger before."""
        with self._locked():
            if self._known(run_id) is not None:
                raise LedgerError(
                    f"The run {run_id} has begun before, as the odometer {self.path} shows, but its ledger is not here."
                )

    def _known(self, run_id: str) -> Head | None:
        heads = self._verified.heads.get(run_id)
        return heads[-1] if heads else None

    @contextmanager
    def _locked(self) -> Iterator[int]:
        """The list, open for adding to it, by this process alone, and verified to its end."""
        new = not self.path.exists()
        try:
            descriptor = os.open(self.path, os.O_RDWR | os.O_APPEND | os.O_CREAT, 0o600)
        except OSError as error:
            raise disk_error(error, self.path, "the run was not begun") from error
        try:
            refuse_if_others_can_read(self.path)
            fcntl.flock(descriptor, fcntl.LOCK_EX)  # held for the time of one line
            if new:
                sync_folder(self.path.parent)
            if os.fstat(descriptor).st_size < self._verified.size:
                raise RunError(
                    f"The odometer {self.path} is damaged: lines were cut off its end while a run was going on."
                )
            self._verified.read(_read_from(descriptor, self._verified.size), self.path)
            yield descriptor
        finally:
            os.close(descriptor)

    def _append(self, descriptor: int, item: Item, kept: str) -> None:
        kind = next(name for name, each in _KINDS.items() if isinstance(item, each))
        content: dict[str, Any] = asdict(item) | {"kind": kind, "previous": self._verified.digest}
        digest = _digest(content)
        line = canonical(content | {"digest": digest}) + b"\n"
        try:
            os.ftruncate(descriptor, self._verified.size)
            append_synced(descriptor, line)
        except OSError as error:
            raise disk_error(error, self.path, kept) from error
        self._verified.take(item, len(line), digest)


def register(store: Path, *, run_id: str, run: Path, claims_privacy: bool) -> None:
    """Enter a run into a store's list; see `Odometer.register`."""
    Odometer(store).register(run_id=run_id, run=run, claims_privacy=claims_privacy)


def read(store: Path) -> list[Entry]:
    """Every entry, oldest first; a run that was moved is there more than once. No list is an empty one."""
    return _scan(store / NAME).entries


def runs_of(store: Path) -> dict[str, list[Entry]]:
    """The entries of each run, by run id, in the order in which runs registered first."""
    found: dict[str, list[Entry]] = {}
    for entry in read(store):
        found.setdefault(entry.run_id, []).append(entry)
    return found


def heads_of(store: Path) -> dict[str, list[Head]]:
    """The recorded heads of each run, by run id, oldest first."""
    return _scan(store / NAME).heads


def budget_head(store: Path) -> BudgetHead | None:
    """How far the account of these people had got when its budget was last set; None if none was."""
    return _scan(store / NAME).budget


def objection_to(ledger: Ledger, heads: Sequence[Head], where: Path) -> str | None:
    """Why this ledger is not the one whose heads are recorded in the list `where`, without a full stop; None if it is."""
    digests = ledger.digests()
    for known in heads:
        if known.length > len(digests) or digests[known.length - 1] != known.head:
            return (
                f"The ledger {ledger.path} is not the one that the odometer {where} knows: its {len(digests)} records do not "
                f"begin with the {known.length} that are recorded there"
            )
    return None


def _scan(path: Path) -> _Verified:
    """The whole list, verified from its first line."""
    found = _Verified()
    try:
        descriptor = os.open(path, os.O_RDONLY)
    except FileNotFoundError:
        return found
    except OSError as error:
        raise RunError(f"Cannot read {path} ({error.strerror}): its owner alone can.") from error
    try:
        found.read(_read_from(descriptor, 0), path)
    finally:
        os.close(descriptor)
    return found


def _read_from(descriptor: int, start: int) -> bytes:
    """What the file holds from this byte on."""
    parts, place = [], start
    while part := os.pread(descriptor, 1 << 20, place):
        parts.append(part)
        place += len(part)
    return b"".join(parts)


def _digest(content: dict[str, Any]) -> str:
    return hashlib.sha256(canonical(content)).hexdigest()
