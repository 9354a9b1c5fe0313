"""The audit of the gate inside a run: whether it is possible, and the users and mechanism that rounds use."""

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
    """Keeps a round's observations until the journal has fetched the round's numbers."""

    def settle(self, rounds_done: int) -> None: ...


@dataclass(frozen=True)
class GateAudit:
    """The users and the mechanism that a run uses, audited or not; a context manager that is left when the run stops."""

    users: Any
    mechanism: Mechanism
    folder: RunFolder
    _gate: Settles | None = None
    _writer: MetricsWriter | None = None

    def settle(self, rounds_done: int) -> None:
        """Write the observations of the rounds up to this one."""
        if self._gate is not None:
            self._gate.settle(rounds_done)

    def conclude(self) -> None:
        """When the run has ended: compute the result, and remove the observations."""
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
