"""A budget as its owner reads it: what it is, what is spent, what is left, and what is still open."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from tacit.numbers import finite_or_none
from tacit.privacy.accounting.budget_filter import Limit, most_rho
from tacit.privacy.statement.wording import counted, round_up, times
from tacit.runs.budget.account import Account, in_words, round_down, spent_of
from tacit.runs.budget.records import History, Job


@dataclass(frozen=True)
class BudgetStatus:
    """A budget. `spent` is what the account's charges come to under it; infinite, with `unknown`, if a cost is unknown.

    `open_runs` are those that have not ended, or were killed: they stay charged for all that they planned. `limits` are the
    budgets that were set, with when, oldest first, and `runs_before` is how many runs were charged when the first was set.

    >>> import tacit
    >>> def room_for(status: tacit.BudgetStatus, rho: float) -> bool:
    ...     return rho <= status.room
    """

    where: str
    limits: tuple[tuple[str, Limit], ...]
    raised: int
    runs_before: int
    spent: float
    unknown: str | None
    runs: int
    open_runs: tuple[Job, ...]
    history: History

    @property
    def limit(self) -> Limit:
        """The budget in force."""
        return self.limits[-1][1]

    @property
    def left(self) -> float:
        """What is left of ε, or of ρ."""
        return max(0.0, self.limit.value - self.spent)

    @property
    def room(self) -> float:
        """The largest ρ of one more Gaussian release that would be admitted."""
        return 0.0 if math.isinf(self.spent) else most_rho(self.history.charges, self.limit)

    @property
    def sentence(self) -> str:
        """The budget in one sentence."""
        symbol = self.limit.symbol
        raised = f"raised {times(self.raised)}" if self.raised else "never raised"
        after = f", set after {counted(self.runs_before, 'run')}" if self.runs_before else ""
        begins = f"The budget of {self.where} is {in_words(self.limit)}{after}, {raised}"
        if math.isinf(self.spent):
            return f"{begins}; what is spent is unknown, so every job is refused: {self.unknown}."
        spent, left = round_up(self.spent, 4), round_down(self.left)
        return f"{begins}: {symbol} = {spent} is spent or reserved, and {symbol} = {left} is left."

    def as_dict(self) -> dict[str, Any]:
        """For JSON: an infinite number is null."""
        return {
            "epsilon": self.limit.epsilon,
            "delta": self.limit.delta,
            "rho": self.limit.rho,
            "spent": finite_or_none(self.spent),
            "left": None if math.isinf(self.spent) else self.left,
            "unknown": self.unknown,
            "raised": self.raised,
            "runs_before": self.runs_before,
            "runs": self.runs,
            "open": [{"run_id": job.run, "run": job.place, "reserved": job.at} for job in self.open_runs],
            "set": [
                {"at": at, "epsilon": each.epsilon, "delta": each.delta, "rho": each.rho} for at, each in self.limits
            ],
        }


def status_of(account: Account) -> BudgetStatus | None:
    """The budget of this account; None if none was set."""
    history = account.history()
    spent = spent_of(history)
    if spent is None:
        return None
    return BudgetStatus(
        account.where,
        tuple((each.at, each.limit) for each in history.budgets),
        history.raised,
        history.runs_before,
        spent.value,
        spent.unknown,
        len(history.charges),
        tuple(job for job in history.jobs.values() if job.open),
        history,
    )
