"""A process that runs made-up jobs on the people of a store, until it is killed or the budget refuses everything.

    python -m tests.support.budget_worker PEOPLE LEDGERS NAME RHO JOBS

PEOPLE is the folder of a store, or the URL of a fleet's database.
A job reserves RHO, writes a file into LEDGERS as a run writes its ledger, reserves again, and settles. What each process did is
in its exit code: how many jobs it ran.
"""

from __future__ import annotations

import sys
import time
from functools import cache
from pathlib import Path

from tacit.errors import BudgetError
from tacit.files import write_atomic
from tacit.fleet.database.budget_table import FleetAccount
from tacit.fleet.database.transactions import open_database
from tacit.privacy.accounting.charges import Charge
from tacit.runs.budget.account import Account
from tacit.runs.budget.of_store import account_of

engine_of = cache(open_database)


def opened(people: str) -> Account:
    """The account of these people."""
    return FleetAccount(engine_of(people)) if "://" in people else account_of(Path(people))


def main(people: str, ledgers: Path, name: str, rho: float, jobs: int) -> int:
    account, ran = opened(people), 0
    charge = Charge("user", "add or remove one user", rho=rho)
    (ledgers / f"{name}.ready").touch()
    while not (ledgers / "go").exists():
        time.sleep(0.005)
    for number in range(jobs):
        run = f"{name}-{number}"
        try:
            account.reserve(run, str(ledgers / run), lambda: charge)
            write_atomic(ledgers / run, f"{rho}")
            account.reserve(run, str(ledgers / run), lambda: charge)
        except BudgetError:
            break
        account.settle(run, lambda: charge)
        ran += 1
    return ran


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], Path(sys.argv[2]), sys.argv[3], float(sys.argv[4]), int(sys.argv[5])))
