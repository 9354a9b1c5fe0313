"""What devices and server say to each other.

Everything a device sends is signed (`signing.py`). Small things are JSON; a report and the messages of secure aggregation are
bytes. Times are seconds from now, never clock times, so that nobody's clock matters.

    POST /v1/enrol                              EnrolRequest → Enrolled             a token for a number, once
    POST /v1/check-in                           CheckIn → Answer                    a task, or when to come back
    GET  /v1/blobs/{sha256}                     bytes                               a plan, a checkpoint, a list of words
    PUT  /v1/rounds/{round}/report              report bytes → Received             an update, clipped by the device
    GET  /v1/rounds/{round}/secagg/session      SessionTerms, or 204 for not yet    secure aggregation: who could talk to whom
    POST /v1/rounds/{round}/secagg/{stage}      message bytes → Received            the device's message of a stage
    GET  /v1/rounds/{round}/secagg/{stage}      message bytes, or 204 for not yet   what the server has for the device

A refusal is `Refused` with status 4xx: one sentence, and whether it is worth trying again.

Answers to chosen and unchosen devices have the same size (`padded`), so that a listener does not read the choice off a
check-in. What a chosen device does next it can still see; no claim rests on that: a fleet's guarantee takes nothing from
sampling.
"""

from __future__ import annotations

import struct
from typing import Annotated, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict, Field

from tacit.errors import FleetError

ENROL, CHECK_IN, BLOBS, ROUNDS = "/v1/enrol", "/v1/check-in", "/v1/blobs", "/v1/rounds"
# JSON bodies are small; nothing larger is read.
MOST_JSON_BYTES = 4096
ANSWER_BYTES = 1536

Sha256 = Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]
RoundId = Annotated[str, Field(pattern=r"^[0-9a-f]{32}$")]
PublicKey = Annotated[str, Field(pattern=r"^[0-9a-f]{64}$", description="an Ed25519 public key, in hexadecimal")]
Signature = Annotated[str, Field(pattern=r"^[0-9a-f]{128}$", description="an Ed25519 signature, in hexadecimal")]
RoundNumber = Annotated[int, Field(ge=0, lt=2**31)]
# The stages in which a device speaks, in their order; what the server then has for it is fetched under the same name.
Stage = Literal["advertise", "share", "mask", "agree", "reveal"]


class Message(BaseModel):
    """JSON with exactly these fields."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class EnrolRequest(Message):
    """A device's first words: the token it was given, its public key, and a signature that shows it has the private one."""

    token: str = Field(min_length=16, max_length=128)
    identity: PublicKey
    proof: Signature


class Enrolled(Message):
    """The number the server knows the device by."""

    device: int = Field(ge=0)


class CheckIn(Message):
    """A device that is idle, charging and on an unmetered network has time; `busy_with` are tasks it will not take now.

    A device counts for itself: it is busy with tasks whose timer or limit it has not passed, and says for others which round it
    `was_in` last. That may be one the server counts nobody in, because it came to nothing; a place too near it would be
    given in vain. Nobody gets a place for what it says here.
    """

    busy_with: tuple[Sha256, ...] = Field(default=(), max_length=32)
    was_in: dict[Sha256, RoundNumber] = Field(default_factory=dict, max_length=32)


class Assignment(Message):
    """A place in a round. `task` names the description (a blob) that says what to do with the others."""

    round_id: RoundId
    task: Sha256
    round: RoundNumber
    checkpoint: Sha256
    upload_to: str = Field(max_length=256, description="address of the process that takes the report")
    clip_norm: float = Field(gt=0, description="in this round; infinite (a huge number) where nothing is clipped")
    threshold: float | None = Field(default=None, description="adaptive clipping: what the norm is compared to")
    signs_seed: Sha256 | None = Field(default=None, description="secure aggregation: seed of the public rotation")
    seconds_left: float = Field(ge=0)


class Answer(Message):
    """To a check-in: perhaps a place, and when to come back otherwise or afterwards."""

    assignment: Assignment | None
    come_back_s: float = Field(ge=0)
    padding: str = ""


class SecAggTerms(Message):
    """The encoding of vectors for secure aggregation (`tacit.secagg.encoding`), for updates divided by the round's clip."""

    dimension: int
    scale: float
    element_clip: int
    bits: int
    block: int
    rounding_failure: float
    local_variance: int = Field(
        ge=0, description="of the noise each device adds to each integer; 0: the server adds it"
    )
    weighted: bool = Field(description="whether the weight is one more integer after the update's")


class Task(Message):
    """What a device is asked to do, round after round: a public document, named by the SHA-256 of its bytes.

    The plan is compiled work (`tasks.py`): a pure function of the model, one user's batches, their number and the clip.
    Clipping, encoding, timer and limits are the device's own code; what is said of them here, it checks and enforces itself.
    """

    format: Literal[1] = 1
    name: str
    run: str = Field(default="", max_length=64, description="which run of that name: each is counted for itself")
    kind: Literal["train", "evaluate"]
    plan: Sha256
    vocabulary: Sha256
    layout: Literal["windows", "sentences"]
    length: int = Field(gt=0)
    batch_size: int = Field(gt=0)
    steps: int = Field(gt=0, description="batches of the largest device")
    model_shapes: tuple[tuple[int, ...], ...]
    update_shapes: tuple[tuple[int, ...], ...]
    clipping: Literal["flat", "per_layer"]
    example_cap: Annotated[float, Field(gt=0)] | None
    min_separation: int = Field(ge=0)
    max_participation: int = Field(ge=1)
    timer_s: float = Field(ge=0, allow_inf_nan=False)
    report_goal: int = Field(ge=1)
    secagg: SecAggTerms | None = None

    @property
    def dimension(self) -> int:
        """How many numbers an update has."""
        return sum(int(np.prod(shape)) for shape in self.update_shapes)


class SessionTerms(Message):
    """A session of secure aggregation (`tacit.secagg.session.Session`) and the device's number in it."""

    session_id: Sha256
    graph_seed: Sha256
    devices: int
    neighbours: int
    threshold: int
    minimum: int
    dimension: int
    bits: int
    index: int


class Received(Message):
    """The server has it. `repeated`: it had it already, and counts it once."""

    repeated: bool = False


class Refused(Message):
    """The server does not take it."""

    detail: str
    again: bool = Field(default=False, description="whether the same request may succeed later")


# magic, round, weight, whether the norm was within the threshold (+1, -1; 0 without adaptive clipping), numbers that follow
_REPORT = struct.Struct("<4s16sdbQ")
_REPORT_MAGIC = b"TUP1"


def report_bytes(dimension: int) -> int:
    """The exact size of a report."""
    return _REPORT.size + 4 * dimension


def pack_report(round_id: str, weight: float, within: int, update: NDArray[np.float32]) -> bytes:
    """A device's update, flat, clipped by the device and not yet weighed."""
    head = _REPORT.pack(_REPORT_MAGIC, bytes.fromhex(round_id), weight, within, len(update))
    return head + update.astype("<f4", copy=False).tobytes()


def unpack_report(body: bytes, round_id: str, dimension: int) -> tuple[float, int, NDArray[np.float32]]:
    """Weight, bit and update; FleetError unless it is a whole, finite report of this round and size."""
    if len(body) != report_bytes(dimension):
        raise FleetError(f"Expected a report of {report_bytes(dimension)} bytes, got {len(body)}.")
    magic, of_round, weight, within, count = _REPORT.unpack_from(body)
    if magic != _REPORT_MAGIC or count != dimension:
        raise FleetError("Expected a report in the format TUP1 with one number for each of the model's, got another.")
    if of_round.hex() != round_id:
        raise FleetError("Expected a report of this round, got one of another.")
    if not 0 <= weight <= 1 or within not in (-1, 0, 1):  # false for nan, too
        raise FleetError("Expected a weight from 0 to 1 and a bit of -1, 0 or 1 in the report, got others.")
    update = np.frombuffer(body, "<f4", offset=_REPORT.size)
    if not np.isfinite(update).all():
        raise FleetError("Expected finite numbers in the report, got inf or nan.")
    return weight, within, update


def padded(answer: Answer) -> bytes:
    """An answer as JSON of exactly ANSWER_BYTES, whatever it says."""
    bare = len(answer.model_copy(update={"padding": ""}).model_dump_json())
    if bare > ANSWER_BYTES:
        raise FleetError(f"Expected an answer of at most {ANSWER_BYTES} bytes, got {bare}.")
    return answer.model_copy(update={"padding": "-" * (ANSWER_BYTES - bare)}).model_dump_json().encode()
