"""Real processes over a real PostgreSQL: any of them is killed, the database is restarted, and training goes on."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from sqlalchemy import Engine, func, select
from sqlalchemy.exc import SQLAlchemyError

from tacit.fleet.database import schema
from tacit.fleet.database.migrations import migrate
from tacit.fleet.database.transactions import open_database
from tacit.fleet.wire.messages import CHECK_IN, ROUNDS, CheckInAnswer, CheckInRequest
from tacit.fleet.wire.reports import pack_report
from tacit.fleet.wire.sealing import make_secret
from tacit.fleet.wire.task import DeviceTask
from tacit.recipe.training import Recipe
from tests.support.fleet.crowd import fleet_recipe, vector_of, wait_for
from tests.support.fleet.people import Person, enrolled
from tests.support.fleet.postgres import PostgresServer
from tests.support.fleet.soundness import require_sound


class Processes:
    """The processes of one server; those that are still there at the end are killed."""

    def __init__(self, folder: Path, url: str, recipe: Recipe) -> None:
        self._folder, self._url, self._running = folder, url, dict[str, subprocess.Popen[bytes]]()
        self._recipe = folder / "recipe.toml"
        self._recipe.write_text(recipe.to_toml())
        make_secret(folder / "secret")

    def start(self, name: str, role: str, *arguments: str) -> None:
        shared = ["--database", self._url, "--secret", str(self._folder / "secret"), "--http", "--port", "0"]
        recipe = [str(self._recipe)] if role == "coordinator" else []
        command = [sys.executable, "-m", "tacit", "serve", *recipe, "--role", role, *shared, *arguments]
        with (self._folder / f"{name}.log").open("ab") as log:
            self._running[name] = subprocess.Popen(
                [*command, "--out", str(self._folder / role)], stdout=log, stderr=log, stdin=subprocess.DEVNULL
            )

    def kill(self, name: str) -> None:
        process = self._running.pop(name)
        process.kill()
        process.wait()

    def ended(self, name: str, timeout: float = 600) -> int:
        return self._running[name].wait(timeout)

    def stop(self, name: str) -> int:
        self._running[name].send_signal(signal.SIGTERM)
        return self.ended(name)

    def logs(self) -> str:
        return "".join(path.read_text() for path in self._folder.glob("*.log"))

    def close(self) -> None:
        for name in list(self._running):
            self.kill(name)


class Crowd:
    """Devices that check in over HTTP with any selector that answers, and report where they are told to.

    They report in the rounds before `upto` only, so that a run does not end while a test looks away.
    """

    def __init__(self, engine: Engine, people: list[Person]) -> None:
        self._engine, self._people, self._stopping = engine, people, threading.Event()
        self.upto = 0
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self) -> Crowd:
        self._thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._stopping.set()
        self._thread.join()

    def _run(self) -> None:
        draw, sizes = random.Random(1), dict[str, int]()
        with httpx.Client(timeout=30, trust_env=False) as client:
            while not self._stopping.wait(0.02):
                person = draw.choice(self._people)
                try:
                    selectors = self._selectors()
                    if selectors:
                        self._visit(client, person, draw.choice(selectors), sizes)
                except (httpx.HTTPError, SQLAlchemyError):
                    continue  # a process or the database is away: another time

    def _visit(self, client: httpx.Client, person: Person, selector: str, sizes: dict[str, int]) -> None:
        body = CheckInRequest().model_dump_json().encode()
        answer = client.post(selector + CHECK_IN, content=body, headers=person.headers("POST", CHECK_IN, body))
        if answer.status_code != 200 or (place := CheckInAnswer.model_validate_json(answer.content).assignment) is None:
            return
        if place.round >= self.upto:
            return
        if place.task not in sizes:
            with self._engine.connect() as connection:
                query = select(schema.tasks.c.description).where(schema.tasks.c.task == place.task)
                sizes[place.task] = DeviceTask.model_validate_json(connection.execute(query).scalar_one()).dimension
        update = vector_of(person.number, place.round, sizes[place.task], 0.9 * place.clip_norm)
        path, content = f"{ROUNDS}/{place.round_id}/report", pack_report(place.round_id, 1.0, 0, update)
        client.put(place.upload_to + path, content=content, headers=person.headers("PUT", path, content))

    def _selectors(self) -> list[str]:
        with self._engine.connect() as connection:
            query = select(schema.processes.c.address).where(
                schema.processes.c.role == "selector", schema.processes.c.seen_at > time.time() - 10
            )
            return list(connection.execute(query).scalars())


@pytest.fixture
def database(postgres_url: str) -> Iterator[Engine]:
    engine = open_database(postgres_url)
    migrate(engine)
    yield engine
    engine.dispose()


def test_any_process_may_be_killed_and_the_database_restarted(
    database: Engine, postgres_url: str, postgres_server: PostgresServer, tmp_path: Path
) -> None:
    recipe = fleet_recipe(run={"rounds": 5, "evaluate_every": 5}, privacy={"max_participation": 9})
    fleet, crowd = Processes(tmp_path, postgres_url, recipe), Crowd(database, [enrolled(database) for _ in range(16)])

    def committed() -> int:
        query = select(func.count()).where(schema.rounds.c.state == "committed")
        try:
            with database.connect() as connection:
                return connection.execute(query).scalar_one()
        except SQLAlchemyError:
            return 0

    def goes_on() -> None:
        crowd.upto += 1
        wait_for(lambda: committed() == crowd.upto)

    try:
        for name in ("selector", "aggregator", "coordinator"):
            fleet.start(name, name)
        for name in ("second selector", "second aggregator"):
            fleet.start(name, name.split()[1])
        with crowd:
            goes_on()
            fleet.kill("selector")
            goes_on()
            # Both are missed after ten seconds, so they are missed together.
            fleet.kill("aggregator")
            fleet.kill("coordinator")
            fleet.start("coordinator", "coordinator")
            goes_on()
            postgres_server.stop("immediate")
            postgres_server.start()
            crowd.upto = 5
            assert fleet.ended("coordinator") == 0
        assert fleet.stop("second selector") == fleet.stop("second aggregator") == 0
    finally:
        fleet.close()
    require_sound(database, recipe, tmp_path / "coordinator" / "run", wanted=5, often=9)
    assert "Traceback" not in fleet.logs()
    assert os.stat(tmp_path / "coordinator" / "admin-token").st_mode & 0o777 == 0o600
