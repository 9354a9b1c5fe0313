"""Participations survive a database that was restored from a backup."""

from __future__ import annotations

from sqlalchemy import Engine, select

from tacit.fleet.database import leases, participation_table, schema
from tests.support.fleet.people import a_task, enrolled


def test_the_numbers_of_devices_that_were_forgotten_are_not_given_out_again(engine: Engine) -> None:
    lease = leases.acquire(engine, "run:x", "me", now=0.0)
    assert lease is not None
    task, known = a_task(engine), enrolled(engine).number
    forgotten = [known + 1, known + 3]  # enrolled after the day to which the database was put back
    participation_table.match_participation(
        engine, lease, task, {(0, 0): [known, forgotten[0]], (1, 0): [forgotten[1]]}
    )
    with engine.connect() as connection:
        table = connection.execute(select(schema.participations.c.device)).scalars().all()
        left_out = connection.execute(select(schema.devices.c.device).where(schema.devices.c.revoked)).scalars().all()
    assert sorted(table) == [known, *forgotten]
    assert sorted(left_out) == forgotten
    assert enrolled(engine).number > max(forgotten)
