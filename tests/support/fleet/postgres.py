"""A real PostgreSQL for tests: one server a test session, in a temporary folder, reached by a unix socket alone.

Tests skip, saying why, where no PostgreSQL is installed. `postgres_url` is a fresh database; `database_url` is one of each
kind in turn; `engine` is one of each kind with its tables made and empty. `PostgresServer.stop` and `start` are for tests of
what survives that.
"""

from __future__ import annotations

import os
import pwd
import shutil
import subprocess
import tempfile
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest
from sqlalchemy import Engine, text

from tacit.fleet.database.migrations import migrate
from tacit.fleet.database.schema import metadata
from tacit.fleet.database.transactions import open_database

_PROGRAMS = ("initdb", "pg_ctl", "psql")
KINDS = ["sqlite", pytest.param("postgresql", marks=pytest.mark.process)]
_SETTINGS = "-c listen_addresses='' -c fsync=off -c max_connections=60 -c shared_buffers=16MB"


class PostgresServer:
    """A server in a folder of its own. PostgreSQL refuses to run as root, so root lends it another user's name.

    With a `port` it also listens on 127.0.0.1, where everybody needs a password. `administrator` is the user that is there.
    """

    def __init__(self, folder: Path, *, port: int | None = None, administrator: str = "tacit") -> None:
        self._folder, self._administrator = folder, administrator
        self._settings = _SETTINGS if port is None else f"{_SETTINGS} -c listen_addresses=127.0.0.1 -p {port}"
        self._user = _unprivileged() if os.geteuid() == 0 else None
        if self._user is not None:
            shutil.chown(folder, self._user)
        trusted = ["--auth-local=trust", "--auth-host=scram-sha-256"]
        self._run("initdb", "--no-sync", *trusted, "-U", administrator, "-D", str(folder / "data"))
        self.start()

    def start(self) -> None:
        """Start it and wait until it answers."""
        log, options = str(self._folder / "log"), f"{self._settings} -k {self._folder}"
        self._run("pg_ctl", "-D", str(self._folder / "data"), "-l", log, "-o", options, "-w", "start")

    def stop(self, mode: str = "fast") -> None:
        """Stop it: "fast" ends connections in order, "immediate" as a crash would."""
        self._run("pg_ctl", "-D", str(self._folder / "data"), "-m", mode, "-w", "stop")

    def url(self, database: str) -> str:
        """The address of a database on it."""
        return f"postgresql://{self._administrator}@/{database}?host={self._folder}"

    def sql(self, statement: str) -> None:
        """Run a statement in the database that is always there."""
        self._run("psql", "-h", str(self._folder), "-U", self._administrator, "-q", "-c", statement, "postgres")

    def _run(self, *command: str) -> None:
        # pg_ctl's child keeps its output open, so a pipe would never end: the output goes to a file.
        with (self._folder / "output").open("ab") as output:
            subprocess.run(
                command, check=True, stdin=subprocess.DEVNULL, stdout=output, stderr=output, user=self._user, cwd="/"
            )


def _unprivileged() -> str:
    names = {entry.pw_name for entry in pwd.getpwall()}
    return "postgres" if "postgres" in names else "nobody"


def require_programs() -> None:
    """Skip the test, saying why, where no PostgreSQL is installed."""
    missing = [program for program in _PROGRAMS if shutil.which(program) is None]
    if missing:
        pytest.skip(f"PostgreSQL is not installed: {', '.join(missing)} not found")


@pytest.fixture(scope="session")
def postgres_server() -> Iterator[PostgresServer]:
    """The session's server."""
    require_programs()
    folder = Path(tempfile.mkdtemp(prefix="tacit-pg-"))
    try:
        server = PostgresServer(folder)
        yield server
        server.stop("immediate")
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture
def postgres_url(postgres_server: PostgresServer) -> Iterator[str]:
    """A fresh, empty PostgreSQL database."""
    name = f"t{uuid.uuid4().hex}"
    postgres_server.sql(f"CREATE DATABASE {name}")
    yield postgres_server.url(name)
    postgres_server.sql(f"DROP DATABASE {name} WITH (FORCE)")


@pytest.fixture(params=KINDS)
def database_url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """A fresh, empty database of each kind."""
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path}/fleet.db"
    url: str = request.getfixturevalue("postgres_url")
    return url


@pytest.fixture(scope="session")
def postgres_engine(postgres_server: PostgresServer) -> Iterator[Engine]:
    """One PostgreSQL database with its tables made: making one takes longer than most tests."""
    postgres_server.sql("CREATE DATABASE shared")
    engine = open_database(postgres_server.url("shared"))
    migrate(engine)
    yield engine
    engine.dispose()


@pytest.fixture
def sqlite_engine(tmp_path: Path) -> Iterator[Engine]:
    """An SQLite database with its tables made and nothing in them."""
    engine = open_database(f"sqlite:///{tmp_path}/fleet.db")
    migrate(engine)
    yield engine
    engine.dispose()


@pytest.fixture(params=KINDS)
def engine(request: pytest.FixtureRequest) -> Iterator[Engine]:
    """A database of each kind with its tables made and nothing in them."""
    if request.param == "sqlite":
        yield request.getfixturevalue("sqlite_engine")
        return
    shared: Engine = request.getfixturevalue("postgres_engine")
    yield shared
    names = ", ".join(name for name in metadata.tables if name != "schema_version")
    with shared.begin() as connection:
        connection.execute(text(f"TRUNCATE {names} RESTART IDENTITY"))
