"""What the server knows of each device, by its number: whether it may take part, and what it last did in a round.

A revoked device is refused every request. A quarantined one stays enrolled and is answered, and gets no place until an operator
releases it. What it took part in stays counted in both cases. A `word` is always one of the server's own sentences, never
anything that a device has sent.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Engine, func, select, update

from tacit.fleet.database.schema import OPEN, assignments, devices, participations, rounds
from tacit.fleet.database.transactions import read_only
from tacit.fleet.wire.refusals import Refusal

READY, RESTING, WORKING = "ready", "resting", "working"
QUARANTINED, REVOKED, LEFT = "quarantined", "revoked", "left"


@dataclass(frozen=True)
class DeviceRow:
    """A device: its state, places in a row from which nothing came, places held now, participations, and its last word."""

    device: int
    state: str
    failures: int
    places: int
    participations: int
    seen_s: float | None
    last_word: str | None


def quarantine(engine: Engine, numbers: Collection[int], word: str) -> None:
    """Give these devices no further places."""
    if not numbers:
        return
    with engine.begin() as connection:
        which = devices.c.device.in_(list(numbers))
        connection.execute(update(devices).where(which).values(quarantined=True, last_word=word[:200]))


def require(engine: Engine, device: int, **values: object) -> None:
    """Change a device; Refusal (404) if there is none of this number."""
    with engine.begin() as connection:
        if connection.execute(update(devices).where(devices.c.device == device).values(**values)).rowcount == 0:
            raise Refusal("No such device.", status=404)


def page(engine: Engine, *, now: float, after: int, most: int) -> list[DeviceRow]:
    """The devices with the next numbers after this one, at most so many."""
    held = (
        select(assignments.c.device, func.count().label("places"))
        .join(rounds, rounds.c.round_id == assignments.c.round_id)
        .where(rounds.c.state == OPEN)
        .group_by(assignments.c.device)
        .subquery()
    )
    came = select(participations.c.device, func.count().label("times")).group_by(participations.c.device).subquery()
    query = (
        select(devices, held.c.places, came.c.times)
        .outerjoin(held, held.c.device == devices.c.device)
        .outerjoin(came, came.c.device == devices.c.device)
        .where(devices.c.device > after)
        .order_by(devices.c.device)
        .limit(most)
    )
    with read_only(engine) as connection:
        found = connection.execute(query).all()
    return [
        DeviceRow(
            device=row.device,
            state=_state(row, now),
            failures=row.failures,
            places=row.places or 0,
            participations=row.times or 0,
            seen_s=None if row.seen_at is None else max(0.0, round(now - row.seen_at, 1)),
            last_word=row.last_word,
        )
        for row in found
    ]


def _state(row: Any, now: float) -> str:
    if row.revoked:
        return REVOKED
    if row.left_at is not None:
        return LEFT
    if row.quarantined:
        return QUARANTINED
    if row.places:
        return WORKING
    return RESTING if row.rests_until > now else READY
