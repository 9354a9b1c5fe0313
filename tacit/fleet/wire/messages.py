"""The HTTP paths and JSON messages between devices and server.

A device signs everything it sends (`signing.py`). Small messages are JSON; a report and the messages of secure aggregation are
bytes. Times are seconds from now, never clock times, so that nobody's clock matters.

    POST /v1/enrol                              EnrolRequest → Enrolled             exchange a token for a device number, once
    POST /v1/check-in                           CheckInRequest → CheckInAnswer      get a place in a round, or a waiting time
    GET  /v1/blobs/{sha256}                     bytes                               a plan, a checkpoint or a vocabulary
    PUT  /v1/rounds/{round}/report              report bytes → Received             the device's clipped update
    GET  /v1/rounds/{round}/secagg/session      SessionTerms, or 204 for not yet    the constants of secure aggregation
    POST /v1/rounds/{round}/secagg/{stage}      message bytes → Received            the device's message of a stage
    GET  /v1/rounds/{round}/secagg/{stage}      message bytes, or 204 for not yet   the server's message to the device
    GET  /v1/log…, POST /v1/leave               see `public_log.py`                 the server's log, and how to leave

A request that is not accepted is answered with `Refused` and a status 4xx or 5xx (`refusals.py`).

Answers to selected and other devices have the same size (`padded`), so that an eavesdropper cannot tell from a check-in who was
selected. They can still see what a selected device does next. No claim depends on that: a fleet's guarantee takes no credit for
sampling.
"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field

from tacit.errors import FleetError

ENROL, CHECK_IN, BLOBS, ROUNDS = "/v1/enrol", "/v1/check-in", "/v1/blobs", "/v1/rounds"
# The largest JSON body that is read, by the server and by devices; other limits are in `server/request_limits.py`.
MOST_JSON_BYTES = 4096
ANSWER_BYTES = 2048
# The most tries that a device asks about in one check-in.
MOST_ASKED = 16

Sha256 = Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]
RoundId = Annotated[str, Field(pattern=r"^[0-9a-f]{32}$")]
PublicKey = Annotated[str, Field(pattern=r"^[0-9a-f]{64}$", description="an Ed25519 public key, in hexadecimal")]
Signature = Annotated[str, Field(pattern=r"^[0-9a-f]{128}$", description="an Ed25519 signature, in hexadecimal")]
RoundNumber = Annotated[int, Field(ge=0, lt=2**31)]
# The stages of secure aggregation, in order. Both a device's message and the server's answer to it have the stage's name.
Stage = Literal["advertise", "share", "mask", "agree", "reveal"]


class Message(BaseModel):
    """JSON with exactly these fields."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class EnrolRequest(Message):
    """An enrolment token, the device's public key, and a signature that proves that it has the private key."""

    token: str = Field(min_length=16, max_length=128)
    identity: PublicKey
    proof: Signature


class Enrolled(Message):
    """The device's number, a pseudonym."""

    device: int = Field(ge=0)


class CheckInRequest(Message):
    """A device that is idle, charging and on an unmetered network asks for a place in a round.

    A device enforces the limits itself. `busy_with` are tasks that it refuses now, because of their timer or limit; `was_in`
    gives, for other tasks, the last round it took part in. These two can only cost a device a place, never win one. `sent` are
    tries at rounds that it has sent something in and counts: the answer says which of them came to nothing.
    """

    busy_with: tuple[Sha256, ...] = Field(default=(), max_length=32)
    was_in: dict[Sha256, RoundNumber] = Field(default_factory=dict, max_length=32)
    sent: tuple[RoundId, ...] = Field(default=(), max_length=MOST_ASKED)


class Assignment(Message):
    """A place in a round. `task` is the SHA-256 of the task description, which the device downloads."""

    round_id: RoundId
    task: Sha256
    round: RoundNumber
    checkpoint: Sha256
    upload_to: str = Field(max_length=256, description="address of the process that accepts the report")
    clip_norm: float = Field(gt=0, allow_inf_nan=False, description="of this round")
    threshold: float | None = Field(
        default=None, allow_inf_nan=False, description="adaptive clipping: the norm is compared with this"
    )
    signs_seed: Sha256 | None = Field(default=None, description="secure aggregation: seed of the public rotation")
    seconds_left: float = Field(ge=0, allow_inf_nan=False)


class CheckInAnswer(Message):
    """A place in a round, or none; in either case, how long to wait before the next check-in.

    `uncounted` are those of the tries in `sent` whose sum does not have this device and never will, or is in no model.
    """

    assignment: Assignment | None
    come_back_s: float = Field(ge=0, allow_inf_nan=False)
    uncounted: tuple[RoundId, ...] = Field(default=(), max_length=MOST_ASKED)
    padding: str = ""


class Received(Message):
    """The server has accepted the message. `repeated`: it had the same bytes already, and counts them once.

    The answer to a contribution has its receipt (`public_log.Receipt`) and the server's signature on it.
    """

    repeated: bool = False
    receipt: str = Field(default="", max_length=2048)
    signature: str = Field(default="", pattern=r"^([0-9a-f]{128})?$")


class Refused(Message):
    """The server has not accepted the request, and nothing has changed."""

    detail: str
    again: bool = Field(default=False, description="whether the same request may succeed later")


def padded(answer: CheckInAnswer) -> bytes:
    """An answer as JSON of exactly ANSWER_BYTES bytes, whatever its content."""
    bare = len(answer.model_copy(update={"padding": ""}).model_dump_json())
    if bare > ANSWER_BYTES:
        raise FleetError(f"Expected an answer of at most {ANSWER_BYTES} bytes, got {bare}.")
    return answer.model_copy(update={"padding": "-" * (ANSWER_BYTES - bare)}).model_dump_json().encode()
