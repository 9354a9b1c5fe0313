"""Tasks that devices can see, and the files that devices download.

A file is named by the SHA-256 of its bytes. A task is named by the SHA-256 of its description.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Container
from dataclasses import dataclass

from sqlalchemy import Engine, delete, insert, select, update
from sqlalchemy.exc import IntegrityError

from tacit.errors import FleetError
from tacit.fleet.database import clock, public_log
from tacit.fleet.database.leases import Lease, hold
from tacit.fleet.database.schema import OPEN, blobs, rounds, schema_version, tasks
from tacit.fleet.database.transactions import read_only
from tacit.fleet.wire.blobs import sha256_of
from tacit.fleet.wire.public_log import TaskEntry


def put_blob(engine: Engine, content: bytes) -> str:
    """Store public bytes for devices to download; returns their SHA-256."""
    digest = sha256_of(content)
    with read_only(engine) as connection:
        if connection.execute(select(blobs.c.sha256).where(blobs.c.sha256 == digest)).first() is not None:
            return digest
    try:
        with engine.begin() as connection:
            connection.execute(insert(blobs).values(sha256=digest, content=content))
    except IntegrityError:
        pass  # another process has stored the same bytes in the meantime
    return digest


def drop_checkpoint(engine: Engine, sha256: str) -> None:
    """Delete a checkpoint unless an open round needs it. (Another task may begin with the same model.)"""
    needed = select(rounds.c.round_id).where(rounds.c.checkpoint == sha256, rounds.c.state == OPEN).exists()
    with engine.begin() as connection:
        connection.execute(delete(blobs).where(blobs.c.sha256 == sha256, ~needed))


def publish_task(
    engine: Engine, lease: Lease, *, task: str, name: str, description: str, register: Callable[[], Container[str]]
) -> None:
    """Show a task to devices. `register` enters the task's run into the odometer and returns all runs listed there.

    FleetError if another run of this name is under way: a coordinator that takes over without the run's folder would start
    the run from the beginning. FleetError also if the database has a run that the odometer lacks: nothing would add up what
    the two cost together.
    """
    with engine.begin() as connection:
        hold(connection, lease)
        # Coordinators of different runs hold different leases. This lock makes the second of two see the first.
        connection.execute(select(schema_version).with_for_update())
        known, run = connection.execute(select(tasks)).all(), _run_of(description)
        for row in known:
            if row.name == name and row.active and _run_of(row.description) != run:
                raise FleetError(
                    f"Expected the folder of the run {_run_of(row.description)} of {name!r}, which is not finished, got that "
                    f"of {run}.",
                    hint="Serve with the folder of the run under way; a second run needs a recipe with another name.",
                )
        listed = register()
        for row in known:
            if _run_of(row.description) not in listed:
                raise FleetError(
                    f"Expected an odometer with every run on these devices, got one without the run "
                    f"{_run_of(row.description)} of {row.name!r}.",
                    hint="Serve with the --odometer folder of that run, so that the cost of all runs together is known.",
                )
        values = {"name": name, "description": description, "active": True}
        if connection.execute(update(tasks).where(tasks.c.task == task).values(**values)).rowcount == 0:
            connection.execute(insert(tasks).values(task=task, opened_at=clock.now(engine), **values))
        # Before anybody can see the task: this transaction shows it.
        public_log.append(connection, _entry_of(task, description))


def retire_tasks(engine: Engine, lease: Lease, *, run: str) -> None:
    """Stop offering the tasks of a run that has ended."""
    with engine.begin() as connection:
        hold(connection, lease)
        query = select(tasks.c.task, tasks.c.description).where(tasks.c.active.is_(True))
        ended = [row.task for row in connection.execute(query) if _run_of(row.description) == run]
        connection.execute(update(tasks).where(tasks.c.task.in_(ended)).values(active=False))


@dataclass(frozen=True)
class Wishes:
    """What an operator wants of a task's rounds from now on; None: as its recipe says."""

    paused: bool
    goal: int | None
    deadline_s: float | None


def wishes(engine: Engine, task: str) -> Wishes:
    """What an operator wants of this task's rounds."""
    with read_only(engine) as connection:
        row = connection.execute(
            select(tasks.c.paused, tasks.c.goal, tasks.c.deadline_s).where(tasks.c.task == task)
        ).one()
    return Wishes(bool(row.paused), row.goal, row.deadline_s)


def wish(
    engine: Engine,
    task: str,
    *,
    skip: bool = False,
    paused: bool | None = None,
    goal: int | None = None,
    deadline_s: float | None = None,
) -> None:
    """Write down what an operator wants; None leaves it as it is. `skip` gives up the try that is open."""
    changes = {"paused": paused, "goal": goal, "deadline_s": deadline_s}
    changes = {name: value for name, value in changes.items() if value is not None}
    with engine.begin() as connection:
        if changes:
            connection.execute(update(tasks).where(tasks.c.task == task).values(**changes))
        if skip:
            which = (rounds.c.task == task, rounds.c.state == OPEN)
            connection.execute(update(rounds).where(*which).values(stopped_by="an operator"))


def tell(engine: Engine, lease: Lease, task: str, **values: float) -> None:
    """Keep what metrics show of a task: `lost` rounds, or `epsilon` so far."""
    with engine.begin() as connection:
        hold(connection, lease)
        connection.execute(update(tasks).where(tasks.c.task == task).values(**values))


def description_of(engine: Engine, task: str) -> str:
    """The task's description, the JSON of a `DeviceTask`."""
    with read_only(engine) as connection:
        return connection.execute(select(tasks.c.description).where(tasks.c.task == task)).scalar_one()


def _entry_of(task: str, description: str) -> TaskEntry:
    named = json.loads(description)
    return TaskEntry(task=task, plan=named["plan"], vocabulary=named["vocabulary"])


def _run_of(description: str) -> str:
    return str(json.loads(description).get("run", ""))
