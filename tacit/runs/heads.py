"""Records how far the ledger of a run got, where neither the run nor its folder can change it: odometer, then witness.

Both are told the same thing at the same moments (`tacit.runs.journal`), each before anything that depends on a round is shown
or saved. The store's odometer is in the hands of whoever holds the store. A witness is somebody else: it countersigns the head
of the log whose records are the ledger's lines (`tacit.runs.log_key`), and never two of which neither continues the other.

The last head that the witness signed is in ``head.txt``, a public file. Whoever has kept an older one, or asks the witness, can
compare: `tacit witness check`. Older heads are not kept in the run's folder. Each holds the second at which it was signed, and
a list of them would say how long every round took, which depends on what users hold and is in no public file.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from tacit.errors import LedgerError, PrivacyError, RunError, WitnessError
from tacit.files import write_atomic
from tacit.privacy.record.ledger import LedgerWriter
from tacit.privacy.record.records import Opened
from tacit.runs.folder import RunFolder
from tacit.runs.log_key import log_key, origin_of, public_log_key
from tacit.runs.odometer import Odometer
from tacit.runs.witness import Witness
from tacit.transparency.checkpoint import Checkpoint, PublicKey
from tacit.transparency.client import WitnessSilent
from tacit.transparency.merkle import leaf_hash, root

HEAD = "head.txt"
# A required witness is asked again for so long, with pauses that double.
PATIENCE_S, FIRST_PAUSE_S = 60.0, 0.5
# One that is not required and did not answer is left alone for so long.
LEFT_ALONE_S = 60.0


class LedgerLeaves:
    """The hashes of a ledger's lines, as the leaves of its log. Each line is read once."""

    def __init__(self, path: Path) -> None:
        self._path, self._read = path, 0
        self.hashes: list[bytes] = []

    def read(self) -> list[bytes]:
        """The hashes of all lines that are whole now."""
        with self._path.open("rb") as file:
            file.seek(self._read)
            data = file.read()
        whole = data.rfind(b"\n") + 1
        self.hashes += [leaf_hash(line) for line in data[:whole].split(b"\n")[:-1]]
        self._read += whole
        return self.hashes


def held_head(folder: Path) -> Checkpoint | None:
    """The last head of the run in this folder that a witness signed, as the folder has it; LedgerError if it is damaged."""
    try:
        text = (folder / HEAD).read_text(encoding="utf-8")
    except FileNotFoundError:
        return None
    except (OSError, ValueError):
        raise LedgerError(f"The file {folder / HEAD} cannot be read.") from None
    return Checkpoint.parse(text)


@dataclass
class WitnessedLog:
    """The log of a run and its witness.

    `size` is that of the head that was signed last, as far as we know. `root` is its root if this process had it signed, since
    what a folder says of it may be as old as the folder.
    """

    folder: RunFolder
    witness: Witness
    leaves: LedgerLeaves
    size: int = 0
    root: bytes = b""
    warned: bool = False
    quiet_until: float = 0.0

    @classmethod
    def of(cls, folder: RunFolder, witness: Witness) -> WitnessedLog:
        """The log as the folder has it."""
        held = held_head(folder.path)
        log = cls(folder, witness, LedgerLeaves(folder.ledger_path))
        if held is not None and held.origin == origin_of(folder.run_id) and held.is_signed_by(witness.public):
            log.size = held.size
        return log

    def countersign(self, *, sleep: Callable[[float], None] = time.sleep, patience_s: float = 0.0) -> None:
        """Have the head of the ledger as it is now signed; when this returns, the signed head is on disk.

        LedgerError if the witness signed what the ledger does not continue, WitnessError if it does not sign. A witness that
        does not answer is asked again for `patience_s`.
        """
        hashes = self.leaves.read()
        head = Checkpoint(origin_of(self.folder.run_id), len(hashes), root(hashes))
        if self.size > head.size:
            raise LedgerError(
                f"The ledger of {self.folder.path} has {head.size} records, and {HEAD} is a signed head of {self.size}: "
                "records were cut off the ledger's end."
            )
        if (head.size, head.root) == (self.size, self.root):
            return
        key = public_log_key(self.folder.path, self.folder.run_id)
        head = head.signed(key.name, log_key(self.folder.path))
        pause, left = FIRST_PAUSE_S, patience_s
        while True:
            try:
                signed = self.witness.client().countersign(head, key, hashes, self.size)
                break
            except WitnessSilent:
                if left <= 0:
                    raise
            sleep(min(pause, left))
            left, pause = left - pause, 2 * pause
        write_atomic(self.folder.path / HEAD, signed.text())
        self.size, self.root = signed.size, signed.root


class Heads:
    """Where the heads of a run's ledger are recorded: the odometer of its store, and its witness. Either may be missing."""

    def __init__(self, listed: Odometer | None, folder: RunFolder, witness: Witness | None, opened: Opened) -> None:
        """PrivacyError unless the ledger's first record says which witness there is."""
        if opened.witness != (None if witness is None else witness.record()):
            raise PrivacyError("Expected the witness that the ledger's first record names, got another one, or none.")
        self._listed, self._folder = listed, folder
        self._log = None if witness is None else WitnessedLog.of(folder, witness)

    def require_extended(self) -> str | None:
        """Before a run that was stopped or killed goes on: have the ledger signed as it was found.

        LedgerError if the witness has signed records that are not here: the folder is an older copy. What `record` returns.
        """
        return None if self._log is None else self._signed(self._log)

    def record(self, ledger: LedgerWriter) -> str | None:
        """Record the ledger's head. When this returns, odometer and witness know every record so far.

        Of a witness that is not required and does not sign, the sentence to warn with is returned, the first time. WitnessError
        if one that is required does not sign; LedgerError if the run goes on in another place.
        """
        self._list(ledger)
        return None if self._log is None else self._signed(self._log)

    def record_end(self, ledger: LedgerWriter) -> str | None:
        """Record the head after the run's last record. Every round was recorded before anything of it was shown.

        So it is no error if the witness does not sign, and the sentence to warn with is returned.
        """
        self._list(ledger)
        if self._log is None:
            return None
        try:
            self._log.countersign()
        except WitnessError as error:
            return f"{error.sentence} It has not signed the last records of the ledger: ask it again with tacit witness submit."
        return None

    def _list(self, ledger: LedgerWriter) -> None:
        if self._listed is not None:
            self._listed.record_head(self._folder.run_id, ledger.length, ledger.head)

    def _signed(self, log: WitnessedLog) -> str | None:
        if log.witness.required:
            try:
                log.countersign(patience_s=PATIENCE_S)
            except WitnessError as error:
                raise stopped_by(error, self._folder.path) from error.__cause__
            return None
        if time.monotonic() < log.quiet_until:
            return None
        try:
            log.countersign()
        except WitnessError as error:
            log.quiet_until = time.monotonic() + LEFT_ALONE_S
            if not log.warned:
                log.warned = True
                return f"{error.sentence} The run goes on without its signature, because the witness is not required."
        return None


def stopped_by(error: WitnessError, run: Path) -> WitnessError:
    """The error with which a run stops because its required witness does not sign."""
    return type(error)(
        f"{error.sentence} The run has stopped, because the witness is required.",
        hint=error.hint or f"When the witness answers, go on with: tacit train --resume {run}",
    )


def submit(folder: RunFolder, witness: Witness) -> Checkpoint:
    """Have the head of the run's ledger signed now, whatever the run does; returns the signed head.

    RunError if a process is writing to the ledger: it submits heads itself.
    """
    with folder.open_ledger():
        WitnessedLog.of(folder, witness).countersign()
    found = held_head(folder.path)
    if found is None:
        raise RunError(f"The run {folder.path} has no signed head.")
    return found


def prefix_objection(head: Checkpoint, run_id: str, key: PublicKey, hashes: list[bytes]) -> str | None:
    """Why this head is not one of the ledger with these leaves that the witness signed, without a full stop; None if it is."""
    if head.origin != origin_of(run_id):
        return f"it is a head of the log {head.origin}, not of {origin_of(run_id)}"
    if not head.is_signed_by(key):
        return f"the witness {key.name} did not sign it"
    if head.size > len(hashes):
        return f"it has {head.size} records, and the ledger {len(hashes)}: records were cut off its end"
    if root(hashes[: head.size]) != head.root:
        return f"the ledger's first {head.size} records are not those that it holds: they were exchanged or changed"
    return None
