"""The account of a fleet's devices, in the database: the same lines as a store's account has (`tacit.runs.budget`).

Runs are entered from the first on, whether there is a budget or not, because whoever sets one may not see the run folders. One
transaction at a time has the lines: it locks the row of the schema's version, as other work of coordinators does. A line is
durable when the transaction ends, and a coordinator that has lost its lease adds none.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager, suppress

from sqlalchemy import Connection, Engine, insert, select
from sqlalchemy.exc import SQLAlchemyError

from tacit.errors import BudgetError
from tacit.fleet.database.leases import Lease, hold
from tacit.fleet.database.schema import budget_lines, participations, schema_version, tasks
from tacit.fleet.database.transactions import read_only
from tacit.privacy.accounting.budget_filter import Limit
from tacit.privacy.accounting.charges import Charge
from tacit.runs.budget.account import Account, Held, in_words
from tacit.runs.budget.records import History


class DatabaseLines:
    """The lines in the database; with a lease, lines are added only while this process holds it."""

    from_the_first, where = True, "this fleet"
    remedy = "Serve that run's folder once with tacit serve, before a budget is set: then the account has what it cost."

    def __init__(self, engine: Engine, lease: Lease | None = None) -> None:
        self._engine, self._lease = engine, lease

    @contextmanager
    def held(self, *, make: bool = False) -> Iterator[Held | None]:
        """The lines, for this transaction alone."""
        with self._engine.begin() as connection:
            if self._lease is not None:
                hold(connection, self._lease)
            connection.execute(select(schema_version).with_for_update())
            yield _HeldTable(connection)

    def read(self) -> Sequence[bytes]:
        """The lines as they are now."""
        with read_only(self._engine) as connection:
            return _lines(connection)

    def check(self, history: History) -> None:
        """Nothing: nobody cuts off rows without being able to change the rest of the database as well."""

    def begun_runs(self) -> Collection[str]:
        """The runs that devices took part in."""
        query = select(tasks.c.description).where(tasks.c.task.in_(select(participations.c.task).distinct()))
        with read_only(self._engine) as connection:
            return {str(json.loads(row.description).get("run", "")) for row in connection.execute(query)}

    def budget_was_set(self, history: History) -> None:
        """Nothing, for the same reason."""


class _HeldTable:
    """The table, in a transaction that nobody else has at the same time."""

    lines: Sequence[bytes]

    def __init__(self, connection: Connection) -> None:
        self._connection, self.lines = connection, _lines(connection)
        self._next = len(self.lines)

    def append(self, line: bytes) -> None:
        """Add a line; it is durable when the transaction ends."""
        self._connection.execute(insert(budget_lines).values(number=self._next, line=line.decode("ascii")))
        self._next += 1


class FleetAccount(Account):
    """The account of a fleet's devices. If the database is away when a run ends, the run stays charged as it is."""

    def __init__(self, engine: Engine, lease: Lease | None = None) -> None:
        super().__init__(DatabaseLines(engine, lease))

    def begin_with(self, limit: Limit) -> None:
        """Set the first budget; BudgetError if another is in force: a server that starts again does not change it."""
        known = self.history().limit
        if known is None:
            self.set_limit(limit)
        elif known != limit:
            raise BudgetError(
                f"The budget of this fleet is {in_words(known)}, and the server was started with {in_words(limit)}.",
                hint="tacit fleet budget set changes it; start the server with the one that is in force, or without.",
            )

    def enter(self, run: str, place: str, charge: Callable[[], Charge]) -> None:
        """Settle a run that has finished; it is entered if it is older than the account and there is no budget yet."""
        history = self.history()
        if history.limit is None and run not in history.jobs:
            self.reserve(run, place, charge)
        self.settle(run, charge)

    def settle(self, run: str, charge: Callable[[], Charge | None]) -> None:
        """As an account does."""
        with suppress(SQLAlchemyError):
            super().settle(run, charge)


def _lines(connection: Connection) -> list[bytes]:
    rows = connection.execute(select(budget_lines.c.line).order_by(budget_lines.c.number))
    return [row.line.encode("ascii") for row in rows]
