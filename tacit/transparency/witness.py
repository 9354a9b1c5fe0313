"""A witness of other people's logs: it signs a head only if that continues every head of the same log that it signed before.

Of each log, which its origin names, a witness keeps the key and the last head it signed, in an SQLite file in its own folder.
What comes in follows C2SP's tlog-witness. A head is checked, signed and kept in one transaction, and the signature leaves only
after that is on disk: a witness that is killed at any moment has kept every head that anybody holds its signature under. One
transaction runs at a time, also among several processes.

**Which logs it knows.** Those that its operator allowed by their key. With `first_use` a log of a run, whose origin begins with
"tacit/run/", may also introduce itself: the key that it shows first stays its key. That does not weaken what the signature
says, since a run's origin is a random number: whoever introduces a run's log to the witness is the one who began it.

**The folder.** `witness.key`, mode 0600, is the private key in the text format of signed notes, with the witness's name in it.
`witness.db` is what was signed. It is made before the key: a key without it is that of a witness that has forgotten what it
signed, which does not start. Never go on with an older copy of the folder: the witness would have forgotten heads that it
signed, and could sign others in their place. A run that holds a newer head notices. A witness that lost its folder needs a new
key.
"""

from __future__ import annotations

import base64
import binascii
import os
import secrets
import sqlite3
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from tacit.errors import LedgerError, RunError
from tacit.files import refuse_if_others_can_read, sync_folder, write_atomic
from tacit.secagg import keys
from tacit.transparency import merkle
from tacit.transparency.checkpoint import Checkpoint, PublicKey, signature_lines
from tacit.transparency.submission import Submission

RUNS = "tacit/run/"  # what the origin of a run's log begins with
KEY, STATE = "witness.key", "witness.db"
# So many logs may introduce themselves; further ones need the operator.
MOST_FIRST_USES = 100_000
_KIND = b"\x04"
_PATIENCE_S = 30.0
_SCHEMA = """
CREATE TABLE IF NOT EXISTS logs (origin TEXT PRIMARY KEY, key TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS heads (origin TEXT PRIMARY KEY, text TEXT NOT NULL);
"""


class Refused(Exception):
    """A submission that the witness does not sign, with the status that HTTP gives it. `size` is the one it signed last."""

    def __init__(self, status: int, sentence: str, *, size: int | None = None) -> None:
        super().__init__(sentence)
        self.status, self.sentence, self.size = status, sentence, size


@dataclass(frozen=True)
class WitnessKey:
    """The name of a witness and its private key."""

    name: str
    private: bytes

    @property
    def public(self) -> PublicKey:
        """What the witness's signatures are checked with."""
        return PublicKey(self.name, keys.identity_public(self.private), witness=True)

    @classmethod
    def of(cls, home: Path, name: str | None = None) -> Self:
        """The key in this folder; made, with this name or one that is drawn, if there is none. RunError for another name."""
        path = home / KEY
        if not path.exists():
            private = secrets.token_bytes(keys.KEY_BYTES)
            name = f"tacit/witness/{keys.identity_public(private).hex()[:8]}" if name is None else name
            public = PublicKey(name, keys.identity_public(private), witness=True)
            try:
                PublicKey.parse(public.text())
            except LedgerError:
                raise RunError(
                    f"Expected a name of printable ASCII without spaces and plus signs, got {name!r}."
                ) from None
            home.mkdir(parents=True, exist_ok=True, mode=0o700)
            _make_state(home)
            packed = base64.b64encode(_KIND + private).decode()
            create_once(path, f"PRIVATE+KEY+{name}+{public.id.hex()}+{packed}\n".encode())
        refuse_if_others_can_read(path)
        found = cls._read(path)
        if name is not None and name != found.name:
            raise RunError(f"The witness in {home} has the name {found.name}, and a name is part of a key.")
        return found

    @classmethod
    def _read(cls, path: Path) -> Self:
        try:
            begin, word, name, key_id, packed = path.read_text(encoding="ascii").strip().split("+", 4)
            content = base64.b64decode(packed, validate=True)
            found = cls(name, content[1:])
            if (begin, word, content[:1], len(content)) != ("PRIVATE", "KEY", _KIND, 1 + keys.KEY_BYTES):
                raise ValueError
            if found.public.id.hex() != key_id:
                raise ValueError
        except (ValueError, binascii.Error):
            raise RunError(f"The file {path} holds no private key of a witness.") from None
        return found


def allowed_keys(given: Iterable[str]) -> list[tuple[PublicKey, str | None]]:
    """The keys of logs in these texts and files, each with its log's origin if one follows the key in its line.

    LedgerError for a line that is no key. Empty lines of a file, and those that begin with #, are left out.
    """
    found = []
    for each in given:
        path = Path(each)
        lines = path.read_text(encoding="utf-8").splitlines() if path.is_file() else [each]
        for line in map(str.strip, lines):
            if line and not line.startswith("#"):
                key, _, origin = line.partition(" ")
                found.append((PublicKey.parse(key), origin.strip() or None))
    return found


def create_once(path: Path, content: bytes) -> None:
    """Make this file, readable by its owner alone, durably and whole. Nothing is changed if somebody was faster."""
    draft = path.with_name(f".{path.name}.{secrets.token_hex(8)}.tmp")
    write_atomic(draft, content, mode=0o600, kept="nothing was made")
    try:
        with suppress(FileExistsError):
            os.link(draft, path)
    finally:
        draft.unlink()
    sync_folder(path.parent)


class Witness:
    """What a witness has signed, and the key it signs with. Safe in several threads and processes at once."""

    def __init__(self, home: Path, key: WitnessKey, *, first_use: bool, now: Callable[[], float] = time.time) -> None:
        self.key, self._first_use, self._now = key, first_use, now
        self._path = home / STATE
        _require_state(home)

    def allow(self, key: PublicKey, origin: str | None = None) -> None:
        """Know the log with this origin by this key from now on; RunError for a witness's key. A log's key has its origin as
        name, unless `origin` says otherwise."""
        if key.witness:
            raise RunError(f"Expected the key of a log, got that of a witness, {key.name}.")
        with self._writing() as connection:
            connection.execute("INSERT OR REPLACE INTO logs VALUES (?, ?)", (origin or key.name, key.text()))

    def introduce(self, text: str) -> None:
        """Let the log of a run with this key introduce itself; Refused if it may not."""
        try:
            key = PublicKey.parse(text)
        except LedgerError as error:
            raise Refused(400, error.sentence) from None
        with self._writing() as connection:
            known = connection.execute("SELECT key FROM logs WHERE origin = ?", (key.name,)).fetchone()
            if known is not None:
                if known[0] != key.text():
                    raise Refused(403, "The witness knows this log by another key.")
                return
            if not self._first_use or key.witness or not key.name.startswith(RUNS):
                raise Refused(403, "The witness signs only for logs that its operator allowed.")
            if connection.execute("SELECT COUNT(*) FROM logs").fetchone()[0] >= MOST_FIRST_USES:
                raise Refused(403, "The witness takes no more logs that its operator did not allow.")
            connection.execute("INSERT INTO logs VALUES (?, ?)", (key.name, key.text()))

    def add_checkpoint(self, text: str) -> str:
        """The witness's signature under the submitted head, as a line; it is durable. Refused if the head may not be signed."""
        try:
            submission = Submission.parse(text)
        except LedgerError as error:
            raise Refused(400, error.sentence) from None
        origin = submission.head.origin
        with self._writing() as connection:
            head = self._of_known_log(connection, submission.head)
            if submission.old_size > head.size:
                raise Refused(400, "The old size is larger than the new one.")
            last = _last(connection, origin) or Checkpoint(origin, 0, merkle.root([]))
            if submission.old_size != last.size or (head.size == last.size and head.root != last.root):
                raise Refused(409, f"The witness signed a head of {last.size} records last.", size=last.size)
            if not merkle.is_consistent(last.size, last.root, head.size, head.root, submission.proof):
                raise Refused(422, "The head does not continue the one that the witness signed last.")
            signed = head.countersigned(self.key.name, self.key.private, time=int(self._now()))
            connection.execute("INSERT OR REPLACE INTO heads VALUES (?, ?)", (origin, signed.text()))
        return signature_lines(signed.signed_only_by(self.key.public).signatures)

    def latest(self, origin: str) -> Checkpoint | None:
        """The head of this log that was signed last, with all its signatures; None if there is none."""
        with self._connected() as connection:
            return _last(connection, origin)

    def _of_known_log(self, connection: sqlite3.Connection, head: Checkpoint) -> Checkpoint:
        """The head with the log's own signature alone; Refused if the log is not known, or did not sign it."""
        known = connection.execute("SELECT key FROM logs WHERE origin = ?", (head.origin,)).fetchone()
        if known is None:
            raise Refused(404, "The witness does not know this log.")
        found = head.signed_only_by(PublicKey.parse(known[0]))
        if not found.signatures:
            raise Refused(403, "The head is not signed with the key by which the witness knows this log.")
        return found

    @contextmanager
    def _connected(self) -> Iterator[sqlite3.Connection]:
        with _opened(self._path) as connection:
            yield connection

    @contextmanager
    def _writing(self) -> Iterator[sqlite3.Connection]:
        """A transaction that nobody else's can cross; nothing of it stays if the block raises."""
        with self._connected() as connection:
            connection.execute("BEGIN IMMEDIATE")
            try:
                yield connection
            except BaseException:
                connection.execute("ROLLBACK")
                raise
            connection.execute("COMMIT")


@contextmanager
def _opened(path: Path, *, make: bool = False) -> Iterator[sqlite3.Connection]:
    # A connection of its own for each use: threads share none, and what is committed is on disk (synchronous = EXTRA). A file
    # that is gone is an error, and never an empty state.
    mode = "rwc" if make else "rw"
    connection = sqlite3.connect(f"{path.absolute().as_uri()}?mode={mode}", _PATIENCE_S, isolation_level=None, uri=True)
    try:
        connection.execute("PRAGMA synchronous = EXTRA")
        yield connection
    finally:
        connection.close()


def _make_state(home: Path) -> None:
    """The state of a witness that has signed nothing, durably; nothing is changed if there is one."""
    with _opened(home / STATE, make=True) as connection:
        connection.executescript(_SCHEMA)
    sync_folder(home)


def _require_state(home: Path) -> None:
    """RunError unless what the witness signed can be read: it must never sign as if it had signed nothing."""
    try:
        with _opened(home / STATE) as connection:
            tables = {name for (name,) in connection.execute("SELECT name FROM sqlite_master")}
    except sqlite3.Error:
        tables = set()
    if not {"logs", "heads"} <= tables:
        raise RunError(
            f"The witness in {home} has a key, and {STATE}, with what it has signed, is missing or damaged: it could sign "
            "another history.",
            hint=f"Put back the newest {STATE}, or make a witness with a new key in another folder.",
        )


def _last(connection: sqlite3.Connection, origin: str) -> Checkpoint | None:
    row = connection.execute("SELECT text FROM heads WHERE origin = ?", (origin,)).fetchone()
    return None if row is None else Checkpoint.parse(row[0])
