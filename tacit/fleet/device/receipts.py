"""Receipts: the server signs for each contribution, and the device checks later that the public log counts it.

A receipt is checked when it comes: it must be signed with the log's key, for this task, round and try, for exactly the bytes
that were sent, and for this device. When the round is over, the log must have an entry of the try whose tree of receipts has
this one. A server that does not count a round that the device took part in is found so, and so is one that adds up fewer
contributions than the task promised, accepts a contribution without a valid receipt, or calls a try uncounted that its log
counts. The device then takes part in nothing more, until the application agrees with a new edition of its policy.

What the device cannot tell from a lost connection is a server that takes a contribution and does not answer at all. Such a
contribution counts on the device, and the statement says that it has no receipt.
"""

from __future__ import annotations

from pathlib import Path

from pydantic import ValidationError

from tacit.fleet.device import account
from tacit.fleet.device.account import Checked, Contributed, Sending
from tacit.fleet.device.connection import Connection
from tacit.fleet.device.log_memory import LogMemory
from tacit.fleet.device.public_log import asked_about, in_log
from tacit.fleet.device.terms import PolicyRefusal
from tacit.fleet.wire.messages import Received
from tacit.fleet.wire.public_log import LOG, RECEIPT_LABEL, Counted, Receipt, SignedText, TryEntry, leaf_of, salted
from tacit.secagg import keys
from tacit.transparency.checkpoint import Checkpoint, PublicKey
from tacit.transparency.merkle import is_included

# So long after the end of its round a contribution must be in the log: a server may be down in between.
PATIENCE_S = 86_400.0


def receipt_in(answer: bytes, sent: Sending, log: LogMemory, device: int) -> SignedText:
    """The receipt in the server's answer; PolicyRefusal unless the log's key signed it for exactly this contribution."""
    try:
        received = Received.model_validate_json(answer)
        found = SignedText(text=received.receipt, signature=received.signature)
        receipt = Receipt.model_validate_json(found.text)
    except ValidationError:
        raise PolicyRefusal(f"The server gave no receipt in round {sent.round}.") from None
    expected = (sent.task, sent.round, sent.round_id, sent.body, salted(receipt.salt, device))
    of = (receipt.task, receipt.round, receipt.round_id, receipt.body, receipt.device)
    if log.key is None or of != expected or not is_signed(PublicKey.parse(log.key), RECEIPT_LABEL, found):
        raise PolicyRefusal(f"The server's receipt in round {sent.round} is not for what the device sent.")
    return found


def is_signed(key: PublicKey, label: bytes, signed: SignedText) -> bool:
    """Whether this key signed the text under this label."""
    return keys.signed_by(key.key, bytes.fromhex(signed.signature), label + signed.text.encode())


def check(connection: Connection, log: LogMemory, each: Contributed, *, now: float) -> Checked | None:
    """What the log says about a contribution with a receipt; None if its round may not be over yet.

    PolicyRefusal if the log does not count it, or says something else than the receipt.
    """
    head, sent = log.checkpoint, each.sent
    if head is None or each.receipt is None:
        return None
    leaf = leaf_of(each.receipt.text)
    counted = asked_about(connection, f"{LOG}/receipts/{sent.round_id}/{leaf}/{head.size}", Counted)
    if counted is None:
        if now < sent.until + PATIENCE_S:
            return None
        raise PolicyRefusal(
            f"The server's log does not count the device's contribution to round {sent.round} of {sent.name!r}, for which the "
            "device has a receipt."
        )
    entry = _proven(counted, sent, leaf, head)
    if entry is None:
        raise PolicyRefusal(f"The server's proof that round {sent.round} of {sent.name!r} is in its log is false.")
    return Checked(
        round_id=sent.round_id, outcome=entry.outcome, counted=entry.counted, size=head.size, ledger=entry.ledger
    )


def check_all(
    connection: Connection, log: LogMemory, path: Path, *, now: float, most: int, issue: int | None = None
) -> None:
    """Check contributions that are not checked yet, at most so many, oldest first, and write down what was found.

    PolicyRefusal for the first that the server does not keep to, also if that was found before. With `issue`, only for those
    under this edition of the owner's policy.
    """
    unchecked = 0
    for each in account.read(path):
        if each.checked is None and each.receipt is not None and unchecked < most:
            unchecked += 1
            found = check(connection, log, each, now=now)
            if found is not None:
                account.add(path, found)
                each = each.model_copy(update={"checked": found})
        if (broken := each.broken_promise) is not None and issue in (None, each.sent.issue):
            raise PolicyRefusal(broken)


def _proven(counted: Counted, sent: Sending, leaf: str, head: Checkpoint) -> TryEntry | None:
    """The try's entry, if it is in the log and has the receipt; None otherwise."""
    try:
        entry = TryEntry.model_validate_json(counted.entry)
    except ValidationError:
        return None
    place = counted.receipt
    hashes = [bytes.fromhex(each) for each in place.hashes]
    if (entry.task, entry.round, entry.round_id) != (sent.task, sent.round, sent.round_id):
        return None
    if not in_log(head, leaf_of(counted.entry), counted.place):
        return None
    root = bytes.fromhex(entry.receipts)
    if not is_included(bytes.fromhex(leaf), place.index, entry.counted, hashes, root):
        return None
    return entry
