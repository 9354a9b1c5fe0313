"""Results of `tacit budget`."""

from __future__ import annotations

from tacit.cli.results.base import Result, key, sometimes


class BudgetAsSet(Result):
    """A budget that was set."""

    at: str = key("when")
    epsilon: float | None = key("the most epsilon; null for a budget in rho")
    delta: float | None = key("its delta; null for a budget in rho")
    rho: float | None = key("the most rho; null for a budget in epsilon")


class OpenRun(Result):
    """A run that is charged and has not ended, or was killed."""

    run_id: str = key("the run's id")
    run: str = key("the run's folder")
    reserved: str = key("when it was charged")


class Budget(Result):
    """A budget and what is spent of it. The keys but `set` are left out if there is no budget."""

    epsilon: float | None = sometimes("the most epsilon; null for a budget in rho")
    delta: float | None = sometimes("its delta; null for a budget in rho")
    rho: float | None = sometimes("the most rho; null for a budget in epsilon")
    spent: float | None = sometimes("how much of it is spent or reserved; null if that is unknown")
    left: float | None = sometimes("how much of it is left; null if that is unknown")
    unknown: str | None = sometimes("why what is spent is unknown; null if it is known")
    raised: int | None = sometimes("how often it was raised")
    runs_before: int | None = sometimes("how many runs were charged when the first budget was set")
    runs: int | None = sometimes("how many runs are charged")
    open: list[OpenRun] | None = sometimes("the runs that have not ended, or were killed")
    set: list[BudgetAsSet] = key("every budget that was set, oldest first; empty if there is none")


class BudgetResult(Budget):
    """The budget of a store's people."""

    store: str = key("the folder of the store")
    room: float | None = sometimes("the largest rho of one more release of Gaussian noise that would be admitted")


class FleetBudgetResult(Budget):
    """The budget of a fleet's devices. If there is none, `set` is empty and the rest null."""

    sentence: str = key("the budget in one sentence")


class SettledRun(Result):
    """An open run, and what became of it."""

    run_id: str = key("the run's id")
    run: str = key("the run's folder")
    outcome: str = key('"settled", "given back", or why it stays open')


class SettleResult(Result):
    """The runs that were open."""

    runs: list[SettledRun] = key("each of them")
