"""A server of real `tacit serve` processes over a real PostgreSQL, which a test can halt, and kill, in any phase of a round.

Nothing in the processes knows of it. A phase is reached from outside: devices fall silent, the way to the process that adds up
goes through a `Doorway` that holds a question back, rows of the database are locked, the name of a file is taken.
"""

from __future__ import annotations

import http.client
import multiprocessing
import os
import threading
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from multiprocessing.context import ForkServerProcess
from pathlib import Path

from sqlalchemy import Row, select, text, update
from sqlalchemy.exc import SQLAlchemyError

from tacit.cli.app import main
from tacit.fleet.database import schema
from tacit.fleet.database.migrations import migrate
from tacit.fleet.database.transactions import open_database
from tacit.fleet.rounds.secure_aggregation import STAGES
from tacit.fleet.wire.sealing import make_secret
from tacit.privacy.record.ledger import read_ledger
from tacit.privacy.record.records import Intent
from tacit.recipe.training import Recipe
from tacit.runs import checkpoints
from tests.support.fleet.crowd import wait_for
from tests.support.fleet.phones import REPORT, Phones
from tests.support.ports import kept_port

ROLES = ("selector", "aggregator", "coordinator")
SELECTING, REPORTING, SUMMING = "selecting", "reporting", "summing"
BEFORE_INTENT, AFTER_INTENT, AFTER_CHECKPOINT = "before the intent", "after the intent", "after the checkpoint"
_PARTICIPATIONS = "LOCK TABLE participations IN EXCLUSIVE MODE"
PHASES = (SELECTING, REPORTING, SUMMING, BEFORE_INTENT, AFTER_INTENT, AFTER_CHECKPOINT)

# A process is forked from one that has the modules loaded, or most of the time here would be spent on loading them.
_FORKS = multiprocessing.get_context("forkserver")
_FORKS.set_forkserver_preload(
    ["tacit.cli.app", "tacit.cli.serve", "tacit.fleet.rounds.coordinator", "tacit.fleet.server.serving"]
)


def _run(arguments: list[str], log: Path, skew_s: float) -> None:
    """`tacit` with these arguments, in a process of its own."""
    with log.open("ab") as output:
        os.dup2(output.fileno(), 1)
        os.dup2(output.fileno(), 2)
    true_time = time.time
    time.time = lambda: true_time() + skew_s
    main(arguments)


class Fleet:
    """One process of each role, and devices. What is still there at the end is killed."""

    def __init__(
        self, folder: Path, url: str, recipe: Recipe, *, skews: Mapping[str, float] | None = None, devices: int = 24
    ) -> None:
        self.folder, self.run = folder, folder / "coordinator" / "run"
        self.engine = open_database(url)
        migrate(self.engine)
        self._url, self._running = url, dict[str, ForkServerProcess]()
        self._recipe, self._skews = folder / "recipe.toml", skews or {}
        self._recipe.write_text(recipe.to_toml())
        make_secret(folder / "secret")
        self.doorway = Doorway()
        self.phones = Phones(self.engine, devices)

    def __enter__(self) -> Fleet:
        for role in ROLES:
            self.start(role, skew_s=self._skews.get(role, 0.0))
        return self

    def __exit__(self, *error: object) -> None:
        for role in list(self._running):
            self.kill(role)
        self.phones.close()
        self.doorway.close()
        self.engine.dispose()

    def start(self, role: str, *, skew_s: float = 0.0) -> None:
        """Start a process, whose clock is wrong by so much; it may be a moment before it is heard of."""
        own = {
            "selector": ["--port", "0"],
            "aggregator": ["--port", str(self.doorway.behind), "--address", self.doorway.address],
            "coordinator": ["--port", "0", str(self._recipe)],
        }[role]
        shared = ["--database", self._url, "--secret", str(self.folder / "secret"), "--http"]
        arguments = ["serve", "--role", role, *shared, *own, "--out", str(self.folder / role)]
        self._running[role] = process = _FORKS.Process(
            target=_run, args=(arguments, self.folder / f"{role}.log", skew_s)
        )
        process.start()

    def kill(self, role: str) -> None:
        """kill -9."""
        process = self._running.pop(role)
        process.kill()
        process.join()

    def replace(self, role: str, *, skew_s: float = 0.0) -> None:
        """Start a process in place of a killed one, ten seconds later: nobody waits for that one, and its lease is free."""
        with self.engine.begin() as connection:
            connection.execute(update(schema.processes).where(schema.processes.c.role == role).values(seen_at=0.0))
            if role == "coordinator":
                connection.execute(update(schema.leases).values(expires_at=0.0))
        self.start(role, skew_s=skew_s)

    def ended(self) -> int | None:
        """Let devices take part until the coordinator is done with the run; its exit code."""
        self.phones.go(self.is_over)
        return self._running["coordinator"].exitcode

    def is_over(self) -> bool:
        """Whether the coordinator has ended."""
        return not self._running["coordinator"].is_alive()

    def dead(self) -> dict[str, int | None]:
        """The exit codes of the processes that have ended by themselves."""
        return {role: process.exitcode for role, process in self._running.items() if not process.is_alive()}

    def last_lines(self, roles: Iterable[str], count: int = 30) -> str:
        """The end of what these processes wrote."""
        logs = {role: (self.folder / f"{role}.log").read_text().splitlines()[-count:] for role in roles}
        return "\n".join(f"{role}: {line}" for role, lines in logs.items() for line in lines)

    def committed(self) -> int:
        """How many rounds are."""
        with suppress(SQLAlchemyError), self.engine.connect() as connection:
            query = select(schema.rounds.c.round).where(schema.rounds.c.state == "committed")
            return len(connection.execute(query).all())
        return 0

    def goes_on(self, *, to: int) -> None:
        """Let devices take part until so many rounds are committed."""
        self.phones.go(lambda: self.committed() >= to)

    def latest(self) -> Row | None:
        """The round that was opened last."""
        with suppress(SQLAlchemyError), self.engine.connect() as connection:
            return connection.execute(select(schema.rounds).order_by(schema.rounds.c.opened_at.desc())).first()
        return None

    def logs(self) -> str:
        return "".join(path.read_text() for path in self.folder.glob("*.log"))

    @contextmanager
    def halted(self, phase: str) -> Iterator[None]:
        """The round under way, or the next, standing in this phase for as long as the block lasts."""
        before, begun = self.committed(), len(self._intents())
        wait_for(self._is_under_way)
        if phase == SELECTING:
            yield
        elif phase == REPORTING:
            self.phones.go(lambda: self.phones.said(REPORT) == 2, limit=(REPORT, 2))
            yield
        elif phase in STAGES:
            self.phones.go(lambda: self.phones.said(phase) == 1, limit=(phase, 1))
            yield
        elif phase == SUMMING:
            with self.doorway.holding("sum") as reached:
                self.phones.go(reached.is_set)
                yield
        elif phase == BEFORE_INTENT:
            with self._locked(_PARTICIPATIONS):
                self.phones.go(self._somebody_waits)
                yield
        elif phase == AFTER_INTENT:
            with self._no_checkpoint_of(before + 1):
                self.phones.go(lambda: len(self._intents()) > begun)
                yield
        else:
            with ExitStack() as row:
                with self._locked(_PARTICIPATIONS):
                    self.phones.go(self._somebody_waits)
                    latest = self.latest()
                    assert latest is not None
                    row.enter_context(
                        self._locked(f"SELECT 1 FROM rounds WHERE round_id = '{latest.round_id}' FOR UPDATE")
                    )
                wait_for(lambda: checkpoints.rounds_kept(self.run / "checkpoints")[-1:] == [before + 1])
                wait_for(self._somebody_waits)
                yield

    def _is_under_way(self) -> bool:
        row = self.latest()
        return row is not None and row.state in ("open", "settled")

    def _intents(self) -> list[Intent]:
        ledger = self.run / "ledger.jsonl"
        return read_ledger(ledger).intents if ledger.exists() else []

    @contextmanager
    def _locked(self, statement: str) -> Iterator[None]:
        """Hold what the statement locks."""
        with self.engine.connect() as connection:
            connection.execute(text(statement))
            try:
                yield
            finally:
                with suppress(SQLAlchemyError):  # a database that was restarted holds nothing any more
                    connection.rollback()

    def _somebody_waits(self) -> bool:
        """Whether a process waits for a lock."""
        query = "SELECT 1 FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'"
        with self.engine.connect() as connection:
            return connection.execute(text(query)).first() is not None

    @contextmanager
    def _no_checkpoint_of(self, rounds: int) -> Iterator[None]:
        """The checkpoint after so many rounds cannot be written."""
        path = checkpoints.path_of(self.run / "checkpoints", rounds)
        in_the_way = path.with_name(f".{path.name}.tmp") / "in the way"
        in_the_way.mkdir(parents=True)
        try:
            yield
        finally:
            in_the_way.rmdir()
            in_the_way.parent.rmdir()


class Doorway:
    """Stands before a process, and can hold a coordinator's question back before it gets there.

    The process listens `behind` it, on a port that is kept for it between a kill and the next start.
    """

    def __init__(self) -> None:
        self._question, self._reached, self._released = "", threading.Event(), threading.Event()
        self._kept = ExitStack()
        self.behind = self._kept.enter_context(kept_port())
        doorway = self

        class Handler(BaseHTTPRequestHandler):
            def do_PUT(self) -> None:
                doorway._pass_on(self)

            do_GET = do_POST = do_PUT

            def log_message(self, *_: object) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self.address = f"http://127.0.0.1:{self._server.server_address[1]}"
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)
        self._thread.start()

    def close(self) -> None:
        self._released.set()
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()
        self._kept.close()

    @contextmanager
    def holding(self, question: str) -> Iterator[threading.Event]:
        """Hold this question back; the event is set when it has come."""
        self._reached.clear()
        self._released.clear()
        self._question = question
        try:
            yield self._reached
        finally:
            self._question = ""
            self._released.set()

    def _pass_on(self, asked: BaseHTTPRequestHandler) -> None:
        body = asked.rfile.read(int(asked.headers.get("content-length", 0)))
        if self._question and asked.path.startswith("/internal/") and asked.path.endswith(f"/{self._question}"):
            self._reached.set()
            self._released.wait()
        # Whoever is gone, on either side, gets no answer: the connection just ends.
        with suppress(OSError, http.client.HTTPException):
            behind = http.client.HTTPConnection("127.0.0.1", self.behind, timeout=60)
            try:
                behind.request(asked.command, asked.path, body or None, dict(asked.headers))
                answer = behind.getresponse()
                content = answer.read()
            finally:
                behind.close()
            asked.send_response(answer.status)
            asked.send_header("content-length", str(len(content)))
            asked.end_headers()
            asked.wfile.write(content)
