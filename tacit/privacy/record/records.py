"""What a ledger's line can say: the seven kinds of record, and their exact JSON.

A record is plain data without its place in the chain; the ledger adds that. JSON is canonical (sorted keys, no spaces,
floats that round-trip, no infinity and no NaN), so that a record has one spelling and one digest. Reading is strict
(`record.codec`): an unknown field, a missing one and one of another type are refused.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field, fields
from typing import Any, ClassVar

from tacit.privacy.record import codec
from tacit.privacy.record.codec import Typed
from tacit.privacy.record.facts import (
    DataRecord,
    DiscoveryRecord,
    FleetRecord,
    GateAuditRecord,
    LettersRecord,
    PlantedCanaries,
    PretrainingRecord,
    ReleaseSize,
    SecureSumRecord,
    VocabularyRecord,
    WitnessRecord,
)
from tacit.privacy.record.reasons import Reason

FORMAT = 7
FRESH_NOISE = "fresh noise, accounted again"
SEEDED_REPLAY = "seeded replay"
SAME_SUM = "the last round's sum is still there, and is released once"
POLICIES = (FRESH_NOISE, SEEDED_REPLAY, SAME_SUM)
# The blocks of the gate, as intents name them.
UPDATE, WEIGHT, WITHIN = "update", "weight", "within"
OUTCOMES = ("finished", "diverged", "stopped")
# Whose data neighbouring data sets differ in: all of one user's.
UNIT = "user"


@dataclass(frozen=True)
class Record(Typed):
    """A line of the ledger without its place in the chain."""

    kind: ClassVar[str]


@dataclass(frozen=True)
class Opened(Record):
    """The run: its plan and mechanism, the data it reads (a name, never a user's id), its unit and adjacency.

    `strategy` describes how noise is correlated between rounds (`tacit.privacy.noise.strategies`), and is empty where it is
    independent. `rounds` is how many rounds are planned, a public constant: they are what the run is charged for, however
    early it ends (`record.planned`). `reasons_not_private` is empty exactly when the run may claim a finite epsilon.
    `recipe` is the SHA-256 of the settings that the run folder keeps. `evaluates` is the SHA-256 of the model that devices
    measure, where they train none. `batching` names a batching that is not Tacit's (`tacit.learning.batches`). `selected_by`
    are the runs whose releases decide which users this one reads. `discovery` says how words are found, in a run that finds
    words, and `letters` how, in one that finds them letter by letter; `vocabulary` names the run that found this one's.
    `witness` is who countersigns the ledger's heads.
    `notes` are what higher layers keep here for themselves, by owner (`record.notes`). `outside` holds version and description
    of what comes from outside Tacit, by field of the plan (`tacit.privacy.outside`).
    """

    kind: ClassVar[str] = "opened"
    run_id: str
    format: int
    tacit_version: str
    plan: dict[str, Any]
    mechanism: str
    strategy: dict[str, Any]
    population: int
    rounds: int
    seeded: bool
    reasons_not_private: tuple[Reason, ...]
    recipe: str
    release: ReleaseSize
    data: DataRecord
    unit: str
    adjacency: str
    secure_sum: SecureSumRecord | None = None
    planted: PlantedCanaries | None = None
    gate_audit: GateAuditRecord | None = None
    pretraining: PretrainingRecord | None = None
    discovery: DiscoveryRecord | None = None
    letters: LettersRecord | None = None
    vocabulary: VocabularyRecord | None = None
    fleet: FleetRecord | None = None
    witness: WitnessRecord | None = None
    batching: str | None = None
    evaluates: str | None = None
    selected_by: tuple[str, ...] = ()
    notes: dict[str, dict[str, Any]] = field(default_factory=dict)
    outside: dict[str, Any] = field(default_factory=dict)

    @property
    def finds_words(self) -> bool:
        """Whether the run finds words, and trains no model."""
        return self.discovery is not None or self.letters is not None

    @property
    def reads_everybody(self) -> bool:
        """Whether the run finds words and everybody is in every round, so that there is no sample to keep secret."""
        if self.letters is None:
            return self.discovery is not None
        return bool(self.plan["sampling"] == "poisson" and self.plan["cohort"] == self.plan["population"])

    @property
    def extended_from(self) -> tuple[int, ...]:
        """How many rounds were planned before each extension of the run; empty in the record itself (`ExtendedRun`)."""
        return ()


@dataclass(frozen=True)
class ExtendedRun(Opened):
    """The first record of a run that was extended, with the rounds that are planned now. It is never written to a ledger.

    A ledger gives it in place of its first record, so that whoever reads how many rounds are planned also learns that the
    number was settled after releases had been seen (`tacit.privacy.accounting.adaptive`).
    """

    extended_from: tuple[int, ...] = ()


@dataclass(frozen=True)
class Intent(Record):
    """A round that is about to touch users, and from here on counts as released.

    `sampling` names the sampler and its public constants; each of `blocks` has the `bound` on one user's share (None:
    not bounded) and its `noise_multiplier`; `participation` is the digest of the cohort's record; `restart` says that
    correlated noise begins anew with this round.
    """

    kind: ClassVar[str] = "intent"
    round: int
    attempt: int
    sampling: dict[str, Any]
    blocks: dict[str, dict[str, float | None]]
    denominator: float
    participation: str
    restart: bool = False


@dataclass(frozen=True)
class Committed(Record):
    """The checkpoint with this digest is durable and holds the latest attempt of every round before `rounds_done`."""

    kind: ClassVar[str] = "committed"
    rounds_done: int
    checkpoint: str


@dataclass(frozen=True)
class Resumed(Record):
    """The run goes on with `round`; `lost` are the [round, attempt] whose results no checkpoint in use holds."""

    kind: ClassVar[str] = "resumed"
    round: int
    lost: list[list[int]]
    policy: str


@dataclass(frozen=True)
class Extended(Record):
    """The run, which had finished, goes on: from here on `rounds` rounds are planned in all."""

    kind: ClassVar[str] = "extended"
    rounds: int


@dataclass(frozen=True)
class Adjusted(Record):
    """On devices: from `round` on, a round waits for so many reports, and for so long. The guarantee depends on neither."""

    kind: ClassVar[str] = "adjusted"
    round: int
    report_goal: int
    deadline_s: float


@dataclass(frozen=True)
class Closed(Record):
    """The run ended before `round`. A run that was "stopped" can be resumed, and one that has "finished" can be extended."""

    kind: ClassVar[str] = "closed"
    round: int
    outcome: str


_KINDS: dict[str, type[Record]] = {
    record.kind: record for record in (Opened, Intent, Committed, Resumed, Extended, Adjusted, Closed)
}


def extended(opened: Opened, rounds: int) -> ExtendedRun:
    """The first record of a run that goes on until `rounds` rounds are done."""
    known = {each.name: getattr(opened, each.name) for each in fields(Opened)}
    return ExtendedRun(**(known | {"rounds": rounds}), extended_from=(*opened.extended_from, opened.rounds))


def canonical(value: dict[str, Any]) -> bytes:
    """The one way to write this JSON object; ValueError for infinity or NaN."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), allow_nan=False).encode("ascii")


def to_json(record: Record) -> dict[str, Any]:
    """The record as a JSON object: its kind and its fields."""
    content: dict[str, Any] = codec.to_json(record)
    return content | {"kind": record.kind}


def from_json(content: dict[str, Any]) -> Record:
    """The record that `to_json` wrote; ValueError says why there is none."""
    kind = content.get("kind")
    if kind not in _KINDS:
        raise ValueError(f"the record kind {kind!r} is unknown to this version of Tacit")
    if kind == Opened.kind and (objection := format_objection(content.get("format"))) is not None:
        raise ValueError(objection)
    return codec.from_json(_KINDS[kind], {name: value for name, value in content.items() if name != "kind"})


def format_objection(format: object) -> str | None:
    """Why a ledger of this format cannot be read, or None."""
    return None if format == FORMAT else f"its format is {format}, and this version of Tacit reads format {FORMAT} only"
