"""Who may take part in a round now, and when the others should come back (Gboard, section 2.2; Production, IV and V).

A place is claimed in one transaction that locks first the device, then the round: in it the device holds no other place, has
waited `min_separation` rounds since its last one, has been there fewer than `max_participation` times, and the round is open
with a place left. Participations of a round are written before the task's next round is opened, so whoever sees an open round
sees them. A device counts for itself as well; what is checked here does not depend on its word.

**Pace** (`pace.py`). Every answer says when to come back.

What is the same for all devices, an `Outlook`, may be a moment old: it says what is worth trying, and the transaction decides.
"""

from __future__ import annotations

import random
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache

from sqlalchemy import Connection, Engine, Row, bindparam, func, insert, select, update

from tacit.fleet.rounds.lifecycle import ABANDONED, COMMITTED, OPEN, SELECTED
from tacit.fleet.rounds.pace import Tempo, idle_wait_s, tempo
from tacit.fleet.server.database import lightly, reading
from tacit.fleet.server.leases import AGGREGATES, LEAVING, seen_lately
from tacit.fleet.server.schema import assignments, devices, participations, processes, rounds, tasks
from tacit.fleet.wire.messages import Answer, Assignment, CheckIn, Task
from tacit.privacy.participation.pace import LONGEST_WAIT_S

# How old an outlook may be: a new round is noticed so much later.
OUTLOOK_S = 0.2
_RECENT = 8

# Built once: to put a query together takes longer than to run it.
_LIMITS = select(func.max(participations.c.round), func.count()).where(
    participations.c.task == bindparam("task"), participations.c.device == bindparam("device")
)
_HELD = (
    select(assignments.c.round_id, assignments.c.aggregator)
    .join(rounds, rounds.c.round_id == assignments.c.round_id)
    .where(rounds.c.state == OPEN, assignments.c.device == bindparam("device"), assignments.c.state == SELECTED)
)
_LOCK_DEVICE = select(devices.c.revoked).where(devices.c.device == bindparam("device")).with_for_update(key_share=True)
_SEEN = select(assignments.c.state).where(
    assignments.c.round_id == bindparam("round_id"), assignments.c.device == bindparam("device")
)
_TAKE_PLACE = (
    update(rounds)
    .where(rounds.c.round_id == bindparam("which"), rounds.c.state == OPEN, rounds.c.selected < rounds.c.places)
    .values(selected=rounds.c.selected + 1)
    .returning(rounds.c.selected)
)
_ASSIGN = insert(assignments)


@dataclass(frozen=True)
class ActiveTask:
    """A task that devices work on, the number of its next round, and how fast its rounds follow each other."""

    name: str
    task: Task
    next_round: int
    tempo: Tempo


@dataclass(frozen=True)
class Outlook:
    """What there is to do, for any device: tasks, rounds that are open, where reports go.

    `uploads` has the address of every process that takes reports; those that are not `leaving` may be given more of them.
    """

    known: int  # devices
    tasks: Sequence[ActiveTask]
    open: Sequence[Row]
    uploads: Mapping[str, str]
    leaving: frozenset[str]


class Lookout:
    """An outlook that is looked up again when it is old."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._lock = threading.Lock()
        self._seen: tuple[float, Outlook] | None = None

    def at(self, now: float) -> Outlook:
        """The outlook at this moment, or one of a few moments ago."""
        with self._lock:
            if self._seen is None or not 0 <= now - self._seen[0] < OUTLOOK_S:
                self._seen = (now, look(self._engine, now=now))
            return self._seen[1]


def look(engine: Engine, *, now: float) -> Outlook:
    """What there is to do now."""
    with reading(engine) as connection:
        known = connection.execute(select(func.max(devices.c.device))).scalar() or 0
        active = connection.execute(select(tasks.c.task, tasks.c.description).where(tasks.c.active.is_(True))).all()
        query = select(rounds, tasks.c.description).join(tasks, tasks.c.task == rounds.c.task)
        query = query.where(rounds.c.state == OPEN, rounds.c.deadline > now, tasks.c.active.is_(True))
        is_open = connection.execute(query).all()
        query = select(processes).where(processes.c.role.in_((*AGGREGATES, LEAVING)), seen_lately(now))
        seen = connection.execute(query).all()
        uploads = {row.process: row.address for row in seen}
        leaving = frozenset(row.process for row in seen if row.role == LEAVING)
        return Outlook(known, [_active(connection, row, known) for row in active], is_open, uploads, leaving)


def check_in(
    engine: Engine, device: int, request: CheckIn, *, now: float, draw: random.Random, outlook: Outlook | None = None
) -> Answer:
    """A place in a round for this device, if one is free and nothing forbids it; and when to come back in any case."""
    there = look(engine, now=now) if outlook is None else outlook
    offered = [row for row in there.open if row.task not in request.busy_with and row.deadline > now]
    with reading(engine) as connection:
        waits = [_wait(connection, each, device, request, now, draw) for each in there.tasks]
        held = connection.execute(_HELD, {"device": device}).first() if offered else None
    chosen: tuple[Row, str] | None = None
    if held is not None:
        chosen = _again(held, offered, there.uploads)
    else:
        draw.shuffle(offered)
        for row in offered:
            takes = there.uploads.keys() & {row.aggregator} if row.aggregator else there.uploads.keys() - there.leaving
            if not takes or row.selected >= row.places:
                continue
            at = draw.choice(sorted(takes))
            if _claim(engine, row, device, at, request.was_in.get(row.task)):
                chosen = row, at
                break
    assignment = None if chosen is None else _assignment(chosen[0], there.uploads[chosen[1]], now)
    come_back_s = min(waits, default=idle_wait_s(there.known, draw=draw))
    return Answer(assignment=assignment, come_back_s=round(come_back_s, 3))


def rounds_early(
    connection: Connection, task: Task, name: str, device: int, at_round: int, was_in: int | None = None
) -> int | None:
    """By how many rounds a device is too early for this one of a task; 0: it may come; None: it never may again.

    `was_in` is the device's own word on its last round: it may be later than what is known here, and never makes it sooner.
    """
    last, times = connection.execute(_LIMITS, {"task": name, "device": device}).one()
    if times >= task.max_participation:
        return None
    known = [round for round in (last, was_in) if round is not None]
    return max(0, task.min_separation - (at_round - max(known) - 1)) if known else 0


def could_come(engine: Engine, task: Task, name: str, at_round: int) -> int:
    """About how many devices may be in this round: all, less those who were in one too near, or as often as they may.

    A device that has reported counts the round for itself, whatever became of it, so tries that came to nothing count as well.
    """
    first = at_round - task.min_separation
    near = (rounds.c.task == name, rounds.c.round >= first, rounds.c.state.in_((COMMITTED, ABANDONED)))
    often = (
        select(participations.c.device)
        .where(participations.c.task == name)
        .group_by(participations.c.device)
        .having(func.count() >= task.max_participation, func.max(participations.c.round) < first)
    )
    with reading(engine) as connection:
        all_of_them = connection.execute(select(func.count()).where(devices.c.revoked.is_(False))).scalar_one()
        reports = connection.execute(select(func.coalesce(func.sum(rounds.c.reported), 0)).where(*near)).scalar_one()
        done = connection.execute(select(func.count()).select_from(often.subquery())).scalar_one()
    return max(0, all_of_them - int(reports) - done)


def _claim(engine: Engine, row: Row, device: int, aggregator: str, was_in: int | None) -> bool:
    """Take a place in this round for this device, if that is right at this moment."""
    with lightly(engine) as connection:
        # The device's row, locked: of two check-ins of one device the second sees what the first did.
        if connection.execute(_LOCK_DEVICE, {"device": device}).scalar_one_or_none() is not False:
            return False
        if connection.execute(_HELD, {"device": device}).first() is not None:
            return False
        if rounds_early(connection, _task(row.description), row.task, device, row.round, was_in) != 0:
            return False
        here = {"round_id": row.round_id, "device": device}
        if connection.execute(_SEEN, here).first() is not None:
            return False
        place = connection.execute(_TAKE_PLACE, {"which": row.round_id}).scalar_one_or_none()
        if place is None:
            return False
        connection.execute(_ASSIGN, {**here, "place": place - 1, "aggregator": aggregator, "state": SELECTED})
    return True


def _again(held: Row, offered: Sequence[Row], uploads: Mapping[str, str]) -> tuple[Row, str] | None:
    """The same place once more, for a device that missed the answer; in secure aggregation it has left the round."""
    for row in offered:
        if row.round_id == held.round_id and held.aggregator in uploads and _task(row.description).secagg is None:
            return row, held.aggregator
    return None


def _active(connection: Connection, row: Row, known: int) -> ActiveTask:
    query = select(rounds.c.round, rounds.c.places, rounds.c.opened_at).where(rounds.c.task == row.task)
    recent = connection.execute(query.order_by(rounds.c.opened_at.desc()).limit(_RECENT)).all()
    task = _task(row.description)
    found = tempo([(each.opened_at, each.places) for each in recent], known, task.report_goal)
    return ActiveTask(row.task, task, recent[0].round + 1 if recent else 0, found)


def _wait(
    connection: Connection, active: ActiveTask, device: int, request: CheckIn, now: float, draw: random.Random
) -> float:
    was_in = request.was_in.get(active.name)
    early = rounds_early(connection, active.task, active.name, device, active.next_round, was_in)
    if early is None:
        return LONGEST_WAIT_S * draw.uniform(0.5, 1.0)
    return active.tempo.come_back_s(early, now=now, draw=draw)


@lru_cache(maxsize=256)
def _task(description: str) -> Task:
    return Task.model_validate_json(description)


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
