"""The life of a round in the database: opened, filled with reports up to its goal, settled, then committed or abandoned.

    open ──► settled ──► committed        no report is taken once it is settled
      └─────────┴──────► abandoned        with the reason; who had a place in it is forgotten

Every change of state is one conditional UPDATE, so of several processes that try it one succeeds, and what a coordinator writes
it writes only while it holds the lease (`leases.py`). A row is used for one sum at most. Nothing in here is an update or a sum.
"""

from __future__ import annotations

import hashlib
import json
import os
import secrets
from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum

from sqlalchemy import Connection, Engine, and_, delete, func, insert, or_, select, text, update
from sqlalchemy.exc import IntegrityError

from tacit.errors import FleetError, LedgerError
from tacit.fleet.server import clock
from tacit.fleet.server.database import lightly, reading
from tacit.fleet.server.leases import Lease, hold
from tacit.fleet.server.schema import assignments, blobs, devices, participations, rounds, schema_version, tasks

OPEN, SETTLED, COMMITTED, ABANDONED = "open", "settled", "committed", "abandoned"
SELECTED, REPORTED = "selected", "reported"
# The clip of a round in which nothing is clipped: JSON knows no infinity.
UNCLIPPED = 1e300


@dataclass(frozen=True)
class Round:
    """One try at one round, as the database has it."""

    round_id: str
    task: str
    round: int
    attempt: int
    state: str
    reason: str | None
    checkpoint: str
    clip_norm: float
    threshold: float | None
    signs_seed: str | None
    aggregator: str | None
    goal: int
    places: int
    selected: int
    reported: int
    opened_at: float
    deadline: float
    closed_at: float | None


@dataclass(frozen=True)
class Place:
    """A device's place in a round, and the round."""

    round: Round
    aggregator: str
    state: str
    place: int


class Taken(Enum):
    """What became of a report."""

    COUNTED = "counted"
    NO_PLACE = "the device has no place that it can still fill"
    OVER = "the round takes no more"


def put_blob(engine: Engine, content: bytes) -> str:
    """Keep public bytes for devices to download; returns the SHA-256 they are found by."""
    digest = hashlib.sha256(content).hexdigest()
    with reading(engine) as connection:
        if connection.execute(select(blobs.c.sha256).where(blobs.c.sha256 == digest)).first() is not None:
            return digest
    try:
        with engine.begin() as connection:
            connection.execute(insert(blobs).values(sha256=digest, content=content))
    except IntegrityError:
        pass  # another process was quicker, with the same bytes
    return digest


def drop_checkpoint(engine: Engine, sha256: str) -> None:
    """Forget a checkpoint, unless a round needs it still (of another task, perhaps, that begins with the same model)."""
    needed = select(rounds.c.round_id).where(rounds.c.checkpoint == sha256, rounds.c.state == OPEN).exists()
    with engine.begin() as connection:
        connection.execute(delete(blobs).where(blobs.c.sha256 == sha256, ~needed))


def publish_task(
    engine: Engine, lease: Lease, *, task: str, name: str, description: str, enter: Callable[[], Container[str]]
) -> None:
    """Show a task to devices. `enter` writes its run into the odometer, and gives all runs that are in it.

    FleetError if another run of this name is under way: a coordinator that takes over without the run's folder would begin
    the run anew. FleetError, too, if devices know of a run that the odometer lacks: nobody would add the two up.
    """
    with engine.begin() as connection:
        hold(connection, lease)
        # One at a time, whatever its lease: of two that come together, the second sees the first.
        connection.execute(select(schema_version).with_for_update())
        there, run = connection.execute(select(tasks)).all(), _run_of(description)
        for row in there:
            if row.name == name and row.active and _run_of(row.description) != run:
                raise FleetError(
                    f"Expected the folder of the run {_run_of(row.description)} of {name!r}, which is not finished, got that "
                    f"of {run}.",
                    hint="Serve with the folder of the run under way; a run beside it needs a recipe with another name.",
                )
        listed = enter()
        for row in there:
            if _run_of(row.description) not in listed:
                raise FleetError(
                    f"Expected an odometer with every run on these devices, got one without the run "
                    f"{_run_of(row.description)} of {row.name!r}.",
                    hint="Serve with the --odometer folder of that run, so that what they cost together is known.",
                )
        values = {"name": name, "description": description, "active": True}
        if connection.execute(update(tasks).where(tasks.c.task == task).values(**values)).rowcount == 0:
            connection.execute(insert(tasks).values(task=task, opened_at=clock.now(engine), **values))


def retire_tasks(engine: Engine, lease: Lease, *, run: str) -> None:
    """Take the tasks of a run that is finished away from devices."""
    with engine.begin() as connection:
        hold(connection, lease)
        query = select(tasks.c.task, tasks.c.description).where(tasks.c.active.is_(True))
        ended = [row.task for row in connection.execute(query) if _run_of(row.description) == run]
        connection.execute(update(tasks).where(tasks.c.task.in_(ended)).values(active=False))


def description_of(engine: Engine, task: str) -> str:
    """The task's description, JSON of a `wire.Task`."""
    with reading(engine) as connection:
        return connection.execute(select(tasks.c.description).where(tasks.c.task == task)).scalar_one()


def open_round(
    engine: Engine,
    lease: Lease,
    *,
    task: str,
    round: int,
    attempt: int,
    checkpoint: str,
    clip_norm: float,
    threshold: float | None,
    signs_seed: str | None,
    aggregator: str | None,
    goal: int,
    places: int,
    seconds: float,
) -> Round:
    """A new row, of which devices are told from now on."""
    now = clock.now(engine)
    row = Round(
        round_id=secrets.token_hex(16),
        task=task,
        round=round,
        attempt=attempt,
        state=OPEN,
        reason=None,
        checkpoint=checkpoint,
        clip_norm=min(clip_norm, UNCLIPPED),
        threshold=threshold,
        signs_seed=signs_seed,
        aggregator=aggregator,
        goal=goal,
        places=places,
        selected=0,
        reported=0,
        opened_at=now,
        deadline=now + seconds,
        closed_at=None,
    )
    with engine.begin() as connection:
        hold(connection, lease)
        connection.execute(insert(rounds).values(**vars(row)))
    return row


def find(engine: Engine, round_id: str) -> Round | None:
    """The round as it stands."""
    with reading(engine) as connection:
        row = connection.execute(select(rounds).where(rounds.c.round_id == round_id)).one_or_none()
    return None if row is None else Round(**row._mapping)


def place_of(engine: Engine, round_id: str, device: int) -> tuple[Round | None, Place | None]:
    """The round, and the device's place in it."""
    with reading(engine) as connection:
        found = connection.execute(
            select(rounds, assignments.c.aggregator.label("of"), assignments.c.state.label("at"), assignments.c.place)
            .outerjoin(
                assignments,
                and_(assignments.c.round_id == rounds.c.round_id, assignments.c.device == device),
            )
            .where(rounds.c.round_id == round_id)
        ).one_or_none()
    if found is None:
        return None, None
    values = dict(found._mapping)
    aggregator, state, place = values.pop("of"), values.pop("at"), values.pop("place")
    round = Round(**values)
    return round, None if aggregator is None else Place(round, aggregator, state, place)


def take_report(engine: Engine, round_id: str, device: int, process: str) -> Taken:
    """Count a report of this device, once, while the round is open and its goal not reached; all of it or nothing."""
    with lightly(engine) as connection:
        # The round before the places in it, as everybody locks them: two who wait for each other would wait for ever.
        counted = connection.execute(
            update(rounds)
            .where(rounds.c.round_id == round_id, rounds.c.state == OPEN, rounds.c.reported < rounds.c.goal)
            .values(reported=rounds.c.reported + 1)
        )
        if counted.rowcount == 0:
            return Taken.OVER
        mine = (assignments.c.round_id == round_id, assignments.c.device == device, assignments.c.aggregator == process)
        placed = connection.execute(
            update(assignments).where(*mine, assignments.c.state == SELECTED).values(state=REPORTED)
        )
        if placed.rowcount == 0:
            connection.rollback()
            return Taken.NO_PLACE
    return Taken.COUNTED


def close_selection(engine: Engine, lease: Lease, round_id: str) -> int:
    """Choose nobody any more; returns how many have a place."""
    with engine.begin() as connection:
        hold(connection, lease)
        connection.execute(update(rounds).where(rounds.c.round_id == round_id).values(places=rounds.c.selected))
        return connection.execute(select(rounds.c.selected).where(rounds.c.round_id == round_id)).scalar_one()


def settle(engine: Engine, lease: Lease, round_id: str) -> bool:
    """No report is taken any more; False if the round was not open."""
    return _change(engine, lease, round_id, (OPEN,), state=SETTLED)


def commit(engine: Engine, lease: Lease, round_id: str) -> bool:
    """The round's release is in the run's checkpoint."""
    return _change(engine, lease, round_id, (SETTLED,), state=COMMITTED, closed_at=clock.now(engine))


def abandon(engine: Engine, lease: Lease, round_id: str, reason: str) -> bool:
    """Give the round up; only the reason stays."""
    return _change(
        engine, lease, round_id, (OPEN, SETTLED), state=ABANDONED, reason=reason, closed_at=clock.now(engine)
    )


def close_left(engine: Engine, lease: Lease, task: str, *, rounds_done: int, reason: str) -> None:
    """Close what an earlier coordinator of this task left: committed if the run's checkpoint holds it, else abandoned.

    Its sums are never taken over. LedgerError if devices have done rounds that the run knows nothing of: its folder was put
    back to an earlier state, and to go on from there would release them anew without counting them.
    """
    with reading(engine) as connection:
        query = select(rounds).where(rounds.c.task == task, rounds.c.state.in_((OPEN, SETTLED)))
        left = [Round(**row._mapping) for row in connection.execute(query)]
        done = select(func.max(rounds.c.round)).where(rounds.c.task == task, rounds.c.state == COMMITTED)
        last = connection.execute(done).scalar()
    if last is not None and last >= rounds_done:
        raise LedgerError(
            f"Expected a run with the {last + 1} rounds that its devices have done, got {rounds_done}: the run's folder was "
            "put back to an earlier state, and its ledger lacks what was released since."
        )
    for row in left:
        if row.state == SETTLED and row.round < rounds_done:
            commit(engine, lease, row.round_id)
        else:
            abandon(engine, lease, row.round_id, reason)
        drop_checkpoint(engine, row.checkpoint)


def assigned(engine: Engine, round_id: str) -> list[tuple[int, int]]:
    """(place, device) of everybody who was chosen, by place."""
    with reading(engine) as connection:
        query = select(assignments.c.place, assignments.c.device).where(assignments.c.round_id == round_id)
        return [(place, device) for place, device in connection.execute(query.order_by(assignments.c.place))]


def reported_to(engine: Engine, round_id: str) -> dict[str, set[int]]:
    """Whose reports each process has taken."""
    with reading(engine) as connection:
        query = select(assignments.c.aggregator, assignments.c.device).where(
            assignments.c.round_id == round_id, assignments.c.state == REPORTED
        )
        found: dict[str, set[int]] = {}
        for process, device in connection.execute(query):
            found.setdefault(process, set()).add(device)
    return found


def closed(engine: Engine, round_ids: Iterable[str]) -> set[str]:
    """Those of these rounds that are committed, abandoned or unknown."""
    asked = set(round_ids)
    with reading(engine) as connection:
        query = select(rounds.c.round_id).where(rounds.c.round_id.in_(asked), rounds.c.state.in_((OPEN, SETTLED)))
        return asked - set(connection.execute(query).scalars())


def held_until(engine: Engine, process: str) -> float | None:
    """When the rounds under way that need this process end at the latest; None if there are none."""
    here = select(assignments.c.round_id).where(assignments.c.aggregator == process)
    query = select(func.max(rounds.c.deadline)).where(
        rounds.c.state.in_((OPEN, SETTLED)), or_(rounds.c.aggregator == process, rounds.c.round_id.in_(here))
    )
    with reading(engine) as connection:
        return connection.execute(query).scalar()


def record_participation(
    engine: Engine, lease: Lease, *, task: str, round: int, attempt: int, devices: Iterable[int]
) -> None:
    """Who is in the sum, before the round's intent: what MinS and MaxP are checked against."""
    with engine.begin() as connection:
        hold(connection, lease)
        _insert_participation(connection, task, {(round, attempt): list(devices)})


def match_participation(
    engine: Engine, lease: Lease, task: str, recorded: Mapping[tuple[int, int], Sequence[int]]
) -> None:
    """Make the table say what the run's own record says, by (round, attempt).

    What the record lacks was never released; what the table lacks was lost with a database that was put back.
    """
    key = (participations.c.round, participations.c.attempt)
    with engine.begin() as connection:
        hold(connection, lease)
        there = {
            (round, attempt)
            for round, attempt in connection.execute(select(*key).where(participations.c.task == task).distinct())
        }
        for round, attempt in there - set(recorded):
            connection.execute(
                delete(participations).where(participations.c.task == task, key[0] == round, key[1] == attempt)
            )
        missing = {which: recorded[which] for which in recorded.keys() - there}
        _keep_numbers(connection, {int(device) for devices in missing.values() for device in devices})
        _insert_participation(connection, task, missing)


def _keep_numbers(connection: Connection, numbers: set[int]) -> None:
    """Never give the number of a device that the database has forgotten to another: two would be counted as one."""
    known = set(connection.execute(select(devices.c.device)).scalars()) if numbers else set()
    rows = [{"device": number, "identity": os.urandom(32), "revoked": True} for number in sorted(numbers - known)]
    if not rows:
        return
    connection.execute(insert(devices), rows)
    if connection.dialect.name == "postgresql":  # which counts for itself, whatever is in the table
        query = "SELECT setval(pg_get_serial_sequence('devices', 'device'), (SELECT max(device) FROM devices))"
        connection.execute(text(query))


def _run_of(description: str) -> str:
    return str(json.loads(description).get("run", ""))


def _insert_participation(connection: Connection, task: str, who: Mapping[tuple[int, int], Sequence[int]]) -> None:
    rows = [
        {"task": task, "device": int(device), "round": round, "attempt": attempt}
        for (round, attempt), devices in who.items()
        for device in devices
    ]
    if rows:
        connection.execute(insert(participations), rows)


def _change(engine: Engine, lease: Lease, round_id: str, before: tuple[str, ...], **values: object) -> bool:
    with engine.begin() as connection:
        hold(connection, lease)
        found = connection.execute(
            update(rounds).where(rounds.c.round_id == round_id, rounds.c.state.in_(before)).values(**values)
        )
        if found.rowcount == 1 and values["state"] in (COMMITTED, ABANDONED):
            connection.execute(delete(assignments).where(assignments.c.round_id == round_id))
        return found.rowcount == 1
