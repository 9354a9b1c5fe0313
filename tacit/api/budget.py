"""The budget of a store's people, from Python: what `tacit budget` does."""

from __future__ import annotations

from pathlib import Path

from tacit.data.store import open_store
from tacit.privacy.accounting.budget_filter import require_limit
from tacit.runs.budget.listed import charged_runs
from tacit.runs.budget.of_store import account_of
from tacit.runs.budget.status import BudgetStatus, status_of


def budget_of(store: str | Path) -> BudgetStatus | None:
    """The budget of a store's people; None if none was set.

    >>> import tacit
    >>> try:
    ...     tacit.budget_of("data/nowhere")
    ... except tacit.TacitError as error:
    ...     print(error.sentence)
    There is no store data/nowhere.
    """
    return status_of(account_of(open_store(store).path))


def set_budget(
    store: str | Path, *, epsilon: float | None = None, delta: float | None = None, rho: float | None = None
) -> BudgetStatus:
    """Set the budget of a store's people, ε at δ or ρ, or change it; from then on every job that does not fit is refused.

    Runs that read them before are charged from their ledgers. BudgetError, and nothing is changed, if more is spent already.

    >>> import tacit
    >>> try:
    ...     tacit.set_budget("data/forum", epsilon=4.0)
    ... except tacit.TacitError as error:
    ...     print(error.sentence)
    Expected a delta beside epsilon, such as 1e-6, got none.
    """
    limit = require_limit(epsilon, delta, rho)
    place = open_store(store).path
    account = account_of(place)
    account.set_limit(limit, lambda history: charged_runs(place, history))
    found = status_of(account)
    assert found is not None
    return found
