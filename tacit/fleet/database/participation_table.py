"""Which device took part in which round. MinS and MaxP are checked against this table when a device asks for a place.

The run's own participation record decides: `match_participation` makes the table agree with it.

**What counts.** A round may need several tries. The ledger gets an intent for a try when its cohort is settled, and from then
on the try counts as released; a try without an intent released nothing. The table holds the rounds that the model is made of:
of each round before the current one the attempt that the checkpoint contains, and the current one's from just before its
intent. MinS and MaxP are promised of those (`live`), and this is what the accounting needs:

- A try that was abandoned before its intent has no sum that anybody adds noise to or looks at. Its devices are free at once.
- An attempt that was lost after its intent is charged as a branch of its own: the rounds before it and this one, with all that
  one user can have contributed to them (`tacit.privacy.accounting.releases`). MinS and MaxP have to hold within each branch,
  and the attempt that replaces a lost one is never in a branch with it. So its devices may be in the next attempt. In the lost
  branch they hold as well, because they were checked against the same earlier rounds when the places were given.
- A release that is in the ledger but was not used is such a lost attempt: nothing of it is forgotten, and it is charged.

**What a device is told** (`uncounted`): of a try that it has sent something in, that it is not in the table for it and never
will be. It is told so only of a try that is over (abandoned or committed: both are final), and of an abandoned one whose
participation is in the table only if that of another try at the same attempt was committed, because an attempt has one intent.
A try that the database does not know, or that is not over, counts. If the database was restored from a backup, the table is
made to agree with the run's record before the tries of that time are closed, so that none of them is called uncounted which the
ledger has.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable, Mapping, Sequence

from sqlalchemy import Connection, Engine, delete, exists, insert, or_, select, text

from tacit.fleet.database.leases import Lease, hold
from tacit.fleet.database.schema import ABANDONED, COMMITTED, devices, participations, rounds

# The devices that took part, by (round, attempt).
Recorded = Mapping[tuple[int, int], Sequence[int]]


def live(recorded: Recorded, rounds_done: int) -> Recorded:
    """The attempts that a model of so many rounds is made of: of each of these rounds the last one."""
    last = {round: attempt for round, attempt in sorted(recorded) if round < rounds_done}
    return {(round, attempt): recorded[round, attempt] for round, attempt in last.items()}


def uncounted(connection: Connection, device: int, round_ids: Collection[str]) -> list[str]:
    """Those of these tries at rounds that this device is not in, and never will be (see above)."""
    if not round_ids:
        return []
    same = (participations.c.task == rounds.c.task, participations.c.round == rounds.c.round)
    mine = (*same, participations.c.attempt == rounds.c.attempt, participations.c.device == device)
    other = rounds.alias()
    replaced = (
        (other.c.task == rounds.c.task)
        & (other.c.round == rounds.c.round)
        & (other.c.attempt == rounds.c.attempt)
        & (other.c.state == COMMITTED)
    )
    query = select(rounds.c.round_id).where(
        rounds.c.round_id.in_(round_ids),
        or_(
            rounds.c.state.in_((ABANDONED, COMMITTED)) & ~exists().where(*mine),
            (rounds.c.state == ABANDONED) & exists().where(replaced),
        ),
    )
    return sorted(connection.execute(query).scalars())


def record_participation(
    engine: Engine, lease: Lease, *, task: str, round: int, attempt: int, devices: Iterable[int]
) -> None:
    """Write down which devices are in the round's sum. This is called before the round's intent is written."""
    with engine.begin() as connection:
        hold(connection, lease)
        _insert(connection, task, {(round, attempt): list(devices)})


def match_participation(engine: Engine, lease: Lease, task: str, recorded: Recorded) -> None:
    """Make the table agree with the run's own record.

    `recorded` are the rounds that count. Others were never released, or are charged as lost, and are deleted. Rounds that the
    table lacks were lost when the database was restored from a backup, and are inserted.
    """
    key = (participations.c.round, participations.c.attempt)
    with engine.begin() as connection:
        hold(connection, lease)
        known = {
            (round, attempt)
            for round, attempt in connection.execute(select(*key).where(participations.c.task == task).distinct())
        }
        for round, attempt in known - set(recorded):
            connection.execute(
                delete(participations).where(participations.c.task == task, key[0] == round, key[1] == attempt)
            )
        missing = {which: recorded[which] for which in recorded.keys() - known}
        _reserve_numbers(connection, {int(device) for devices in missing.values() for device in devices})
        _insert(connection, task, missing)


def _reserve_numbers(connection: Connection, numbers: set[int]) -> None:
    """Block the numbers of devices that the database has lost: a new device with an old number would count as the old one."""
    known = set(connection.execute(select(devices.c.device)).scalars()) if numbers else set()
    rows = [{"device": number, "identity": os.urandom(32), "revoked": True} for number in sorted(numbers - known)]
    if not rows:
        return
    connection.execute(insert(devices), rows)
    if connection.dialect.name == "postgresql":  # its counter does not follow the rows that are in the table
        query = "SELECT setval(pg_get_serial_sequence('devices', 'device'), (SELECT max(device) FROM devices))"
        connection.execute(text(query))


def _insert(connection: Connection, task: str, recorded: Recorded) -> None:
    rows = [
        {"task": task, "device": int(device), "round": round, "attempt": attempt}
        for (round, attempt), devices in recorded.items()
        for device in devices
    ]
    if rows:
        connection.execute(insert(participations), rows)
