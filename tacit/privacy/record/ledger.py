"""The ledger: what a run released about its users, one record a line, written before anything of it is used.

    opened                                what the run is, on which data, under which plan
    intent     round 0, attempt 0         durable before round 0 touches a user
    intent     round 1, attempt 0
    committed  rounds_done 2              the checkpoint that holds rounds 0 and 1 is durable
    intent     round 2, attempt 0         ... and here the machine lost power
    resumed    round 2, lost [[2, 0]]
    intent     round 2, attempt 1         round 2 ran twice and is accounted twice
    committed  rounds_done 3
    closed     finished
    extended   rounds 5                   somebody wants more rounds; all of them are accounted as adaptively chosen
    resumed    round 3, lost []
    intent     round 3, attempt 0
    ...

**Every intent counts as a release**, whether or not the round came to its end: nobody can know what left a machine
that died. Each line is canonical JSON (sorted keys, no spaces, floats that round-trip, no infinity and no NaN) with its
number `seq`, the digest of the line before it, `previous`, and the SHA-256 `digest` of the line without that field: a
chain. A changed byte, a missing, repeated or moved line is reported with its line number and never skipped.

**The torn tail.** One exception is no damage: the last line, cut short because the machine stopped inside `append`.
Since `append` had not returned, nothing depended on that record. Such a tail is a line without its line end, or one
with holes of zero bytes (a file made longer whose pages were never written). A tail that is a whole record and lacks
only its line end is kept: counting a release that did not happen is safe, forgetting one is not. A last line that is
complete and wrong is damage like any other.

The chain alone cannot show that whole lines were cut off its end. The participation record shows it
(`participation.log.verify`), and so does a checkpoint with more rounds than the ledger.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import time
from collections import Counter
from contextlib import suppress
from copy import deepcopy
from dataclasses import dataclass, field
from pathlib import Path

from tacit.errors import LedgerError, PrivacyError, RunError
from tacit.files import GrowingFile, append_synced, disk_error, keep_torn_bytes, sync_folder
from tacit.privacy.record.records import (
    OUTCOMES,
    POLICIES,
    Adjusted,
    Closed,
    Committed,
    Extended,
    ExtendedRun,
    Intent,
    Opened,
    Record,
    Resumed,
    canonical,
    extended,
    format_objection,
    from_json,
    to_json,
)

_BEFORE_THE_FIRST = "0" * 64
_PATIENCE = 0.5  # seconds a writer waits for the lock: `is_being_written` holds it for an instant


@dataclass
class _History:
    """The state after the records so far, which decides which record may come next."""

    length: int = 0
    head: str = _BEFORE_THE_FIRST
    attempts: Counter[int] = field(default_factory=Counter)
    live: dict[int, int] = field(default_factory=dict)  # round -> the attempt whose result the run builds on
    next_round: int = 0
    rounds_committed: int = 0
    closed: str | None = None
    rounds_planned: int = 0

    def lost_from(self, rounds_done: int) -> list[list[int]]:
        return [[number, attempt] for number, attempt in sorted(self.live.items()) if number >= rounds_done]

    def objection(self, record: Record) -> str | None:
        """Why `record` cannot come next, or None."""
        if isinstance(record, Opened) != (self.length == 0):
            return "a ledger begins with its one opened record"
        if isinstance(record, Opened) and (objection := format_objection(record.format)) is not None:
            return objection
        if isinstance(record, ExtendedRun):
            return "it begins with the first record as it was written, before any extension"
        goes_on = {"stopped": Resumed, "finished": Extended}
        if self.closed is not None and not isinstance(record, goes_on.get(self.closed, ())):
            return f"the run was closed before it ({self.closed})"
        match record:
            case Intent():
                # The round after the last, or the last one again (a cohort that was given up).
                if record.round not in (self.next_round, self.next_round - 1) or record.round < 0:
                    return f"expected an intent of round {self.next_round}, got round {record.round}"
                if record.attempt != self.attempts[record.round]:
                    return f"expected attempt {self.attempts[record.round]} of its round, got {record.attempt}"
                if any(not {"bound", "noise_multiplier"} <= block.keys() for block in record.blocks.values()):
                    return "expected a bound and a noise_multiplier in each block"
            case Committed():
                if not 0 <= record.rounds_done <= self.next_round:
                    return f"expected rounds_done of at most {self.next_round}, got {record.rounds_done}"
            case Resumed():
                if not 0 <= record.round <= self.next_round:
                    return f"expected to resume at round {self.next_round} or before, got {record.round}"
                if record.lost != self.lost_from(record.round):
                    return f"lost does not list the attempts from round {record.round} on"
                if record.policy not in POLICIES:
                    return f"its policy {record.policy!r} is unknown"
            case Adjusted():
                if record.round != self.next_round or record.report_goal < 1 or record.deadline_s <= 0:
                    return f"expected a goal and a deadline above 0 from round {self.next_round} on"
            case Extended():
                if self.closed != "finished":
                    return "only a run that has finished can be extended"
                if record.rounds <= self.rounds_planned:
                    return f"expected more than the {self.rounds_planned} rounds that are planned, got {record.rounds}"
            case Closed():
                if record.outcome not in OUTCOMES or record.round != self.next_round:
                    return f"expected an outcome of {', '.join(OUTCOMES)} before round {self.next_round}"
        return None

    def take(self, record: Record, digest: str) -> None:
        self.length, self.head = self.length + 1, digest
        match record:
            case Opened():
                self.rounds_planned = record.rounds
            case Intent():
                self.attempts[record.round] += 1
                self.live[record.round] = record.attempt
                self.next_round = record.round + 1
            case Committed():
                self.rounds_committed = record.rounds_done
            case Resumed():
                self.live = {number: attempt for number, attempt in self.live.items() if number < record.round}
                self.next_round = record.round
                self.rounds_committed = min(self.rounds_committed, record.round)
                self.closed = None
            case Extended():
                self.rounds_planned, self.closed = record.rounds, None
            case Closed():
                self.closed = record.outcome

    def write(self, record: Record) -> tuple[bytes, str]:
        """The line (with its end) that puts `record` next in the chain, and its digest."""
        content = to_json(record) | {"seq": self.length, "previous": self.head}
        digest = hashlib.sha256(canonical(content)).hexdigest()
        return canonical(content | {"digest": digest}) + b"\n", digest

    def read(self, line: bytes) -> tuple[Record, str]:
        """The record in `line` (without its end) and its digest; ValueError says why it does not belong here."""
        try:
            content = json.loads(line)
            if not isinstance(content, dict) or canonical(content) != line:
                raise ValueError
        except (ValueError, RecursionError):
            raise ValueError("it is not a record in canonical JSON, so it was changed or cut") from None
        digest = content.pop("digest", None)
        if digest != hashlib.sha256(canonical(content)).hexdigest():
            raise ValueError("its digest does not fit, so it was changed")
        seq, previous = content.pop("seq", None), content.pop("previous", None)
        if seq != self.length:
            raise ValueError(f"expected seq {self.length}, got {seq}: a line is missing, repeated or moved")
        if previous != self.head:
            raise ValueError("it does not follow the line before it, which was exchanged")
        record = from_json(content)
        if (objection := self.objection(record)) is not None:
            raise ValueError(objection)
        return record, digest


@dataclass(frozen=True)
class Ledger:
    """A ledger as read: its whole records, in order, with the chain verified. `torn` bytes after them are no record."""

    path: Path
    records: tuple[Record, ...]
    torn: int
    _history: _History

    @classmethod
    def of_planned(cls, path: Path, opened: Opened) -> Ledger:
        """The ledger that a run which has not begun will begin with: its first record, and nothing released."""
        history = _History()
        history.take(opened, history.write(opened)[1])
        return cls(path, (opened,), 0, history)

    @property
    def opened(self) -> Opened:
        """The first record; of a run that was extended, with the rounds that are planned now (`ExtendedRun`)."""
        first = self.records[0]
        assert isinstance(first, Opened)
        for record in self.records:
            if isinstance(record, Extended):
                first = extended(first, record.rounds)
        return first

    @property
    def intents(self) -> tuple[Intent, ...]:
        return tuple(record for record in self.records if isinstance(record, Intent))

    @property
    def committed(self) -> Committed | None:
        """The last checkpoint the ledger knows of."""
        return next((record for record in reversed(self.records) if isinstance(record, Committed)), None)

    @property
    def closed(self) -> Closed | None:
        """How the run ended; None while it goes on, or if it was cut off."""
        return self.records[-1] if isinstance(self.records[-1], Closed) else None

    @property
    def head(self) -> str:
        """The digest of the last record, which stands for all of them."""
        return self._history.head

    def digests(self) -> list[str]:
        """The digest of each record, in order: what the chain's lines hold."""
        history, found = _History(), []
        for record in self.records:
            _, digest = history.write(record)
            history.length, history.head = history.length + 1, digest
            found.append(digest)
        return found

    @property
    def next_round(self) -> int:
        """The round of the next intent."""
        return self._history.next_round

    @property
    def rounds_committed(self) -> int:
        """How many rounds are in the checkpoint in use, as far as the ledger knows."""
        return self._history.rounds_committed

    def attempts(self, round: int) -> int:
        """How many times a round was begun: the number of its next attempt."""
        return self._history.attempts[round]

    def releases(self) -> tuple[Intent, ...]:
        """Everything that is accounted: every intent. A round that ran twice is listed twice."""
        return self.intents

    def uncommitted(self) -> tuple[Intent, ...]:
        """The intents that are in no checkpoint in use: those after the last commit, and lost attempts."""
        history = self._history
        held = {(number, attempt) for number, attempt in history.live.items() if number < history.rounds_committed}
        return tuple(intent for intent in self.intents if (intent.round, intent.attempt) not in held)

    def lost_from(self, rounds_done: int) -> list[list[int]]:
        """The [round, attempt] that resuming from a checkpoint of `rounds_done` rounds gives up: `Resumed.lost`."""
        return self._history.lost_from(rounds_done)


@dataclass
class _Scan:
    records: list[Record] = field(default_factory=list)
    history: _History = field(default_factory=_History)
    good: int = 0  # bytes of whole records, line ends included
    tail: bytes = b""  # what follows them
    tail_is_whole: bool = False  # ... which is one more record, lacking only its line end; it is among `records`


def _scan(data: bytes, path: Path) -> _Scan:
    scan = _Scan()
    lines = data.split(b"\n")
    tail = lines.pop()
    if lines and not tail and b"\0" in lines[-1]:  # JSON has no zero bytes: pages that were never written
        tail = lines.pop() + b"\n"
    for number, line in enumerate(lines, start=1):
        try:
            record, digest = scan.history.read(line)
        except ValueError as error:
            raise LedgerError(f"The ledger {path} is damaged at line {number}: {error}.") from None
        scan.records.append(record)
        scan.history.take(record, digest)
        scan.good += len(line) + 1
    scan.tail = tail
    with suppress(ValueError):
        record, digest = scan.history.read(tail)
        scan.records.append(record)
        scan.history.take(record, digest)
        scan.tail_is_whole = True
    if not scan.records:
        raise LedgerError(f"The ledger {path} holds no whole record: its run never began.")
    return scan


def read_ledger(path: Path) -> Ledger:
    """The ledger in `path`, every line verified; LedgerError names the first bad line. A torn tail is left alone.

    Safe while another process writes: a line it has not finished is a torn tail.

    >>> import tempfile, tacit
    >>> from pathlib import Path
    >>> with tempfile.TemporaryDirectory() as place:
    ...     try:
    ...         tacit.read_ledger(Path(place) / "ledger.jsonl")
    ...     except tacit.TacitError:
    ...         print("no ledger there")
    no ledger there
    """
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        raise LedgerError(f"There is no ledger in {path}.") from None
    scan = _scan(data, path)
    return Ledger(path, tuple(scan.records), 0 if scan.tail_is_whole else len(scan.tail), scan.history)


def repair_torn_tail(path: Path) -> str | None:
    """Cut a torn last line off the ledger; says what it did, None if there was nothing to do.

    The bytes are kept beside it in ``ledger.jsonl.torn``. LedgerError, and nothing touched, for any other damage;
    RunError if a process is writing to the ledger.
    """
    with LedgerWriter.open(path) as writer:
        return writer.repaired


class LedgerWriter(GrowingFile):
    """The one process that may add to a ledger: holds its lock from `create` or `open` until `close`."""

    def __init__(self, path: Path, descriptor: int, scan: _Scan, repaired: str | None) -> None:
        super().__init__(path, descriptor)
        self.repaired = repaired
        self._records = scan.records
        self._history = scan.history

    @classmethod
    def create(cls, path: Path, opened: Opened) -> LedgerWriter:
        """A new ledger that begins with `opened`; RunError if there is one.

        A file without a single whole line is a creation that was cut short, and is begun again.
        """
        descriptor = _open_locked(path, os.O_CREAT)
        writer = cls(path, descriptor, _Scan(), None)
        try:
            if b"\n" in path.read_bytes():
                raise RunError(
                    f"The ledger {path} is that of a run that has begun: resume it, or choose another folder."
                )
            os.ftruncate(descriptor, 0)
            writer._size = 0
            sync_folder(path.parent)
            writer.append(opened)
        except BaseException:
            writer.close()
            raise
        return writer

    @classmethod
    def open(cls, path: Path) -> LedgerWriter:
        """Go on with a ledger, verified from its first line and with a torn tail repaired (`repaired` says so)."""
        descriptor = _open_locked(path, 0)
        try:
            scan = _scan(path.read_bytes(), path)
            return cls(path, descriptor, scan, _repair(descriptor, path, scan))
        except OSError as error:
            os.close(descriptor)
            raise disk_error(error, path, "its records are intact") from error
        except BaseException:
            os.close(descriptor)
            raise

    @property
    def ledger(self) -> Ledger:
        """All records so far; later ones do not show in it."""
        return Ledger(self.path, tuple(self._records), 0, deepcopy(self._history))

    @property
    def length(self) -> int:
        """How many records there are."""
        return self._history.length

    @property
    def head(self) -> str:
        """The digest of the last record, which stands for all of them."""
        return self._history.head

    def append(self, record: Record) -> str:
        """Add `record`; when this returns its digest, the line is on disk.

        LedgerError if the record cannot come next, PrivacyError if it holds an infinite number, RunError if the disk
        fails: then the ledger is as before, or ends in a torn line, and this writer takes no more.
        """
        if (objection := self._history.objection(record)) is not None:
            raise LedgerError(f"The ledger {self.path} cannot take a record of kind {record.kind}: {objection}.")
        try:
            line, digest = self._history.write(record)
        except ValueError:
            sentence = f"Expected finite numbers in the ledger's {record.kind} record, got inf or nan."
            raise PrivacyError(sentence) from None
        self._grow(line)
        self._history.take(record, digest)
        self._records.append(record)
        return digest


def _open_locked(path: Path, flags: int) -> int:
    try:
        descriptor = os.open(path, os.O_RDWR | os.O_APPEND | flags, 0o644)
    except FileNotFoundError:
        raise LedgerError(f"There is no ledger in {path}.") from None
    except OSError as error:
        raise disk_error(error, path, "nothing was changed") from error
    deadline = time.monotonic() + _PATIENCE
    while True:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return descriptor
        except BlockingIOError:
            if time.monotonic() > deadline:
                os.close(descriptor)
                raise RunError(f"Another process is writing to {path}: wait for it, or stop it first.") from None
            time.sleep(0.02)
        except OSError as error:
            os.close(descriptor)
            raise RunError(f"Cannot lock {path} ({error.strerror}): expected a file system with locks.") from error


def _repair(descriptor: int, path: Path, scan: _Scan) -> str | None:
    if not scan.tail:
        return None
    if scan.tail_is_whole:
        append_synced(descriptor, b"\n")
        return f"The last record of {path} was whole but for its line end, which was added."
    sidecar = keep_torn_bytes(path, scan.tail, mode=0o644)
    os.ftruncate(descriptor, scan.good)
    os.fsync(descriptor)
    return (
        f"The last {len(scan.tail)} bytes of {path} were a record cut short by a crash, on which nothing depended; "
        f"they were moved to {sidecar.name}."
    )
