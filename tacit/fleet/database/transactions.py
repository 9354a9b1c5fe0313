"""Open SQLite or PostgreSQL, with three kinds of transaction that behave alike on both.

SQLite is built in and serves one machine. PostgreSQL lets any number of processes share the work. The rest of the fleet relies
on these promises:

- `engine.begin()` is durable: when it returns, the transaction is on disk. SQLite takes its only write lock at the beginning,
  so that a transaction never has to be repeated. PostgreSQL locks rows as they are changed.
- `light_transaction(engine)` survives a kill of this process, but a power cut may lose the last second. It is for counters and
  places in a round: no promise depends on the last second of those.
- `read_only(engine)` sees what is committed and blocks nobody. On PostgreSQL each statement is a snapshot of its own.

A lost connection is noticed and replaced. The transaction that used it fails with SQLAlchemy's OperationalError; the caller may
try again.
"""

from __future__ import annotations

import os
import sqlite3
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext, suppress
from pathlib import Path
from typing import Any

from sqlalchemy import Connection, Engine, create_engine, event, make_url, text
from sqlalchemy.exc import ArgumentError, DBAPIError, InterfaceError, OperationalError, SQLAlchemyError
from sqlalchemy.exc import TimeoutError as PoolTimeout

from tacit.errors import FleetError

BUSY_S = 30
# In PostgreSQL's message, where waiting does not help.
_FINAL = (
    "authentication failed",
    "does not exist",
    "no password supplied",
    "no pg_hba.conf entry",
    "permission denied",
)
POOL = 20
_LIGHT, _READS, _SYNCHRONOUS = "tacit_light", "tacit_reads", "tacit_synchronous"
# SQLite waits for its lock by sleeping and trying again, which is unfair; threads of one process queue here instead.
ONE_WRITER = threading.Lock()


class DatabaseAway(FleetError):
    """The database does not answer; it may later."""


def may_pass(error: SQLAlchemyError) -> bool:
    """Whether the same transaction may succeed later: the connection was lost, or the database is down, busy or full."""
    if isinstance(error, DBAPIError):
        return error.connection_invalidated or isinstance(error, OperationalError | InterfaceError)
    return isinstance(error, PoolTimeout)


def open_database(url: str) -> Engine:
    """The database at `sqlite:///path` or `postgresql://…`; FleetError if it cannot be reached. No error shows the password."""
    try:
        parsed = make_url(url)
    except ArgumentError:
        raise FleetError(
            "Expected --database sqlite:///PATH or postgresql://…, got something that is not a URL."
        ) from None
    kind = parsed.get_backend_name()
    shown = parsed.render_as_string(hide_password=True)
    # Parameters are devices' numbers, keys and digests: an exception's text must not show them.
    common: dict[str, Any] = {"pool_size": POOL, "max_overflow": 0, "hide_parameters": True}
    if kind == "sqlite" and parsed.database not in (None, "", ":memory:"):
        _create_private(Path(str(parsed.database)))
        engine = create_engine(parsed, connect_args={"timeout": BUSY_S}, **common)
        _prepare_sqlite(engine)
    elif kind == "postgresql":
        try:
            engine = create_engine(
                parsed.set(drivername="postgresql+psycopg"),
                pool_pre_ping=True,
                connect_args={"connect_timeout": 5},
                **common,
            )
        except ImportError:
            raise FleetError(
                "PostgreSQL needs the extra tacit[postgres], which is not installed.",
                hint="pip install 'tacit[postgres]'",
            ) from None
    else:
        raise FleetError(f"Expected --database sqlite:///PATH or postgresql://…, got {shown}.")
    try:
        with read_only(engine) as connection:
            connection.execute(text("SELECT 1"))
    except SQLAlchemyError as error:
        engine.dispose()
        # A server that is down, or just starting, may come back; a wrong name or password does not become right.
        away = kind == "postgresql" and not any(word in str(error) for word in _FINAL)
        raise (DatabaseAway if away else FleetError)(
            f"Cannot reach the database {shown}.", hint="Check that it is running and that this user may open it."
        ) from None
    return engine


@contextmanager
def light_transaction(engine: Engine) -> Iterator[Connection]:
    """A transaction that survives a kill of the process but perhaps not a power cut. It cannot be nested."""
    one_writer = ONE_WRITER if engine.dialect.name == "sqlite" else nullcontext()
    with one_writer, engine.connect().execution_options(**{_LIGHT: True}) as connection, connection.begin():
        if engine.dialect.name == "postgresql":
            connection.execute(text("SET LOCAL synchronous_commit TO off"))
        yield connection


@contextmanager
def read_only(engine: Engine) -> Iterator[Connection]:
    """A connection that only reads."""
    isolation = {"isolation_level": "AUTOCOMMIT"} if engine.dialect.name == "postgresql" else {}
    with engine.connect().execution_options(**{_READS: True}, **isolation) as connection:
        yield connection


def _create_private(path: Path) -> None:
    """Create the file, readable by its owner alone: it lists who took part. SQLite's other files get the same mode."""
    with suppress(OSError):  # SQLite reports what is wrong with the path
        os.close(os.open(path, os.O_CREAT | os.O_RDWR, 0o600))


def _prepare_sqlite(engine: Engine) -> None:
    """Make SQLite's transactions keep the module's promises. By default the driver begins them late and without a lock."""

    @event.listens_for(engine, "connect")
    def connected(connection: sqlite3.Connection, _: object) -> None:
        connection.isolation_level = None
        for pragma in ("journal_mode=WAL", "foreign_keys=ON"):
            connection.execute(f"PRAGMA {pragma}")

    @event.listens_for(engine, "begin")
    def begun(connection: Connection) -> None:
        options = connection.get_execution_options()
        if options.get(_READS):
            connection.exec_driver_sql("BEGIN")
            return
        set_synchronous(connection.exec_driver_sql, connection.info, "NORMAL" if options.get(_LIGHT) else "FULL")
        connection.exec_driver_sql("BEGIN IMMEDIATE")


def set_synchronous(execute: Callable[[str], object], info: dict[Any, Any], wanted: str) -> None:
    """Let SQLite sync the next transactions of a connection, or not; `info` is of the connection and remembers which."""
    if info.get(_SYNCHRONOUS) != wanted:
        execute(f"PRAGMA synchronous={wanted}")
        info[_SYNCHRONOUS] = wanted
