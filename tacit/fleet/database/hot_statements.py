"""Transactions of the few statements that every check-in and every report needs, given to the database's driver itself.

SQLAlchemy takes longer for such a statement and its transaction than SQLite. So the SQL of a `Statement` is made once, and runs
on the driver's own connection, which comes from the same pool. `light` and `reading` keep the promises of
`transactions.light_transaction` and `read_only`, and what fails is the same `SQLAlchemyError`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager, nullcontext
from functools import partial
from typing import Any

from sqlalchemy import Engine, Executable
from sqlalchemy.engine import Dialect
from sqlalchemy.exc import DBAPIError
from sqlalchemy.sql import ClauseElement

from tacit.fleet.database.transactions import ONE_WRITER, set_synchronous


class Statement:
    """A statement with named parameters. Its values are given as the driver takes them: numbers, text, bytes."""

    def __init__(self, clause: Executable) -> None:
        assert isinstance(clause, ClauseElement)
        self._clause = clause
        self._made: dict[str, tuple[str, Mapping[str, Any], list[str] | None]] = {}

    def for_driver(self, dialect: Dialect, values: Mapping[str, Any]) -> tuple[str, Any]:
        """SQL and parameters."""
        if (made := self._made.get(dialect.name)) is None:
            compiled = self._clause.compile(dialect=dialect)
            constants: Mapping[str, Any] = {name: value for name, value in compiled.params.items() if value is not None}
            made = self._made[dialect.name] = str(compiled), constants, getattr(compiled, "positiontup", None)
        sql, constants, order = made
        given = {**constants, **values}
        return sql, given if order is None else [given[name] for name in order]


class Driver:
    """A connection of the driver, in a transaction."""

    def __init__(self, dialect: Dialect, connection: Any) -> None:
        self._dialect, self._connection = dialect, connection

    def rows(self, statement: Statement, **values: Any) -> list[tuple[Any, ...]]:
        """All rows that the statement returns."""
        found: list[tuple[Any, ...]] = self._connection.execute(*statement.for_driver(self._dialect, values)).fetchall()
        return found

    def changed(self, statement: Statement, **values: Any) -> int:
        """The number of rows that the statement has changed."""
        return int(self._connection.execute(*statement.for_driver(self._dialect, values)).rowcount)

    def rollback(self) -> None:
        """Undo what the transaction has changed, and end it."""
        self._connection.rollback()


@contextmanager
def light(engine: Engine) -> Iterator[Driver]:
    """`transactions.light_transaction`: it survives a kill of the process. An exception undoes it."""
    is_sqlite = engine.dialect.name == "sqlite"
    with ONE_WRITER if is_sqlite else nullcontext(), _pooled(engine) as pooled:
        connection = pooled.dbapi_connection
        if is_sqlite:
            set_synchronous(connection.execute, pooled.info, "NORMAL")
            connection.execute("BEGIN IMMEDIATE")
        else:
            connection.execute("SET LOCAL synchronous_commit TO off")  # psycopg begins the transaction
        yield Driver(engine.dialect, connection)
        connection.commit()


@contextmanager
def reading(engine: Engine) -> Iterator[Driver]:
    """`transactions.read_only`: what is committed, on PostgreSQL by each statement anew."""
    with _pooled(engine) as pooled:
        connection = pooled.dbapi_connection
        if engine.dialect.name == "sqlite":
            connection.execute("BEGIN")
            yield Driver(engine.dialect, connection)
            return
        connection.autocommit = True
        try:
            yield Driver(engine.dialect, connection)
        finally:
            if not connection.closed:
                connection.autocommit = False


@contextmanager
def _pooled(engine: Engine) -> Iterator[Any]:
    """A connection of the pool. What is not committed is rolled back when it returns there."""
    dialect, pooled = engine.dialect, None
    try:
        pooled = engine.raw_connection()
        yield pooled
    except dialect.loaded_dbapi.Error as error:
        lost = pooled is not None and dialect.is_disconnect(error, pooled.dbapi_connection, None)
        if pooled is not None and lost:
            pooled.invalidate(error)
        # The error that SQLAlchemy itself would raise.
        wrap = partial(DBAPIError.instance, None, None, error, dialect.loaded_dbapi.Error)
        raise wrap(hide_parameters=True, connection_invalidated=lost, dialect=dialect) from error
    finally:
        if pooled is not None:
            pooled.close()
