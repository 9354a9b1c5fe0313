"""The task description that devices download, and the terms of secure aggregation."""

from __future__ import annotations

import dataclasses
import hashlib
import json
from typing import Annotated, Literal, Protocol

import numpy as np
from pydantic import Field

from tacit.fleet.wire.messages import Message, Sha256
from tacit.secagg.discrete_gaussian import LARGEST_VARIANCE
from tacit.secagg.encoding import Encoding
from tacit.secagg.session import Session

_ENCODING = ("dimension", "scale", "element_clip", "bits", "block", "rounding_failure")
_SESSION_BYTES = ("session_id", "graph_seed")
_SESSION_LABEL = b"tacit fleet session v1\0"


class SecAggTerms(Message):
    """How devices encode vectors for secure aggregation (`tacit.secagg.encoding`).

    Updates are divided by the clip norm first.
    """

    dimension: int
    scale: float
    element_clip: int
    bits: int
    block: int
    rounding_failure: float
    local_variance: int = Field(
        ge=0,
        le=LARGEST_VARIANCE,
        description="variance of each device's noise on each integer; 0: the server adds the noise",
    )
    weighted: bool = Field(description="whether the weight follows the update as one more integer")

    @classmethod
    def of(cls, encoding: Encoding, *, local_variance: int, weighted: bool) -> SecAggTerms:
        """The terms of this encoding, whose clip norm is 1."""
        values = {name: getattr(encoding, name) for name in _ENCODING}
        return cls(**values, local_variance=local_variance, weighted=weighted)

    def encoding(self) -> Encoding:
        """The encoding that the terms describe; ProtocolError if they are inconsistent."""
        return Encoding(clip_norm=1.0, **{name: getattr(self, name) for name in _ENCODING})


class LetterTerms(Message):
    """Which words of a user are looked for, in a task that finds words letter by letter (`tacit.data.spelling`).

    Words of the task's vocabulary are not, nor are words with more letters than its rows have room for.
    """

    alphabet: str = Field(min_length=2)
    most_words: int = Field(ge=1)


class NoiseTerms(Message):
    """The noise that the server says it adds to each round, so that a device can say what that would cost it.

    `multiplier` is of all blocks of a round together. `moved_squared` says how far 1, 2, … participations of one device, as far
    apart as the task allows, move all that is released, squared and in units of the clip; empty for independent noise, where
    each participation adds 1.
    """

    mechanism: str = Field(max_length=128)
    multiplier: Annotated[float, Field(ge=0, allow_inf_nan=False)]
    moved_squared: tuple[Annotated[float, Field(gt=0, allow_inf_nan=False)], ...] = Field(default=(), max_length=64)


class DeviceTask(Message):
    """The work of a device in every round of a run: a public document, named by the SHA-256 of its bytes.

    `plan` is compiled code (`rounds/task_compiler.py`): a pure function of the model, one user's batches, their number and the
    clip norm. Clipping, encoding, timer and limits are the device's own code; the device enforces the values given here.
    """

    format: Literal[1] = 1
    name: str
    run: str = Field(default="", max_length=64, description="the run; participation is counted for each run separately")
    kind: Literal["train", "evaluate", "discover"]
    plan: Sha256
    vocabulary: Sha256
    layout: Literal["windows", "sentences"]
    length: int = Field(gt=0)
    batch_size: int = Field(gt=0)
    steps: int = Field(gt=0, description="number of batches of the largest device")
    model_shapes: tuple[tuple[int, ...], ...]
    update_shapes: tuple[tuple[int, ...], ...]
    clipping: Literal["flat", "per_layer"]
    example_cap: Annotated[float, Field(gt=0, allow_inf_nan=False)] | None
    min_separation: int = Field(ge=0)
    max_participation: int = Field(ge=1)
    timer_s: float = Field(ge=0, allow_inf_nan=False)
    report_goal: int = Field(ge=1)
    clip_norm: Annotated[float, Field(gt=0, allow_inf_nan=False)] | None = Field(
        default=None, description="the largest clip norm of any round; none if it is adapted"
    )
    noise_multiplier: float = Field(
        default=0.0,
        ge=0,
        allow_inf_nan=False,
        description="of each round's sum of updates; the server's word if it adds it",
    )
    noise: NoiseTerms | None = Field(default=None, description="none: the device cannot say what the rounds cost")
    secagg: SecAggTerms | None = None
    letters: LetterTerms | None = None

    @property
    def dimension(self) -> int:
        """The number of entries of an update."""
        return sum(int(np.prod(shape)) for shape in self.update_shapes)


class Tried(Protocol):
    """What all devices of one try at a round have to be told alike: an `Assignment`, or the server's row of the try."""

    @property
    def round_id(self) -> str: ...
    @property
    def task(self) -> str: ...
    @property
    def round(self) -> int: ...
    @property
    def checkpoint(self) -> str: ...
    @property
    def clip_norm(self) -> float: ...
    @property
    def threshold(self) -> float | None: ...
    @property
    def signs_seed(self) -> str | None: ...


def session_id_of(tried: Tried) -> bytes:
    """The name of this try's session of secure aggregation, which all its devices compute from what they were told.

    Masks hide a vector in the sum only if the others' vectors are there too. A server that gave all devices but one a model on
    which they learn nothing, or a clip norm that makes their vectors short, would read the one's vector in the sum. The name is
    part of the session's context, so that devices which were told different models, plans, clip norms, thresholds or rotations
    cannot complete a single step together. A try has a random name of its own, so no session is named twice.
    """
    clip, threshold = float(tried.clip_norm), None if tried.threshold is None else float(tried.threshold)
    told = [tried.round_id, tried.task, int(tried.round), tried.checkpoint, clip, threshold, tried.signs_seed]
    return hashlib.sha256(_SESSION_LABEL + json.dumps(told).encode()).digest()


class SessionTerms(Message):
    """The constants of a session of secure aggregation (`tacit.secagg.session`), and the device's number in it.

    `session_id` has to be `session_id_of` the device's assignment.
    """

    session_id: Sha256
    graph_seed: Sha256
    devices: int
    neighbours: int
    threshold: int
    minimum: int
    dimension: int
    bits: int
    index: int

    @classmethod
    def of(cls, session: Session, index: int) -> SessionTerms:
        """What the server sends to the device with this number."""
        values = dataclasses.asdict(session)
        return cls(**{**values, **{name: values[name].hex() for name in _SESSION_BYTES}}, index=index)

    def session(self) -> Session:
        """The session that the terms describe; ProtocolError if they are inconsistent."""
        values = self.model_dump(exclude={"index"})
        return Session(**{**values, **{name: bytes.fromhex(values[name]) for name in _SESSION_BYTES}})
