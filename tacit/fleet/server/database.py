"""SQLite or PostgreSQL, and how one becomes the other's equal.

SQLite is built in and serves one machine; PostgreSQL lets any number of processes share the work. What the rest of the fleet
relies on, and both then give:

- `engine.begin()` is a transaction that is on disk when it returns. On SQLite it takes the one write lock at its beginning, so
  that a transaction never has to be run again; on PostgreSQL rows are locked as they are changed.
- `lightly(engine)` is a transaction that survives the death of this process, and of a machine without power but for its last
  second: for counters and places, of which so little is lost that no promise depends on it.
- `reading(engine)` sees what is committed and holds nobody up; each statement is a snapshot of its own on PostgreSQL.

A lost connection is noticed and replaced; what was under way fails with SQLAlchemy's OperationalError and may be tried again.
"""

from __future__ import annotations

import os
import sqlite3
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext, suppress
from pathlib import Path
from typing import Any

from sqlalchemy import Connection, Engine, create_engine, event, insert, make_url, select, text, update
from sqlalchemy.exc import ArgumentError, SQLAlchemyError

from tacit.errors import FleetError
from tacit.fleet.server import schema

BUSY_S = 30
POOL = 20
_LIGHT, _READS, _SYNCHRONOUS = "tacit_light", "tacit_reads", "tacit_synchronous"
# The advisory lock under which processes that start together migrate one after the other: an arbitrary number.
_MIGRATION_LOCK = 0x7AC17
# SQLite's own waiting is a sleep between tries, and unfair; threads of one process queue here instead.
_ONE_WRITER = threading.Lock()
# From the version before to this one: statements that both databases understand.
MIGRATIONS: Mapping[int, Sequence[str]] = {}


def open_database(url: str) -> Engine:
    """The database at `sqlite:///path` or `postgresql://…`; FleetError, without the URL's password, if it cannot be reached."""
    try:
        parsed = make_url(url)
    except ArgumentError:
        raise FleetError("Expected --database sqlite:///PATH or postgresql://…, got no URL.") from None
    kind = parsed.get_backend_name()
    shown = parsed.render_as_string(hide_password=True)
    # Parameters are devices' numbers, keys and digests: they are not to be in the words of an exception.
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
            raise FleetError("PostgreSQL needs the extra tacit[postgres], which is not installed.") from None
    else:
        raise FleetError(f"Expected --database sqlite:///PATH or postgresql://…, got {shown}.")
    try:
        with reading(engine) as connection:
            connection.execute(text("SELECT 1"))
    except SQLAlchemyError:
        engine.dispose()
        raise FleetError(
            f"Cannot reach the database {shown}.", hint="Is it running, and may this user open it?"
        ) from None
    return engine


@contextmanager
def lightly(engine: Engine) -> Iterator[Connection]:
    """A transaction that a killed process does not lose and a power cut may. Not to be nested."""
    one_writer = _ONE_WRITER if engine.dialect.name == "sqlite" else nullcontext()
    with one_writer, engine.connect().execution_options(**{_LIGHT: True}) as connection, connection.begin():
        if engine.dialect.name == "postgresql":
            connection.execute(text("SET LOCAL synchronous_commit TO off"))
        yield connection


@contextmanager
def reading(engine: Engine) -> Iterator[Connection]:
    """A connection that only reads."""
    isolation = {"isolation_level": "AUTOCOMMIT"} if engine.dialect.name == "postgresql" else {}
    with engine.connect().execution_options(**{_READS: True}, **isolation) as connection:
        yield connection


def migrate(engine: Engine) -> None:
    """Bring the tables to this version; nothing happens if they are, and processes that start together do it once."""
    with engine.begin() as connection:
        if engine.dialect.name == "postgresql":
            connection.execute(text(f"SELECT pg_advisory_xact_lock({_MIGRATION_LOCK})"))
        connection.execute(text("CREATE TABLE IF NOT EXISTS schema_version (version INTEGER NOT NULL)"))
        there = connection.execute(select(schema.schema_version.c.version)).scalar()
        if there is None:
            schema.metadata.create_all(connection)
            connection.execute(insert(schema.schema_version).values(version=schema.VERSION))
            return
        if there > schema.VERSION:
            raise FleetError(
                f"Expected a database of version {schema.VERSION} or older, got {there}: it was made by a newer Tacit."
            )
        for version in range(there + 1, schema.VERSION + 1):
            for statement in MIGRATIONS[version]:
                connection.execute(text(statement))
        connection.execute(update(schema.schema_version).values(version=schema.VERSION))


def _create_private(path: Path) -> None:
    """Make the file, if there is none, for its owner alone: who took part is in it. SQLite's other files follow its mode."""
    with suppress(OSError):  # what is wrong with the place, SQLite will say
        os.close(os.open(path, os.O_CREAT | os.O_RDWR, 0o600))


def _prepare_sqlite(engine: Engine) -> None:
    """Make SQLite's transactions what the module promises; by itself the driver begins them late and with no lock."""

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
        wanted = "NORMAL" if options.get(_LIGHT) else "FULL"
        if connection.info.get(_SYNCHRONOUS) != wanted:
            connection.exec_driver_sql(f"PRAGMA synchronous={wanted}")
            connection.info[_SYNCHRONOUS] = wanted
        connection.exec_driver_sql("BEGIN IMMEDIATE")
