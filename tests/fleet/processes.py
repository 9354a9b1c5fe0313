"""A server of real `tacit serve` processes over a real PostgreSQL, which a test can halt, and kill, in any phase of a round.

Nothing in the processes knows of it. A phase is reached from outside: devices fall silent, the way to the process that adds up
goes through a `Doorway` that holds a question back, rows of the database are locked, the name of a file is taken.
"""

from __future__ import annotations

import http.client
import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

from sqlalchemy import Engine, Row, select, text, update
from sqlalchemy.exc import SQLAlchemyError

from tacit.fleet import schema
from tacit.fleet.sealed import make_secret
from tacit.fleet.secure_rounds import STAGES
from tacit.privacy.ledger import read_ledger
from tacit.recipe import Recipe
from tacit.runs import checkpoints
from tests.fleet.crowd import wait_for
from tests.fleet.phones import REPORT, Limit, Phones

ROLES = ("selector", "aggregator", "coordinator")
SELECTING, REPORTING, SUMMING = "selecting", "reporting", "summing"
BEFORE_INTENT, AFTER_INTENT, AFTER_CHECKPOINT = "before the intent", "after the intent", "after the checkpoint"
PHASES = (SELECTING, REPORTING, SUMMING, BEFORE_INTENT, AFTER_INTENT, AFTER_CHECKPOINT)


class Fleet:
    """One process of each role, and devices. What is still there at the end is killed."""

    def __init__(self, folder: Path, url: str, engine: Engine, recipe: Recipe, *, devices: int = 16) -> None:
        self.folder, self.engine, self.run = folder, engine, folder / "coordinator" / "run"
        self._url, self._running = url, dict[str, subprocess.Popen[bytes]]()
        self._recipe = folder / "recipe.toml"
        self._recipe.write_text(recipe.to_toml())
        make_secret(folder / "secret")
        self.doorway = Doorway()
        self.phones = Phones(engine, devices)

    def __enter__(self) -> Fleet:
        for role in ROLES:
            self.start(role)
        return self

    def __exit__(self, *error: object) -> None:
        for role in list(self._running):
            self._end(role)
        self.phones.close()
        self.doorway.close()

    def start(self, role: str, environment: Mapping[str, str] | None = None) -> None:
        """Start a process; it may be a while before it is heard of."""
        own = {
            "selector": ["--port", "0"],
            "aggregator": ["--port", str(self.doorway.behind), "--address", self.doorway.address],
            "coordinator": ["--port", "0", str(self._recipe)],
        }[role]
        shared = ["--database", self._url, "--secret", str(self.folder / "secret"), "--http"]
        command = [sys.executable, "-m", "tacit", "serve", "--role", role, *shared, *own]
        with (self.folder / f"{role}.log").open("ab") as log:
            self._running[role] = subprocess.Popen(
                [*command, "--out", str(self.folder / role)],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env={**os.environ, **(environment or {})},
            )

    def kill(self, role: str) -> None:
        """kill -9, and ten seconds later: nobody waits for the process any more, and its lease is free."""
        self._end(role)
        with self.engine.begin() as connection:
            connection.execute(update(schema.processes).where(schema.processes.c.role == role).values(seen_at=0.0))
            if role == "coordinator":
                connection.execute(update(schema.leases).values(expires_at=0.0))

    def ended(self) -> int:
        """Let devices take part until the coordinator is done with the run; its exit code."""
        coordinator = self._running["coordinator"]
        self.phones.go(lambda: coordinator.poll() is not None)
        return coordinator.wait()

    def committed(self) -> int:
        """How many rounds are."""
        with suppress(SQLAlchemyError), self.engine.connect() as connection:
            query = select(schema.rounds.c.round).where(schema.rounds.c.state == "committed")
            return len(connection.execute(query).all())
        return 0

    def goes_on(self) -> None:
        """One more round is committed."""
        before = self.committed()
        self.phones.go(lambda: self.committed() > before)

    def latest(self) -> Row | None:
        """The round that was opened last."""
        with suppress(SQLAlchemyError), self.engine.connect() as connection:
            return connection.execute(select(schema.rounds).order_by(schema.rounds.c.opened_at.desc())).first()
        return None

    def logs(self) -> str:
        return "".join(path.read_text() for path in self.folder.glob("*.log"))

    @contextmanager
    def halted(self, phase: str) -> Iterator[None]:
        """The next round, standing in this phase for as long as the block lasts."""
        before, begun = self.committed(), len(self._intents())
        wait_for(lambda: (row := self.latest()) is not None and row.state == "open" and self.committed() == before)
        with ExitStack() as held:
            if phase == SELECTING:
                pass
            elif phase == REPORTING:
                self._devices_say((REPORT, 2))
            elif phase in STAGES:
                self._devices_say((phase, 1))
            else:
                question = "included" if STAGES[0] in self._stages_of_task() else "sum"
                with self.doorway.holding(question) as reached:
                    self.phones.go(reached)
                    if phase == SUMMING:
                        held.enter_context(self.doorway.holding(question))
                    elif phase == BEFORE_INTENT:
                        held.enter_context(self._locked("LOCK TABLE participations IN EXCLUSIVE MODE"))
                    elif phase == AFTER_INTENT:
                        held.enter_context(self._no_checkpoint(before + 1))
                    else:
                        row = self.latest()
                        assert row is not None
                        held.enter_context(
                            self._locked(f"SELECT 1 FROM rounds WHERE round_id = '{row.round_id}' FOR UPDATE")
                        )
                if phase == BEFORE_INTENT:
                    wait_for(self._somebody_waits)
                elif phase == AFTER_INTENT:
                    wait_for(lambda: len(self._intents()) > begun)
                elif phase == AFTER_CHECKPOINT:
                    wait_for(self._somebody_waits)
                    assert checkpoints.rounds_kept(self.run / "checkpoints")[-1] == before + 1
            yield
