"""The server's log as devices read it: its entries, receipts, and the messages that prove what is in it.

The log is a list of short texts, each JSON, under one Merkle tree (`tacit.transparency`). It has an entry for

    a task        before any device is offered it
    a try         at a round, when it is over: committed or abandoned, how many contributions it counted, and the root of a
                  tree over their receipts
    a leaving     the confirmation that a device got that left

A receipt is a text that the server signs for one contribution. Its hash is salted, so the log shows no device. Receipts have a
tree of their own for each try, so the log grows with rounds and not with devices.

    GET  /v1/log                                     LogHead      the log's key and its newest signed head
    GET  /v1/log/consistency/{old}/{size}            Proof        that the log of `size` entries continues that of `old`
    GET  /v1/log/entries/{leaf}/{size}               Place        that an entry is in the log of `size` entries
    GET  /v1/log/receipts/{round}/{leaf}/{size}      Counted      that a receipt is in a try, and the try in the log
    POST /v1/leave                                   LeaveRequest → Left
"""

from __future__ import annotations

import hashlib
from typing import Annotated, Literal

from pydantic import Field

from tacit.fleet.wire.messages import Message, PublicKey, RoundId, RoundNumber, Sha256, Signature
from tacit.fleet.wire.task import DeviceTask
from tacit.transparency.merkle import leaf_hash

LOG, LEAVE = "/v1/log", "/v1/leave"
# The largest answer about the log that a device reads.
MOST_PROOF_BYTES = 1 << 14
MOST_SIZE = 2**53
RECEIPT_LABEL, LEFT_LABEL = b"tacit fleet receipt v1\0", b"tacit fleet leaving v1\0"

Size = Annotated[int, Field(ge=0, lt=MOST_SIZE)]
Hashes = Annotated[tuple[Sha256, ...], Field(max_length=64)]


class LogHead(Message):
    """The log's public key (`PublicKey.text`) and its signed head (`Checkpoint.text`)."""

    key: str = Field(max_length=400)
    head: str = Field(max_length=4096)


class Proof(Message):
    """The hashes of a proof."""

    hashes: Hashes


class Place(Message):
    """Where an entry is in the log, and the hashes that prove it."""

    index: Size
    hashes: Hashes


class Counted(Message):
    """The entry of a try, its place in the log, and a receipt's place among those of the try."""

    entry: str = Field(max_length=1024)
    place: Place
    receipt: Place


class Entry(Message):
    """One entry of the log."""

    def text(self) -> str:
        """The leaf, as it is in the log."""
        return self.model_dump_json()

    def leaf(self) -> str:
        """The leaf's hash, in hexadecimal."""
        return leaf_of(self.text())


class TaskEntry(Entry):
    """A task that devices may be offered from now on: the digest of its description, which names its program too."""

    kind: Literal["task"] = "task"
    task: Sha256
    plan: Sha256
    vocabulary: Sha256

    @classmethod
    def of(cls, name: str, task: DeviceTask) -> TaskEntry:
        """The entry that a task of this name must have."""
        return cls(task=name, plan=task.plan, vocabulary=task.vocabulary)


class TryEntry(Entry):
    """A try at a round that is over. `ledger` is the digest of the run's last ledger record, if the try was committed."""

    kind: Literal["try"] = "try"
    task: Sha256
    round: RoundNumber
    attempt: int = Field(ge=0)
    round_id: RoundId
    outcome: Literal["committed", "abandoned"]
    counted: int = Field(ge=0)
    receipts: Sha256
    ledger: Sha256 | None = None


class Receipt(Entry):
    """What the server signs for one contribution. `device` is the salted digest of the device's number."""

    kind: Literal["receipt"] = "receipt"
    task: Sha256
    round: RoundNumber
    round_id: RoundId
    device: Sha256
    body: Sha256 = Field(description="the digest of what the device sent")
    at: int = Field(ge=0, description="seconds since 1970 by the server's clock")
    salt: str = Field(pattern=r"^[0-9a-f]{32}$")


class SignedText(Message):
    """A text of the server and its signature."""

    text: str = Field(max_length=2048)
    signature: Signature


class LeaveRequest(Message):
    """A device's own public key: the server keeps no key of a device that has left, so the device brings it."""

    identity: PublicKey


class Leaving(Entry):
    """What the server confirms when a device leaves. It is an entry of the log, and names the device by a salted digest."""

    kind: Literal["leaving"] = "leaving"
    device: Sha256
    at: int = Field(ge=0)
    salt: str = Field(pattern=r"^[0-9a-f]{32}$")
    kept: tuple[str, ...] = Field(max_length=8, description="what the server still holds, in plain words")


def leaf_of(text: str) -> str:
    """The hash of a text as a leaf, in hexadecimal."""
    return leaf_hash(text.encode()).hex()


def salted(salt: str, device: int) -> str:
    """The digest that stands for a device's number in a receipt or a confirmation."""
    return hashlib.sha256(f"tacit fleet device v1\0{salt}\0{device}".encode()).hexdigest()
