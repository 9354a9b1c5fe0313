"""What a ledger's line can say: the five kinds of record, and their exact JSON.

A record is plain data without its place in the chain; the ledger adds that. JSON is canonical (sorted keys, no spaces,
floats that round-trip, no infinity and no NaN), so that a record has one spelling and one digest.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field, fields
from types import UnionType
from typing import Any, ClassVar, get_args, get_origin, get_type_hints

FORMAT = 3
FRESH_NOISE = "fresh noise, accounted again"
SEEDED_REPLAY = "seeded replay"
POLICIES = (FRESH_NOISE, SEEDED_REPLAY)
# The blocks of the gate, as intents name them.
UPDATE, WEIGHT, WITHIN = "update", "weight", "within"
OUTCOMES = ("finished", "diverged", "stopped")
# Whose data neighbouring data sets differ in: all of one user's.
UNIT = "user"


@dataclass(frozen=True)
class Record:
    """A line of the ledger without its place in the chain; its fields have exactly the types of their annotations."""

    kind: ClassVar[str]

    def __post_init__(self) -> None:
        for name, hint in _HINTS[self.kind].items():
            if not _fits(getattr(self, name), hint):
                raise TypeError(f"Expected {self.kind}.{name} to be {hint}, got {type(getattr(self, name)).__name__}.")


@dataclass(frozen=True)
class Opened(Record):
    """The run: its plan and mechanism, the data it reads (a description, never an id), its unit and adjacency.

    `strategy` describes how noise is correlated between rounds (`tacit.privacy.noise.strategies`), and is empty where it is
    independent. `rounds` is how many rounds are planned, a public constant: they are what the run is charged for, however
    early it ends (`record.planned`). `outside` holds version and description of what comes from outside Tacit, by field of the
    plan (`tacit.privacy.outside`). `reasons_not_private` is empty exactly when the run may claim a finite epsilon.
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
    reasons_not_private: list[str]
    data: dict[str, Any]
    unit: str
    adjacency: str
    outside: dict[str, Any] = field(default_factory=dict)


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
class Closed(Record):
    """The run ended before `round`. Only a run that was "stopped" can be resumed."""

    kind: ClassVar[str] = "closed"
    round: int
    outcome: str


_KINDS: dict[str, type[Record]] = {record.kind: record for record in (Opened, Intent, Committed, Resumed, Closed)}

_HINTS: dict[str, dict[str, Any]] = {
    kind: {each.name: get_type_hints(record)[each.name] for each in fields(record)} for kind, record in _KINDS.items()
}


def _fits(value: object, hint: Any) -> bool:
    if hint is Any:
        return True
    if hint in (int, float):
        return type(value) is int or (hint is float and isinstance(value, float))
    if isinstance(hint, UnionType):
        return any(_fits(value, each) for each in get_args(hint))
    if get_origin(hint) is list:
        return isinstance(value, list) and all(_fits(each, get_args(hint)[0]) for each in value)
    if get_origin(hint) is dict:
        key, item = get_args(hint)
        return isinstance(value, dict) and all(_fits(k, key) and _fits(v, item) for k, v in value.items())
    return isinstance(value, hint)


def canonical(value: dict[str, Any]) -> bytes:
    """The one way to write this JSON object; ValueError for infinity or NaN."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), allow_nan=False).encode("ascii")


def to_json(record: Record) -> dict[str, Any]:
    """The record as a JSON object: its kind and its fields."""
    return {each.name: getattr(record, each.name) for each in fields(record)} | {"kind": record.kind}


def from_json(content: dict[str, Any]) -> Record:
    """The record that `to_json` wrote; ValueError says why there is none."""
    kind = content.get("kind")
    if kind not in _KINDS:
        raise ValueError(f"the record kind {kind!r} is unknown to this version of Tacit")
    values = {name: value for name, value in content.items() if name != "kind"}
    if values.keys() != _HINTS[kind].keys():
        raise ValueError(f"the fields are not those of the record kind {kind!r}")
    try:
        return _KINDS[kind](**values)
    except TypeError as error:
        raise ValueError(str(error).rstrip(".")) from None
