"""Which device took part in which round. MinS and MaxP are checked against this table when a device asks for a place.

The run's own participation record decides: `match_participation` makes the table agree with it.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence

from sqlalchemy import Connection, Engine, delete, insert, select, text

from tacit.fleet.database.leases import Lease, hold
from tacit.fleet.database.schema import devices, participations

# The devices that took part, by (round, attempt).
Recorded = Mapping[tuple[int, int], Sequence[int]]


def record_participation(
    engine: Engine, lease: Lease, *, task: str, round: int, attempt: int, devices: Iterable[int]
) -> None:
    """Write down which devices are in the round's sum. This is called before the round's intent is written."""
    with engine.begin() as connection:
        hold(connection, lease)
        _insert(connection, task, {(round, attempt): list(devices)})


def match_participation(engine: Engine, lease: Lease, task: str, recorded: Recorded) -> None:
    """Make the table agree with the run's own record.

    Rounds that the record lacks were never released, and are deleted. Rounds that the table lacks were lost when the database
    was restored from a backup, and are inserted.
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
