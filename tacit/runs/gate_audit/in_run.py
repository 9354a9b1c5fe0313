"""The audit of the gate as a run holds it: whether there can be one, and the users and mechanism that rounds go through."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol, Self

from tacit.errors import DivergedError
from tacit.privacy.noise.mechanisms import Mechanism
from tacit.privacy.plan import PrivacyPlan
from tacit.runs.folder import RunFolder
from tacit.runs.gate_audit.outcome import conclude, no_audit_section
from tacit.runs.metrics import MetricsWriter
from tacit.runs.report.sections import write_section


class Settles(Protocol):
    """What keeps a round's observations until the journal looks at the round."""

    def settle(self, rounds_done: int) -> None: ...


@dataclass(frozen=True)
class GateAudit:
    """The users and the mechanism that a run goes through, audited or not; leave it when the run stops."""

    users: Any
    mechanism: Mechanism
    folder: RunFolder
    _gate: Settles | None = None
    _writer: MetricsWriter | None = None

    def settle(self, rounds_done: int) -> None:
        """Write down what the rounds up to this many showed."""
        if self._gate is not None:
            self._gate.settle(rounds_done)

    def conclude(self) -> None:
        """The run has ended: compute the result, and remove what it was computed from."""
        if self._writer is not None:
            self._writer.close()
            conclude(self.folder)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *error: object) -> None:
        if self._writer is not None:
            self._writer.close()
        if kind is not None and issubclass(kind, DivergedError):
            self.conclude()


def not_audited(users: Any, mechanism: Mechanism, folder: RunFolder, reason: str) -> GateAudit:
    """The users and the mechanism as they are; the report says why there is no audit."""
    write_section(folder, no_audit_section(reason))
    return GateAudit(users, mechanism, folder)


def why_not(plan: PrivacyPlan, *, wanted: bool, simulated: bool) -> str | None:
    """Why the gate of such a run is not audited; None if it is."""
    if not wanted:
        return "the recipe says audit.gate = false"
    if not simulated:
        return "its users are real devices, and nobody else's contributions are let in among theirs"
    if not plan.claims:
        return "no noise is added, so no noise can be held against the ledger"
    if plan.secagg is not None:
        return "its sums are those of integers under secure aggregation, which canaries of this kind cannot join"
    if not plan.kind.gaussian_noise:
        return "its mechanism does not add Gaussian noise of the stated scale, which is what the audit tests"
    return None
