"""What the ledger of an inspection says about it, so that a reviewer can see how users were chosen and what was done to them.

No cost is computed from this note. Which releases decided whom a run reads is a field of the first record itself
(`Opened.selected_by`).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, Protocol

from tacit.privacy.record.codec import Typed, to_json
from tacit.privacy.record.notes import Note


@dataclass(frozen=True)
class Threshold(Typed):
    """A number users are measured by: a public constant, or a quantile released with noise (`inspection.quantiles`).

    `noise_multiplier` is that release's z and `released_by` its run, whose cost composes with that of whatever is chosen by
    it; None says that the number was known before anybody's data was read.
    """

    value: float
    noise_multiplier: float | None = None
    released_by: str | None = None


@dataclass(frozen=True)
class SelectionRecord(Typed):
    """Which examples of which users a model learns from: a task of `inspection.selection` and its settings.

    `by` is what is chosen, a user or an example. What a task does not use is None.
    """

    task: str
    by: str | None = None
    predicted: str | None = None
    accuracy: str | None = None
    measure: str | None = None
    classes: tuple[int, ...] | None = None
    longest: int | None = None
    threshold: Threshold | None = None
    minimum_examples: int | None = None

    def settings(self) -> dict[str, Any]:
        """What is set, for the text of a recipe."""
        return _without_none(to_json(self))


@dataclass(frozen=True)
class FaultRecord(Typed):
    """A fault that was put into users' data on purpose (`tacit.data.faults`)."""

    kind: str
    share: float
    seed: int


class Fault(Protocol):
    """A recipe's section about a fault."""

    @property
    def kind(self) -> str: ...

    @property
    def share(self) -> float: ...

    @property
    def seed(self) -> int: ...


@dataclass(frozen=True)
class InspectionRecord(Note):
    """One model of an inspection: which one, the run of the classifier that judges users, the selection and the fault."""

    owner: ClassVar[str] = "inspection"
    stage: str
    classifier: str | None = None
    selection: SelectionRecord | None = None
    fault: FaultRecord | None = None


def fault_record(fault: Fault | None) -> FaultRecord | None:
    """The recipe's fault, for the ledger."""
    return None if fault is None else FaultRecord(fault.kind, fault.share, fault.seed)


def _without_none(settings: dict[str, Any]) -> dict[str, Any]:
    return {
        name: _without_none(each) if isinstance(each, dict) else each
        for name, each in settings.items()
        if each is not None
    }
