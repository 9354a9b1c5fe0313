"""A device follows its server's public log: it keeps the last head, and accepts only one that continues it.

The first head tells the device the log's key, unless the owner's policy names it. From then on a head that is signed with
another key, is shorter, or does not contain all that the last one contained is refused, and so is a task that is not in
the log. What a server shows to one device alone, two devices find by comparing heads (`compared`): heads of one log
continue each other, and of two different logs no server can show that.
"""

from __future__ import annotations

from typing import TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from tacit.errors import FleetError, LedgerError
from tacit.fleet.device.connection import Connection
from tacit.fleet.device.log_memory import LogMemory
from tacit.fleet.device.policy import OwnerPolicy
from tacit.fleet.device.terms import PolicyRefusal
from tacit.fleet.wire.messages import Message
from tacit.fleet.wire.public_log import LOG, MOST_PROOF_BYTES, LogHead, Place, Proof, TaskEntry
from tacit.fleet.wire.refusals import Refusal
from tacit.fleet.wire.task import DeviceTask
from tacit.transparency.checkpoint import Checkpoint, PublicKey
from tacit.transparency.merkle import is_consistent, is_included

_Answer = TypeVar("_Answer", bound=Message)
TWO_LOGS = "Two different logs were shown"


def followed(connection: Connection, known: LogMemory, policy: OwnerPolicy) -> LogMemory:
    """The memory of the log with the server's newest head; PolicyRefusal if that head, or the lack of one, is refused."""
    known = known.under(policy.log_key)
    known.require_one_log()
    answer = _asked(connection, LOG, LogHead)
    if answer is None:
        if known.head is not None:
            raise PolicyRefusal("The server showed a public log before, and none now.")
        if policy.log == "required":
            raise PolicyRefusal("The owner's policy asks for a server with a public log, and this one has none.")
        return known
    try:
        key, head = PublicKey.parse(answer.key), Checkpoint.parse(answer.head)
    except LedgerError:
        raise PolicyRefusal("The head of the server's log is not valid.") from None
    expected = policy.log_key or known.key
    if expected is not None and key.text() != expected:
        raise PolicyRefusal("The server's log is signed with another key than the one that this device follows.")
    if head.origin != key.name or not head.is_signed_by(key):
        raise PolicyRefusal("The head of the server's log is not signed with the log's key.")
    last = known.checkpoint
    if last is not None:
        if head.size < last.size:
            raise PolicyRefusal(
                f"The server's log has become shorter: it had {last.size} entries before, and has {head.size} now."
            )
        if not _continues(connection, last, head):
            raise PolicyRefusal(
                f"{TWO_LOGS}: the server cannot show that its log of {head.size} entries continues the one of {last.size} "
                "entries that this device has seen."
            )
    return known.model_copy(update={"key": key.text(), "head": head.text()})


def with_task(connection: Connection, known: LogMemory, name: str, task: DeviceTask) -> LogMemory:
    """The memory after this task was found in the log; PolicyRefusal if it is not there. Without a log nothing is asked."""
    head = known.checkpoint
    leaf = TaskEntry.of(name, task).leaf()
    if head is None or leaf in known.tasks:
        return known
    place = _asked(connection, f"{LOG}/entries/{leaf}/{head.size}", Place)
    if place is None or not in_log(head, leaf, place):
        raise PolicyRefusal(f"The task {task.name!r} is not in the server's public log.")
    return known.model_copy(update={"tasks": (*known.tasks, leaf)})


def in_log(head: Checkpoint, leaf: str, place: Place) -> bool:
    """Whether this proves that the entry with this leaf is in the log with this head."""
    return is_included(bytes.fromhex(leaf), place.index, head.size, _bytes_of(place), head.root)


class Comparison(BaseModel):
    """Of this device's head and another device's. `one_log`: each is a head of one and the same log."""

    model_config = ConfigDict(extra="forbid", frozen=True)
    one_log: bool
    here: int = Field(description="entries in this device's head")
    there: int = Field(description="entries in the other head")
    sentence: str


def compared(connection: Connection, known: LogMemory, text: str) -> tuple[Comparison, LogMemory]:
    """Compare another device's head with this one's; the memory then has the newer of the two, or that there are two logs.

    FleetError if there is nothing to compare, the other head is no signed head, or the server does not answer.
    """
    here = known.checkpoint
    if here is None or known.key is None:
        raise FleetError("This device has seen no head of a log yet.", hint="Let it check in first: tacit device run")
    try:
        there = Checkpoint.parse(text)
    except LedgerError as error:
        raise FleetError(error.sentence, hint="Write it with: tacit device head > FILE") from None
    sizes = {"here": here.size, "there": there.size}
    if there.origin != here.origin:
        sentence = (
            f"{TWO_LOGS}, if both devices use one server: this one's is {here.origin}, the other's {there.origin}."
        )
        return Comparison(one_log=False, sentence=sentence, **sizes), known  # it may be a head of some other server
    if not there.is_signed_by(PublicKey.parse(known.key)):
        raise FleetError("The other head is not signed with the key of the log that this device follows.")
    old, new = sorted((here, there), key=lambda head: head.size)
    if not _continues(connection, old, new):
        sentence = (
            f"{TWO_LOGS}: both heads are signed by the server, and it cannot show that the one of {new.size} entries "
            f"continues the one of {old.size}. Keep both files: together they prove it."
        )
        return Comparison(one_log=False, sentence=sentence, **sizes), known.forked(text)
    newer = known.model_copy(update={"head": new.text()})
    return Comparison(one_log=True, sentence="Both devices were shown the same log.", **sizes), newer


def _continues(connection: Connection, old: Checkpoint, new: Checkpoint) -> bool:
    proof: Proof | None = Proof(hashes=())
    if 0 < old.size < new.size:
        proof = _asked(connection, f"{LOG}/consistency/{old.size}/{new.size}", Proof)
    return proof is not None and is_consistent(old.size, old.root, new.size, new.root, _bytes_of(proof))


def asked_about(connection: Connection, path: str, kind: type[_Answer]) -> _Answer | None:
    """The server's answer about its log; None if it has none, or one that is not valid."""
    return _asked(connection, path, kind)


def _asked(connection: Connection, path: str, kind: type[_Answer]) -> _Answer | None:
    try:
        return kind.model_validate_json(connection.ask("GET", path, most=MOST_PROOF_BYTES))
    except Refusal as refusal:
        if refusal.status in (404, 422) and not refusal.again:
            return None
        raise
    except ValidationError:
        return None


def _bytes_of(proof: Proof | Place) -> list[bytes]:
    return [bytes.fromhex(each) for each in proof.hashes]
