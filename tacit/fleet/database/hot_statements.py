"""Transactions of the few statements that every check-in and every report needs, given to the database's driver itself.

SQLAlchemy takes longer for such a statement and its transaction than SQLite. So the SQL of a statement is made once, and runs
on the driver's own connection, which comes from the same pool. `light` and `reading` keep the promises of
`transactions.light_transaction` and `read_only`, and what fails is the same `SQLAlchemyError`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager, nullcontext
from functools import lru_cache, partial
from typing import Any, cast

from sqlalchemy import Engine, Executable
from sqlalchemy.engine import Dialect
from sqlalchemy.exc import DBAPIError
from sqlalchemy.sql import ClauseElement

from tacit.fleet.database.transactions import ONE_WRITER, set_synchronous


class DriverConnection:
    """A connection of the driver, which runs statements as SQLAlchemy's `Connection` does."""

    def __init__(self, dialect: Dialect, connection: Any) -> None:
        self._dialect, self._connection = dialect, connection

    def execute(self, statement: Executable, values: Mapping[str, Any] | None = None) -> Any:
        """The driver's cursor, with `fetchall` and `rowcount`. It takes and returns numbers, text and bytes, not converted.

        The SQL is remembered, so the statement should be one that is made once.
        """
        sql, constants, order = _made(statement, self._dialect)
        given = {**constants, **(values or {})}
        return self._connection.execute(sql, given if order is None else [given[name] for name in order])

    def rollback(self) -> None:
        """Undo what the transaction has changed, and end it."""
        self._connection.rollback()


@lru_cache(256)
def _made(statement: Executable, dialect: Dialect) -> tuple[str, Mapping[str, Any], list[str] | None]:
    """The SQL, the statement's own parameters, and the order of all parameters if the driver takes them without names."""
    compiled = cast(ClauseElement, statement).compile(dialect=dialect)
    constants = {name: value for name, value in compiled.params.items() if value is not None}
    return str(compiled), constants, getattr(compiled, "positiontup", None)


@contextmanager
def light(engine: Engine) -> Iterator[DriverConnection]:
    """`transactions.light_transaction`: it survives a kill of the process. An exception undoes it."""
    is_sqlite = engine.dialect.name == "sqlite"
    with ONE_WRITER if is_sqlite else nullcontext(), _pooled(engine) as pooled:
        connection = pooled.dbapi_connection
        if is_sqlite:
            set_synchronous(connection.execute, pooled.info, "NORMAL")
            connection.execute("BEGIN IMMEDIATE")
        else:
            connection.execute("SET LOCAL synchronous_commit TO off")  # psycopg begins the transaction
        yield DriverConnection(engine.dialect, connection)
        connection.commit()


@contextmanager
def reading(engine: Engine) -> Iterator[DriverConnection]:
    """`transactions.read_only`, without a transaction: each statement sees what is committed by then."""
    with _pooled(engine) as pooled:
        connection = pooled.dbapi_connection
        if engine.dialect.name == "sqlite":  # it is in no transaction unless it is told to begin one
            yield DriverConnection(engine.dialect, connection)
            return
        connection.autocommit = True
        try:
            yield DriverConnection(engine.dialect, connection)
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
