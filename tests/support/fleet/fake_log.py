"""A server's public log in memory, for tests of devices: honest unless a test changes its entries."""

from __future__ import annotations

import copy
from typing import Any

from tacit.fleet.wire.blobs import sha256_of
from tacit.fleet.wire.messages import Assignment, Message, Received
from tacit.fleet.wire.public_log import (
    LEAVE,
    LEFT_LABEL,
    LOG,
    RECEIPT_LABEL,
    Counted,
    Leaving,
    LogHead,
    Place,
    Proof,
    Receipt,
    SignedText,
    TaskEntry,
    TryEntry,
    leaf_of,
    salted,
)
from tacit.fleet.wire.server_key import ServerKey
from tacit.fleet.wire.task import DeviceTask
from tacit.transparency import merkle

SALT = "5a" * 16


class FakeLog:
    """Entries as texts, and the leaves of the receipts of each try."""

    def __init__(self, secret: bytes = b"\7" * 32) -> None:
        self.key = ServerKey(secret)
        self.entries: list[str] = []
        self.receipts: dict[str, list[str]] = {}
        self.closed: dict[str, str] = {}
        self.gives_receipts = True

    def copy(self) -> FakeLog:
        """Another view, which this server may go on with for somebody else."""
        return copy.deepcopy(self)

    def add_task(self, content: bytes) -> None:
        """Write down a task."""
        self.entries.append(TaskEntry.of(sha256_of(content), DeviceTask.model_validate_json(content)).text())

    def close(
        self, place: Assignment, *, outcome: Any = "committed", counted: int | None = None, ledger: str | None = None
    ) -> None:
        """Write down that a try is over. Others than this log knows of may have reported in it."""
        mine = self.receipts.get(place.round_id, [])
        leaves = sorted(mine + ["ee" * 32] * max(0, (counted or len(mine)) - len(mine)))
        self.receipts[place.round_id] = leaves
        entry = TryEntry(
            task=place.task,
            round=place.round,
            attempt=0,
            round_id=place.round_id,
            outcome=outcome,
            counted=len(leaves) if counted is None else counted,
            receipts=merkle.root([bytes.fromhex(leaf) for leaf in leaves]).hex(),
            ledger=ledger,
        )
        self.closed[place.round_id] = entry.text()
        self.entries.append(entry.text())

    def received(self, place: Assignment, device: int, body: bytes, *, repeated: bool) -> Received:
        """The answer to a report."""
        if not self.gives_receipts:
            return Received(repeated=repeated)
        receipt = Receipt(
            task=place.task,
            round=place.round,
            round_id=place.round_id,
            device=salted(SALT, device),
            body=sha256_of(body),
            at=1,
            salt=SALT,
        )
        known = self.receipts.setdefault(place.round_id, [])
        if receipt.leaf() not in known:
            known.append(receipt.leaf())
        signature = self.key.sign(RECEIPT_LABEL, receipt.text())
        return Received(repeated=repeated, receipt=receipt.text(), signature=signature)

    def head(self) -> str:
        """The signed head of all entries."""
        leaves = self._leaves()
        return self.key.head(len(leaves), merkle.root(leaves)).text()

    def answer(self, path: str, device: int) -> Message | None:
        """What the routes of the log answer; None for 404."""
        if path == LEAVE:
            leaving = Leaving(device=salted(SALT, device), at=2, salt=SALT, kept=("the device's number",))
            return SignedText(text=leaving.text(), signature=self.key.sign(LEFT_LABEL, leaving.text()))
        what, *rest = path.removeprefix(LOG).strip("/").split("/")
        match what:
            case "":
                return LogHead(key=self.key.public.text(), head=self.head())
            case "consistency":
                old, size = map(int, rest)
                if not old <= size <= len(self.entries):
                    return None
                return Proof(hashes=_hexed(merkle.consistency_proof(self._leaves()[:size], old)))
            case "entries":
                return self._place(rest[0], int(rest[1]))
        round_id, leaf, size = rest
        leaves = self.receipts.get(round_id, [])
        if round_id not in self.closed or leaf not in leaves:
            return None
        where = self._place(leaf_of(self.closed[round_id]), int(size))
        if where is None:
            return None
        proof = merkle.inclusion_proof([bytes.fromhex(each) for each in leaves], leaves.index(leaf))
        receipt = Place(index=leaves.index(leaf), hashes=_hexed(proof))
        return Counted(entry=self.closed[round_id], place=where, receipt=receipt)

    def _place(self, leaf: str, size: int) -> Place | None:
        leaves = self._leaves()[:size]
        if bytes.fromhex(leaf) not in leaves:
            return None
        index = leaves.index(bytes.fromhex(leaf))
        return Place(index=index, hashes=_hexed(merkle.inclusion_proof(leaves, index)))

    def _leaves(self) -> list[bytes]:
        return [bytes.fromhex(leaf_of(entry)) for entry in self.entries]


def _hexed(hashes: list[bytes]) -> tuple[str, ...]:
    return tuple(each.hex() for each in hashes)
