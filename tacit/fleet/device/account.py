"""The device's own account: what it took part in, on which terms, how much it sent, and what the server signed for it.

A file of lines that is only added to. A line is on disk before what it tells of is sent, so a device that is killed may list
one contribution too many, and never one too few. What was sent is listed by size and digest; its content is not kept.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from tacit.errors import FleetError
from tacit.files import append_synced
from tacit.fleet.wire.messages import RoundId, RoundNumber, Sha256
from tacit.fleet.wire.public_log import SignedText


class _Line(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Sending(_Line):
    """A contribution that is about to be sent, and the terms it was made under."""

    line: Literal["sent"] = "sent"
    at: float = Field(description="by the device's own clock")
    until: float = Field(description="when the round ends at the latest")
    issue: int = Field(description="the edition of the owner's policy")
    task: Sha256
    name: str
    run: str
    plan: Sha256
    kind: str
    round: RoundNumber
    round_id: RoundId
    clip_norm: float = Field(description="no contribution is longer")
    report_goal: int = Field(description="how many contributions the task promises to add up")
    noise_multiplier: float = Field(description="that the task states, or the devices' noise has")
    noise_from: Literal["server", "devices"]
    secure_aggregation: bool
    numbers: int = Field(description="how many numbers were sent, masked or not")
    size: int = Field(description="in bytes")
    body: Sha256
    rho: float | None = Field(description="the round's proven cost; none if the noise is the server's word")


class Receipted(_Line):
    """The server's receipt for a contribution, found valid."""

    line: Literal["receipt"] = "receipt"
    round_id: RoundId
    receipt: SignedText


class Unsigned(_Line):
    """The server accepted a contribution and did not sign for it, though it shows a log."""

    line: Literal["unsigned"] = "unsigned"
    round_id: RoundId
    why: str


class Uncounted(_Line):
    """The server said of the try that it came to nothing."""

    line: Literal["uncounted"] = "uncounted"
    round_id: RoundId


class Checked(_Line):
    """What the public log says about the try, proven against a head that the device accepted."""

    line: Literal["checked"] = "checked"
    round_id: RoundId
    outcome: Literal["committed", "abandoned"]
    counted: int
    size: int = Field(description="of the log, when it was checked")
    ledger: Sha256 | None = Field(default=None, description="the digest of the run's last ledger record then")


class Contributed(_Line):
    """All that is known of one contribution."""

    sent: Sending
    receipt: SignedText | None = None
    unsigned: str | None = None
    uncounted: bool = False
    checked: Checked | None = None

    @property
    def committed_digest(self) -> str | None:
        """The digest of the ledger that this contribution is in; None if the log names none."""
        return None if self.checked is None or self.checked.outcome != "committed" else self.checked.ledger

    @property
    def broken_promise(self) -> str | None:
        """Why the server did not keep to its word, if its answers and its log show that."""
        if self.receipt is None and self.unsigned is not None:
            return self.unsigned
        if self.checked is None or self.checked.outcome != "committed":
            return None
        if self.uncounted:
            return (
                f"The server said that the device's contribution to round {self.sent.round} of {self.sent.name!r} does not "
                "count, and its log counts it."
            )
        if self.checked.counted >= self.sent.report_goal:
            return None
        return (
            f"Round {self.sent.round} of {self.sent.name!r} added up {self.checked.counted} contributions, and its task "
            f"promised {self.sent.report_goal}."
        )


_AnyLine = Sending | Receipted | Unsigned | Uncounted | Checked


def add(path: Path, line: _AnyLine) -> None:
    """Put this at the end of the account; it is on disk when this returns."""
    descriptor = os.open(path, os.O_RDWR | os.O_APPEND | os.O_CREAT, 0o600)
    try:
        size = os.fstat(descriptor).st_size
        if size and os.pread(descriptor, 1, size - 1) != b"\n":
            append_synced(descriptor, b"\n")  # after a line that a kill cut short
        append_synced(descriptor, line.model_dump_json().encode() + b"\n")
    finally:
        os.close(descriptor)


def read(path: Path) -> list[Contributed]:
    """The account, oldest first. Of the lines only the one that a kill cut short may be unreadable."""
    found: dict[str, Contributed] = {}
    try:
        lines = path.read_bytes().splitlines()
    except FileNotFoundError:
        return []
    for content in lines:
        line = _parsed(content)
        if isinstance(line, Sending):
            found[line.round_id] = Contributed(sent=line)
        elif line is not None and line.round_id in found:
            found[line.round_id] = found[line.round_id].model_copy(update=_told_by(line))
    return list(found.values())


def _told_by(line: Receipted | Unsigned | Uncounted | Checked) -> dict[str, object]:
    match line:
        case Receipted():
            return {"receipt": line.receipt}
        case Unsigned():
            return {"unsigned": line.why}
        case Uncounted():
            return {"uncounted": True}
        case Checked():
            return {"checked": line}


def _parsed(content: bytes) -> _AnyLine | None:
    """The line; None for what a kill left of one."""
    for kind in (Sending, Receipted, Unsigned, Uncounted, Checked):
        try:
            return kind.model_validate_json(content)
        except ValidationError:
            continue
    if content.endswith(b"}"):
        raise FleetError("The device's account is damaged: a line of account.jsonl cannot be read.")
    return None
