"""The lines of an account, and what follows from them: the budget, who is charged what, and what is still open.

    set      the budget from now on, and, the first time, what the runs that read these people before are charged for
    reserve  a run is about to read these people, and is charged for all that it plans
    settle   it has ended, and is charged for what its ledger says; or it never began, and is charged nothing

Each line is canonical JSON with the digest of the line before it and its own, like the lines of the odometer.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, ClassVar

from tacit.errors import BudgetError
from tacit.privacy.accounting.budget_filter import Limit
from tacit.privacy.accounting.charges import Charge
from tacit.privacy.record import codec
from tacit.privacy.record.codec import Typed
from tacit.privacy.record.records import canonical

_BEFORE_THE_FIRST = "0" * 64


@dataclass(frozen=True)
class ChargedRun(Typed):
    """A run that read these people before there was a budget; `ended`: whether it was at its end."""

    run: str
    place: str
    charge: Charge
    ended: bool


@dataclass(frozen=True)
class SetBudget(Typed):
    """The budget from now on."""

    kind: ClassVar[str] = "set"
    limit: Limit
    at: str
    runs: tuple[ChargedRun, ...] = ()


@dataclass(frozen=True)
class Reserved(Typed):
    """A run is charged for all that it plans."""

    kind: ClassVar[str] = "reserve"
    run: str
    place: str
    charge: Charge
    at: str


@dataclass(frozen=True)
class Settled(Typed):
    """A run has ended, and is charged this; None: it never began."""

    kind: ClassVar[str] = "settle"
    run: str
    charge: Charge | None
    at: str


Line = SetBudget | Reserved | Settled
_KINDS: dict[str, type[SetBudget] | type[Reserved] | type[Settled]] = {
    each.kind: each for each in (SetBudget, Reserved, Settled)
}


@dataclass(frozen=True)
class Job:
    """A run in the account: where its folder was, what it is charged for (None: nothing), and whether that is settled."""

    run: str
    place: str
    charge: Charge | None
    open: bool
    at: str


@dataclass
class History:
    """What the lines so far come to.

    `runs_before` is how many runs were charged when the first budget was set, which may have been chosen by looking at them.
    """

    length: int = 0
    head: str = _BEFORE_THE_FIRST
    digests: list[str] = field(default_factory=list)
    budgets: list[SetBudget] = field(default_factory=list)
    jobs: dict[str, Job] = field(default_factory=dict)
    runs_before: int = 0

    @classmethod
    def of(cls, lines: Iterable[bytes], where: str) -> History:
        """What these lines come to; BudgetError names the first that does not belong there."""
        found = cls()
        for line in lines:
            try:
                content = json.loads(line)
                digest, previous = content.pop("digest"), content.pop("previous")
                if canonical(content | {"digest": digest, "previous": previous}) != line or previous != found.head:
                    raise ValueError
                if digest != _digest(content | {"previous": previous}):
                    raise ValueError
                found.take(codec.from_json(_KINDS[content.pop("kind")], content), digest)
            except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
                raise BudgetError(
                    f"The account {where} is damaged at line {found.length + 1}: it was changed, or a line before it is "
                    "missing."
                ) from None
        return found

    @property
    def limit(self) -> Limit | None:
        """The budget in force."""
        return self.budgets[-1].limit if self.budgets else None

    @property
    def charges(self) -> dict[str, Charge]:
        """What is charged, by run."""
        return {run: job.charge for run, job in self.jobs.items() if job.charge is not None}

    @property
    def raised(self) -> int:
        """How often the budget was raised."""
        pairs = zip(self.budgets, self.budgets[1:], strict=False)
        return sum(later.limit.value > earlier.limit.value for earlier, later in pairs)

    def write(self, line: Line) -> tuple[bytes, str]:
        """The line (without an end) that puts this next in the chain, and its digest."""
        content: dict[str, Any] = codec.to_json(line) | {"kind": line.kind, "previous": self.head}
        digest = _digest(content)
        return canonical(content | {"digest": digest}), digest

    def take(self, line: Line, digest: str) -> None:
        """Go on with this line."""
        match line:
            case SetBudget():
                for each in line.runs:
                    self.jobs[each.run] = Job(each.run, each.place, each.charge, not each.ended, line.at)
                if not self.budgets:
                    self.runs_before = len(self.charges)
                self.budgets.append(line)
            case Reserved():
                self.jobs[line.run] = Job(line.run, line.place, line.charge, True, line.at)
            case Settled():
                before = self.jobs[line.run]  # KeyError: nothing was reserved for it
                self.jobs[line.run] = Job(line.run, before.place, line.charge, False, line.at)
        self.length, self.head = self.length + 1, digest
        self.digests.append(digest)


def now() -> str:
    """The time, as lines have it."""
    return datetime.now(UTC).isoformat(timespec="seconds")


def _digest(content: dict[str, Any]) -> str:
    return hashlib.sha256(canonical(content)).hexdigest()
