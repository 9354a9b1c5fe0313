"""The states of a round in the database: opened, filled with reports up to its goal, settled, then committed or abandoned.

    open ──► settled ──► committed        a settled round accepts no more reports
      └─────────┴──────► abandoned        the reason is kept; the devices' places are deleted

A place from which nothing comes is given to another device before the deadline (`silent_places`, `offer_places`). A device that
was silent gets no place for a while, longer each time, so that devices that never report do not take the places of
those that would.

Every change of state is one conditional UPDATE, so of several processes that try it, one succeeds. A coordinator writes only
while it holds the lease (`leases.py`). A row serves for at most one sum. No update and no sum is stored here.
"""

from __future__ import annotations

import json
import secrets
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import Enum

from sqlalchemy import Connection, Engine, and_, bindparam, delete, func, insert, or_, select, update

from tacit.errors import LedgerError
from tacit.fleet.database import clock, public_log
from tacit.fleet.database.hot_statements import light, reading
from tacit.fleet.database.leases import Lease, hold
from tacit.fleet.database.schema import (
    ABANDONED,
    COMMITTED,
    OPEN,
    REPORTED,
    SELECTED,
    SETTLED,
    assignments,
    devices,
    rounds,
    tasks,
)
from tacit.fleet.database.task_table import drop_checkpoint
from tacit.fleet.database.transactions import read_only

# Built once, because building a query takes longer than running it.
_PLACE_OF = (
    select(rounds, assignments.c.aggregator.label("of"), assignments.c.state.label("at"), assignments.c.place)
    .outerjoin(
        assignments,
        and_(assignments.c.round_id == rounds.c.round_id, assignments.c.device == bindparam("device")),
    )
    .where(rounds.c.round_id == bindparam("round_id"))
)
_COUNT = (
    update(rounds)
    .where(rounds.c.round_id == bindparam("of_round"), rounds.c.state == OPEN, rounds.c.reported < rounds.c.goal)
    .values(reported=rounds.c.reported + 1)
)
_REPORTED = (
    update(assignments)
    .where(
        assignments.c.round_id == bindparam("of_round"),
        assignments.c.device == bindparam("of_device"),
        assignments.c.aggregator == bindparam("at"),
        assignments.c.state == SELECTED,
    )
    .values(state=REPORTED, receipt=bindparam("leaf"))
)
# Stands for an infinite clip norm (no clipping), because JSON has no infinity.
UNCLIPPED = 1e300
# The rest of a device after a place from which nothing came doubles with each in a row, so often at most. More would punish a
# whole fleet for one night without network.
_MOST_DOUBLINGS = 4


@dataclass(frozen=True)
class Dropped:
    """The stage in which nothing came from each device that failed, and how long it gets no place after the first time.

    The stage is REPORT without secure aggregation.
    """

    stages: Mapping[int, str]
    rest_s: float


REPORT = "report"
NOBODY = Dropped({}, 0.0)


@dataclass(frozen=True)
class RoundRow:
    """One try at one round: a row of the table."""

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
    stopped_by: str | None


@dataclass(frozen=True)
class Place:
    """A device's place in a round, and the round."""

    round: RoundRow
    aggregator: str
    state: str
    place: int


class ReportResult(Enum):
    """Whether a report was counted, and if not, why."""

    COUNTED = "counted"
    NO_PLACE = "the device has no place in the round, or has reported already"
    OVER = "the round accepts no more reports"


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
) -> RoundRow:
    """Open a round: from now on devices can get a place in it."""
    now = clock.now(engine)
    row = RoundRow(
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
        stopped_by=None,
    )
    with engine.begin() as connection:
        hold(connection, lease)
        connection.execute(insert(rounds).values(**vars(row)))
    return row


def find(engine: Engine, round_id: str) -> RoundRow | None:
    """The round's current row; None if there is no such round."""
    with read_only(engine) as connection:
        row = connection.execute(select(rounds).where(rounds.c.round_id == round_id)).one_or_none()
    return None if row is None else RoundRow(**row._mapping)


def settled(engine: Engine, task: str, *, round: int, attempt: int) -> RoundRow | None:
    """The settled try at this attempt; None if there is none."""
    which = (rounds.c.task == task, rounds.c.round == round, rounds.c.attempt == attempt, rounds.c.state == SETTLED)
    with read_only(engine) as connection:
        row = connection.execute(select(rounds).where(*which)).one_or_none()
    return None if row is None else RoundRow(**row._mapping)


def place_of(engine: Engine, round_id: str, device: int) -> tuple[RoundRow | None, Place | None]:
    """The round and the device's place in it; None for whichever does not exist."""
    with reading(engine) as connection:
        found = connection.execute(_PLACE_OF, {"round_id": round_id, "device": device}).fetchall()
    if not found:
        return None, None
    *values, aggregator, state, place = found[0]
    round = RoundRow(**dict(zip(rounds.c.keys(), values, strict=True)))
    return round, None if aggregator is None else Place(round, aggregator, state, place)


def take_report(engine: Engine, round_id: str, device: int, process: str, receipt: str | None = None) -> ReportResult:
    """Count a device's report, once, while the round is open and below its goal. If it is not counted, nothing changes.

    `receipt` is the leaf of the receipt that the device gets for it.
    """
    with light(engine) as connection:
        # Lock the round before its places, as every transaction does: another order could deadlock.
        if connection.execute(_COUNT, {"of_round": round_id}).rowcount == 0:
            return ReportResult.OVER
        mine = {"of_round": round_id, "of_device": device, "at": process}
        if connection.execute(_REPORTED, {**mine, "leaf": receipt}).rowcount == 0:
            connection.rollback()
            return ReportResult.NO_PLACE
    return ReportResult.COUNTED


def close_selection(engine: Engine, lease: Lease, round_id: str) -> int:
    """Select no more devices; returns how many have a place."""
    with engine.begin() as connection:
        hold(connection, lease)
        connection.execute(update(rounds).where(rounds.c.round_id == round_id).values(places=rounds.c.selected))
        return connection.execute(select(rounds.c.selected).where(rounds.c.round_id == round_id)).scalar_one()


def settle(engine: Engine, lease: Lease, round_id: str) -> bool:
    """Accept no more reports; False if the round was not open."""
    return _change(engine, lease, round_id, (OPEN,), state=SETTLED)


def silent_places(engine: Engine, round_id: str, *, since: float) -> list[int]:
    """The devices that have had a place in the round since then or longer, and have not reported."""
    with read_only(engine) as connection:
        query = select(assignments.c.device).where(
            assignments.c.round_id == round_id, assignments.c.state == SELECTED, assignments.c.since <= since
        )
        return sorted(connection.execute(query).scalars())


def offer_places(engine: Engine, lease: Lease, round_id: str, places: int) -> None:
    """Let so many devices be selected in all. Those that have a place keep it: who is slow may still report in time."""
    with engine.begin() as connection:
        hold(connection, lease)
        which = (rounds.c.round_id == round_id, rounds.c.state == OPEN, rounds.c.places < places)
        connection.execute(update(rounds).where(*which).values(places=places))


def commit(
    engine: Engine, lease: Lease, round_id: str, *, dropped: Dropped = NOBODY, ledger: str | None = None
) -> bool:
    """Mark the round as done: its release is in the run's checkpoint. `dropped`: as in `abandon`.

    `ledger` is the digest of the ledger's last record, for the server's public log.
    """
    closed = {"state": COMMITTED, "closed_at": clock.now(engine)}
    return _change(engine, lease, round_id, (SETTLED,), dropped, ledger=ledger, **closed)


def abandon(engine: Engine, lease: Lease, round_id: str, reason: str, *, dropped: Dropped = NOBODY) -> bool:
    """Abandon the round and keep only the reason. `dropped` are the devices that failed in it."""
    return _change(
        engine, lease, round_id, (OPEN, SETTLED), dropped, state=ABANDONED, reason=reason, closed_at=clock.now(engine)
    )


def close_leftover_rounds(
    engine: Engine,
    lease: Lease,
    task: str,
    *,
    rounds_done: int,
    reason: str,
    but: str | None = None,
    ledger: str | None = None,
) -> list[RoundRow]:
    """Close the rounds that an earlier coordinator left: committed if the run's checkpoint contains them, else abandoned.

    The round `but` is kept: its sum is still there. `ledger`: as in `commit`. Returns those that were abandoned.
    """
    abandoned = []
    with read_only(engine) as connection:
        query = select(rounds).where(rounds.c.task == task, rounds.c.state.in_((OPEN, SETTLED)))
        left = [RoundRow(**row._mapping) for row in connection.execute(query)]
    for row in left:
        if row.round_id == but:
            continue
        if row.state == SETTLED and row.round < rounds_done:
            commit(engine, lease, row.round_id, ledger=ledger)
        else:
            abandon(engine, lease, row.round_id, reason)
            abandoned.append(row)
        drop_checkpoint(engine, row.checkpoint)
    return abandoned


def require_no_older_run(engine: Engine, task: str, *, rounds_done: int) -> None:
    """LedgerError if the database has committed rounds that the run lacks.

    The run's folder was then restored from a backup, and going on would release these rounds again without accounting for both
    releases.
    """
    with read_only(engine) as connection:
        done = select(func.max(rounds.c.round)).where(rounds.c.task == task, rounds.c.state == COMMITTED)
        last = connection.execute(done).scalar()
    if last is not None and last >= rounds_done:
        raise LedgerError(
            f"Expected a run with the {last + 1} rounds that its devices have done, got {rounds_done}: the run's folder was "
            "restored to an earlier state, and its ledger lacks the releases since then."
        )


def assigned(engine: Engine, round_id: str) -> list[tuple[int, int]]:
    """(place, device) of every selected device, ordered by place."""
    with read_only(engine) as connection:
        query = select(assignments.c.place, assignments.c.device).where(assignments.c.round_id == round_id)
        return [(place, device) for place, device in connection.execute(query.order_by(assignments.c.place))]


def reported_to(engine: Engine, round_id: str) -> dict[str, set[int]]:
    """The devices whose reports each process has accepted."""
    with read_only(engine) as connection:
        query = select(assignments.c.aggregator, assignments.c.device).where(
            assignments.c.round_id == round_id, assignments.c.state == REPORTED
        )
        found: dict[str, set[int]] = {}
        for process, device in connection.execute(query):
            found.setdefault(process, set()).add(device)
    return found


def closed(engine: Engine, round_ids: Iterable[str]) -> set[str]:
    """The subset of these rounds that are committed, abandoned or unknown."""
    asked = set(round_ids)
    with read_only(engine) as connection:
        query = select(rounds.c.round_id).where(rounds.c.round_id.in_(asked), rounds.c.state.in_((OPEN, SETTLED)))
        return asked - set(connection.execute(query).scalars())


def held_until(engine: Engine, process: str) -> float | None:
    """The latest deadline of the rounds that need this process; None if no round does."""
    here = select(assignments.c.round_id).where(assignments.c.aggregator == process)
    query = select(func.max(rounds.c.deadline)).where(
        rounds.c.state.in_((OPEN, SETTLED)), or_(rounds.c.aggregator == process, rounds.c.round_id.in_(here))
    )
    with read_only(engine) as connection:
        return connection.execute(query).scalar()


def _change(
    engine: Engine,
    lease: Lease,
    round_id: str,
    before: tuple[str, ...],
    dropped: Dropped = NOBODY,
    *,
    ledger: str | None = None,
    **values: object,
) -> bool:
    with engine.begin() as connection:
        hold(connection, lease)
        found = connection.execute(
            update(rounds).where(rounds.c.round_id == round_id, rounds.c.state.in_(before)).values(**values)
        )
        if found.rowcount == 1 and values["state"] in (COMMITTED, ABANDONED):
            _remember(connection, round_id, str(values["state"]), dropped, now=clock.now(engine))
            public_log.close_try(connection, round_id, ledger)
            connection.execute(delete(assignments).where(assignments.c.round_id == round_id))
        return found.rowcount == 1


def _remember(connection: Connection, round_id: str, state: str, dropped: Dropped, *, now: float) -> None:
    """Write down what the round's devices did in it, and let those that failed rest."""
    round, task, known = connection.execute(
        select(rounds.c.round, rounds.c.task, tasks.c.dropped)
        .join(tasks, tasks.c.task == rounds.c.task)
        .where(rounds.c.round_id == round_id)
    ).one()
    if dropped.stages:
        counts = Counter(json.loads(known or "{}")) + Counter(dropped.stages.values())
        connection.execute(update(tasks).where(tasks.c.task == task).values(dropped=json.dumps(counts)))
    reported = select(assignments.c.device).where(
        assignments.c.round_id == round_id,
        assignments.c.state == REPORTED,
        assignments.c.device.not_in(list(dropped.stages)),
    )
    word = f"reported in round {round}" + (", which was abandoned" if state == ABANDONED else "")
    # Of a device that has left, nothing new is written down.
    here = devices.c.left_at.is_(None)
    connection.execute(update(devices).where(devices.c.device.in_(reported), here).values(failures=0, last_word=word))
    for device, stage in sorted(dropped.stages.items()):
        failed = "sent nothing" if stage == REPORT else f"left secure aggregation in the stage {stage}"
        failures = connection.execute(
            update(devices)
            .where(devices.c.device == device, here)
            .values(failures=devices.c.failures + 1, last_word=f"{failed} in round {round}"[:200])
            .returning(devices.c.failures)
        ).scalar_one_or_none()
        rest = dropped.rest_s * 2 ** min((failures or 1) - 1, _MOST_DOUBLINGS)
        connection.execute(update(devices).where(devices.c.device == device, here).values(rests_until=now + rest))
