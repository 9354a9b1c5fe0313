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

from tacit.fleet.database.leases import Lease, hold
from tacit.fleet.database.schema import budget_lines, participations, schema_version, tasks
from tacit.fleet.database.transactions import read_only
from tacit.privacy.accounting.charges import Charge
from tacit.runs.budget.account import Account, Held
from tacit.runs.budget.records import History


class DatabaseLines:
    """The lines in the database; with a lease, lines are added only while this process holds it."""

    from_the_first, where = True, "this fleet"

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

    def settle(self, run: str, charge: Callable[[], Charge | None]) -> None:
        """As an account does."""
        with suppress(SQLAlchemyError):
            super().settle(run, charge)


def _lines(connection: Connection) -> list[bytes]:
    rows = connection.execute(select(budget_lines.c.line).order_by(budget_lines.c.number))
    return [row.line.encode("ascii") for row in rows]
