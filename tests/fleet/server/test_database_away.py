"""Processes of every role whose PostgreSQL goes away while they start, or later, wait for it."""

from __future__ import annotations

import subprocess
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any

import httpx
import pytest
from sqlalchemy import select
from sqlalchemy.exc import SQLAlchemyError

from tacit.fleet.database import heartbeat, schema
from tacit.fleet.database.heartbeat import Heartbeat
from tacit.fleet.database.transactions import open_database
from tacit.fleet.server import serving
from tacit.fleet.server.serving import Role, ServeSettings, serve
from tacit.fleet.wire.sealing import make_secret
from tests.support.fleet.crowd import fleet_recipe, in_background, wait_for
from tests.support.fleet.postgres import PostgresServer

pytestmark = [pytest.mark.process, pytest.mark.slow]

ROLES: tuple[Role, ...] = ("selector", "aggregator", "coordinator", "all")
# The step of a process at which the database is away, and how many of the four processes make it.
STEPS = {
    "opening the database": (serving, "open_database", 4),
    "making the tables": (serving, "migrate", 4),
    "the first heartbeat": (Heartbeat, "start", 4),
    "taking the lease": (Heartbeat, "acquire", 2),
}


@pytest.fixture
def postgres(postgres_server: PostgresServer) -> Iterator[PostgresServer]:
    """The session's server, which runs again after the test."""
    yield postgres_server
    try:
        postgres_server.sql("SELECT 1")
    except subprocess.CalledProcessError:
        postgres_server.start()


class Away:
    """In place of a function: each process's first call is made while the database is away, which it is until all have been."""

    def __init__(self, real: Callable[..., Any], processes: int, postgres: PostgresServer) -> None:
        self._real, self._here = real, threading.local()
        self._together = threading.Barrier(processes, lambda: postgres.stop("immediate"))
        self._done = threading.Barrier(processes, postgres.start)

    def __get__(self, bound: Any, owner: object = None) -> Any:
        return lambda *arguments, **named: self(bound, *arguments, **named)

    def __call__(self, *arguments: Any, **named: Any) -> Any:
        if getattr(self._here, "called", False):
            return self._real(*arguments, **named)
        self._here.called = True
        self._together.wait(600)
        try:
            return self._real(*arguments, **named)
        finally:
            self._done.wait(600)


class Four:
    """A process of each role, all of one database; the two that coordinate have a run each."""

    def __init__(self, folder: Path, url: str) -> None:
        self._folder, self._url, self.engine = folder, url, open_database(url)
        self._stopping, self._running, self.addresses = threading.Event(), ExitStack(), list[str]()
        self._results: list[Callable[[], Any]] = []
        make_secret(folder / "secret")

    def __enter__(self) -> Four:
        for role in ROLES:
            settings = ServeSettings(
                out=self._folder / role,
                role=role,
                recipe=fleet_recipe(name=role),
                database=self._url,
                secret=self._folder / "secret",
                odometer=self._folder,
                port=0,
                http=True,
            )
            call = lambda settings=settings: serve(settings, stopping=self._stopping, ready=self.addresses.append)  # noqa: E731
            self._results.append(self._running.enter_context(in_background(call)))
        return self

    def __exit__(self, *error: object) -> None:
        self._stopping.set()
        self._running.__exit__(*error)
        self.engine.dispose()

    def end(self) -> list[Any]:
        """What the processes return, once they have been stopped; whatever ended one of them is raised."""
        self._stopping.set()
        return [result() for result in self._results]

    def require_at_work(self) -> None:
        """All four are heard of, and both runs have a round open."""
        wait_for(lambda: sorted(self._column(schema.processes.c.role)) == sorted(ROLES))
        wait_for(lambda: self._column(schema.rounds.c.state).count("open") == 2)

    def _column(self, column: Any) -> list[str]:
        with suppress(SQLAlchemyError), self.engine.connect() as connection:
            return list(connection.execute(select(column)).scalars())
        return []  # the database is away, or has no tables yet


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(serving, "_DATABASE_POLL_S", 0.05)
    monkeypatch.setattr(heartbeat, "RENEW_S", 0.2)


@pytest.mark.parametrize("step", STEPS)
def test_no_process_ends_because_the_database_is_away_as_it_starts(
    postgres: PostgresServer, postgres_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    module, name, processes = STEPS[step]
    monkeypatch.setattr(module, name, Away(getattr(module, name), processes, postgres))
    with Four(tmp_path, postgres_url) as four:
        four.require_at_work()
        assert four.end() == [None] * 4


def test_a_process_lives_and_is_not_ready_while_the_database_is_away(
    postgres: PostgresServer, postgres_url: str, tmp_path: Path
) -> None:
    with Four(tmp_path, postgres_url) as four, httpx.Client(trust_env=False, timeout=120) as client:
        four.require_at_work()

        def all_answer(path: str, status: int) -> bool:
            return all(client.get(address + path).status_code == status for address in four.addresses)

        wait_for(lambda: all_answer("/readyz", 200))
        postgres.stop("immediate")
        wait_for(lambda: all_answer("/readyz", 503))
        assert all_answer("/healthz", 200)
        postgres.start()
        wait_for(lambda: all_answer("/readyz", 200))
        four.require_at_work()
        assert four.end() == [None] * 4
