"""Which device gets a place in which round, and how long the others should wait (Gboard, section 2.2; Production, IV and V).

A place is claimed in one transaction, which locks first the device and then the round. It checks that the device has not left,
is not revoked, quarantined or resting after places from which nothing came, holds no other place, has waited `min_separation`
rounds since its last round, has taken part fewer than `max_participation` times, and that the round is open and has a free
place. The participations of a round are written before the task's next round is opened, so a transaction that sees an open
round sees them. Devices enforce the same limits, but these checks do not rely on that.

Every answer also says how long to wait before the next check-in (`pace_steering.py`).

Data that are the same for all devices, a `FleetSnapshot`, may be a moment old: they only say what to try, and the transaction
decides.
"""

from __future__ import annotations

import random
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache

from sqlalchemy import Connection, Engine, Row, bindparam, func, insert, select, update

from tacit.fleet.database.hot_statements import DriverConnection, light, reading
from tacit.fleet.database.leases import AGGREGATES, LEAVING, seen_recently
from tacit.fleet.database.participation_table import uncounted
from tacit.fleet.database.schema import (
    OPEN,
    SELECTED,
    assignments,
    devices,
    participations,
    processes,
    rounds,
    tasks,
)
from tacit.fleet.database.transactions import read_only
from tacit.fleet.rounds.pace_steering import CheckInPace, check_in_pace, idle_wait_s
from tacit.fleet.wire.messages import Assignment, CheckInAnswer, CheckInRequest
from tacit.fleet.wire.task import DeviceTask
from tacit.privacy.participation.pace import LONGEST_WAIT_S

# How old a snapshot may be; a new round is noticed this much later.
SNAPSHOT_S = 0.2
# The number of past rounds from which the pace is computed.
_RECENT = 8

# Built once, because building a query takes longer than running it.
_LIMITS = select(func.max(participations.c.round), func.count()).where(
    participations.c.task == bindparam("task"), participations.c.device == bindparam("device")
)
_HELD = (
    select(assignments.c.round_id, assignments.c.aggregator)
    .join(rounds, rounds.c.round_id == assignments.c.round_id)
    .where(rounds.c.state == OPEN, assignments.c.device == bindparam("device"), assignments.c.state == SELECTED)
)
_LOCK_DEVICE = (
    select(devices.c.device)
    .where(
        devices.c.device == bindparam("device"),
        devices.c.revoked.is_(False),
        devices.c.quarantined.is_(False),
        devices.c.left_at.is_(None),
        devices.c.rests_until <= bindparam("now"),
    )
    .with_for_update(key_share=True)
)
_OWN_STATE = select(assignments.c.state).where(
    assignments.c.round_id == bindparam("round_id"), assignments.c.device == bindparam("device")
)
_TAKE_PLACE = (
    update(rounds)
    .where(rounds.c.round_id == bindparam("which"), rounds.c.state == OPEN, rounds.c.selected < rounds.c.places)
    .values(selected=rounds.c.selected + 1)
    .returning(rounds.c.selected)
)
_PLACE = ("round_id", "device", "place", "aggregator", "state", "since")
_ASSIGN = insert(assignments).values({name: bindparam(name) for name in _PLACE})


@dataclass(frozen=True)
class ActiveTask:
    """A task that devices work on, the number of its next round, and its pace."""

    name: str
    task: DeviceTask
    next_round: int
    pace: CheckInPace


@dataclass(frozen=True)
class FleetSnapshot:
    """The state of the fleet that is the same for all devices: tasks, open rounds, and where reports are sent.

    `uploads` has the address of every process that accepts reports; new places go only to those that are not `leaving`.
    """

    known: int  # the number of devices
    tasks: Sequence[ActiveTask]
    open: Sequence[Row]
    uploads: Mapping[str, str]
    leaving: frozenset[str]


class SnapshotCache:
    """A snapshot that is read again when it is older than SNAPSHOT_S."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._lock = threading.Lock()
        self._cached: tuple[float, FleetSnapshot] | None = None

    def at(self, now: float) -> FleetSnapshot:
        """A snapshot at most SNAPSHOT_S old."""
        with self._lock:
            if self._cached is None or not 0 <= now - self._cached[0] < SNAPSHOT_S:
                self._cached = (now, take_snapshot(self._engine, now=now))
            return self._cached[1]


def take_snapshot(engine: Engine, *, now: float) -> FleetSnapshot:
    """Read the fleet's state from the database."""
    with read_only(engine) as connection:
        known = connection.execute(select(func.max(devices.c.device))).scalar() or 0
        active = connection.execute(select(tasks.c.task, tasks.c.description).where(tasks.c.active.is_(True))).all()
        query = select(rounds, tasks.c.description).join(tasks, tasks.c.task == rounds.c.task)
        query = query.where(
            rounds.c.state == OPEN, rounds.c.deadline > now, tasks.c.active.is_(True), tasks.c.paused.is_(False)
        )
        is_open = connection.execute(query).all()
        query = select(processes).where(processes.c.role.in_((*AGGREGATES, LEAVING)), seen_recently(now))
        seen = connection.execute(query).all()
        uploads = {row.process: row.address for row in seen}
        leaving = frozenset(row.process for row in seen if row.role == LEAVING)
        return FleetSnapshot(known, [_active(connection, row, known) for row in active], is_open, uploads, leaving)


def check_in(
    engine: Engine,
    device: int,
    request: CheckInRequest,
    *,
    now: float,
    draw: random.Random,
    snapshot: FleetSnapshot | None = None,
) -> CheckInAnswer:
    """A place in a round for this device, if it may take part and one is free; in any case, how long to wait."""
    current = take_snapshot(engine, now=now) if snapshot is None else snapshot
    offered = [row for row in current.open if row.task not in request.busy_with and row.deadline > now]
    with reading(engine) as connection:
        waits = [_wait(connection, each, device, request, now, draw) for each in current.tasks]
        held = connection.execute(_HELD, {"device": device}).fetchall() if offered else []
    in_vain = _in_vain(engine, device, request.sent)
    chosen: tuple[Row, str] | None = None
    if held:
        chosen = _again(held[0], offered, current.uploads)
    else:
        draw.shuffle(offered)
        for row in offered:
            accepting = (
                current.uploads.keys() & {row.aggregator}
                if row.aggregator
                else current.uploads.keys() - current.leaving
            )
            if not accepting or row.selected >= row.places:
                continue
            at = draw.choice(sorted(accepting))
            if _claim(engine, row, device, at, request.was_in.get(row.task), now):
                chosen = row, at
                break
    assignment = None if chosen is None else _assignment(chosen[0], current.uploads[chosen[1]], now)
    come_back_s = min(waits, default=idle_wait_s(current.known, draw=draw))
    return CheckInAnswer(assignment=assignment, come_back_s=round(come_back_s, 3), uncounted=tuple(in_vain))


def rounds_early(
    connection: Connection | DriverConnection,
    task: DeviceTask,
    name: str,
    device: int,
    at_round: int,
    was_in: int | None = None,
) -> int | None:
    """How many rounds a device is too early for this round of a task; 0 if it may take part, None if it never may again.

    `was_in` is the last round that the device itself reports: it can only make the device wait longer, never shorter.
    """
    [(last, times)] = connection.execute(_LIMITS, {"task": name, "device": device}).fetchall()
    if times >= task.max_participation:
        return None
    known = [round for round in (last, was_in) if round is not None]
    return max(0, task.min_separation - (at_round - max(known) - 1)) if known else 0


def could_come(engine: Engine, task: DeviceTask, name: str, at_round: int) -> int:
    """How many devices may take part in this round: not revoked, quarantined or gone, and neither too recently nor too often
    in others.

    Devices that rest for a while, by their own timer or because nothing came from their last places, are counted.
    """
    first = at_round - task.min_separation
    barred = (
        select(participations.c.device)
        .where(participations.c.task == name)
        .group_by(participations.c.device)
        .having((func.count() >= task.max_participation) | (func.max(participations.c.round) >= first))
    )
    query = select(func.count()).where(
        devices.c.revoked.is_(False),
        devices.c.quarantined.is_(False),
        devices.c.left_at.is_(None),
        devices.c.device.not_in(barred),
    )
    with read_only(engine) as connection:
        return int(connection.execute(query).scalar_one())


def _claim(engine: Engine, row: Row, device: int, aggregator: str, was_in: int | None, now: float) -> bool:
    """Claim a place in this round for this device, if it is still allowed and free; whether it was."""
    with light(engine) as connection:
        # Lock the device's row, so that the second of two check-ins of one device sees the result of the first.
        if not connection.execute(_LOCK_DEVICE, {"device": device, "now": now}).fetchall():
            return False
        if connection.execute(_HELD, {"device": device}).fetchall():
            return False
        if rounds_early(connection, _task(row.description), row.task, device, row.round, was_in) != 0:
            return False
        here = {"round_id": row.round_id, "device": device}
        if connection.execute(_OWN_STATE, here).fetchall():
            return False
        taken = connection.execute(_TAKE_PLACE, {"which": row.round_id}).fetchall()
        if not taken:
            return False
        values = {"place": taken[0][0] - 1, "aggregator": aggregator, "state": SELECTED, "since": now}
        connection.execute(_ASSIGN, {**here, **values})
    return True


def _in_vain(engine: Engine, device: int, sent: Sequence[str]) -> list[str]:
    """Those of the tries in `sent` that came to nothing. Most devices ask about none."""
    if not sent:
        return []
    with read_only(engine) as connection:
        return uncounted(connection, device, sent)


def _again(held: tuple[str, str], offered: Sequence[Row], uploads: Mapping[str, str]) -> tuple[Row, str] | None:
    """The place that the device holds already, if it missed the answer. In secure aggregation it has left the round: None."""
    round_id, aggregator = held
    for row in offered:
        if row.round_id == round_id and aggregator in uploads and _task(row.description).secagg is None:
            return row, aggregator
    return None


def _active(connection: Connection, row: Row, known: int) -> ActiveTask:
    query = select(rounds.c.round, rounds.c.places, rounds.c.opened_at).where(rounds.c.task == row.task)
    recent = connection.execute(query.order_by(rounds.c.opened_at.desc()).limit(_RECENT)).all()
    task = _task(row.description)
    found = check_in_pace([(each.opened_at, each.places) for each in recent], known, task.report_goal)
    return ActiveTask(row.task, task, recent[0].round + 1 if recent else 0, found)


def _wait(
    connection: DriverConnection,
    active: ActiveTask,
    device: int,
    request: CheckInRequest,
    now: float,
    draw: random.Random,
) -> float:
    was_in = request.was_in.get(active.name)
    early = rounds_early(connection, active.task, active.name, device, active.next_round, was_in)
    if early is None:
        return LONGEST_WAIT_S * draw.uniform(0.5, 1.0)
    return active.pace.come_back_s(early, now=now, draw=draw)


@lru_cache(maxsize=256)
def _task(description: str) -> DeviceTask:
    return DeviceTask.model_validate_json(description)


def _assignment(row: Row, upload_to: str, now: float) -> Assignment:
    return Assignment(
        round_id=row.round_id,
        task=row.task,
        round=row.round,
        checkpoint=row.checkpoint,
        upload_to=upload_to,
        clip_norm=row.clip_norm,
        threshold=row.threshold,
        signs_seed=row.signs_seed,
        seconds_left=round(max(row.deadline - now, 0.0), 3),
    )
