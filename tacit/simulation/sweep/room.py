"""Whether the budget of the people of each store suffices for all cases that are about to run, asked before the first begins.

Every case reserves what it costs when it begins, as every run does. Asking for all of them first keeps a sweep from ending
half done because the budget was never enough for the rest.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from tacit.privacy.accounting.charges import Charge, charge_of
from tacit.runs.budget.of_store import account_of
from tacit.runs.finding import is_run
from tacit.runs.folder import RunFolder
from tacit.simulation.sweep.cases import DONE, result_of
from tacit.simulation.sweep.folder import SettledCase, SweepFolder


def require_room_for(sweep: SweepFolder, cases: Iterable[SettledCase]) -> None:
    """BudgetError if those of these cases that are to run, and are not charged yet, do not fit together."""
    charges: dict[Path, dict[str, Charge]] = {}
    for case in cases:
        if case.store is None or account_of(case.store).history().limit is None:
            continue
        path = sweep.run_path(case)
        if result_of(sweep, case).state in DONE or (is_run(path) and RunFolder.open(path).begun):
            continue  # a run that has begun is charged for all its rounds
        charges.setdefault(case.store, {})[case.opened.run_id] = charge_of(case.opened)
    for store, planned in charges.items():
        account_of(store).require_room(planned)
