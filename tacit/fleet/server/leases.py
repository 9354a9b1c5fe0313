"""Which processes run, and which one of them coordinates.

A process says every few seconds that it is there. A lease makes one coordinator: it is renewed in time or it can be taken over,
and then its epoch rises. The clock (`clock.py`) decides only when somebody else may try: every write of a coordinator is made
in a transaction that finds the lease in its name (`hold`), so one that was overtaken, however late it notices, writes nothing
more.
"""

from __future__ import annotations

from dataclasses import dataclass

from sqlalchemy import ColumnElement, Connection, Engine, delete, insert, or_, select, update
from sqlalchemy.exc import IntegrityError

from tacit.errors import FleetError
from tacit.fleet.server.database import lightly, reading
from tacit.fleet.server.schema import leases, processes

# The roles of processes that take reports; one that is leaving finishes the rounds it has and is given no other.
AGGREGATES, LEAVING = ("aggregator", "all"), "leaving"
RENEW_S = 2.0
# A process that was not seen for so long is gone; a lease that was not renewed for so long may be taken over.
GONE_AFTER_S = 10.0
_FORGOTTEN_AFTER_S = 3600.0


class LeaseLost(FleetError):
    """Another process coordinates now."""


@dataclass(frozen=True)
class Lease:
    """The right to coordinate `name`, in its `epoch`-th pair of hands."""

    name: str
    holder: str
    epoch: int


def appear(engine: Engine, process: str, *, role: str, address: str, now: float) -> None:
    """Say that a process is there, and where; again from time to time."""
    with lightly(engine) as connection:
        renewed = update(processes).where(processes.c.process == process).values(seen_at=now, role=role)
        if connection.execute(renewed).rowcount == 0:
            connection.execute(delete(processes).where(processes.c.seen_at < now - _FORGOTTEN_AFTER_S))
            connection.execute(insert(processes).values(process=process, role=role, address=address, seen_at=now))


def disappear(engine: Engine, process: str) -> None:
    """Say that a process is leaving."""
    with engine.begin() as connection:
        connection.execute(delete(processes).where(processes.c.process == process))


def alive(engine: Engine, roles: tuple[str, ...], *, now: float) -> dict[str, str]:
    """The address of each process in these roles that was seen lately."""
    with reading(engine) as connection:
        query = select(processes.c.process, processes.c.address).where(processes.c.role.in_(roles), seen_lately(now))
        return {row.process: row.address for row in connection.execute(query)}


def seen_lately(now: float) -> ColumnElement[bool]:
    """Of a process: it is there. One that was seen in the future was seen before somebody set the clock back."""
    return processes.c.seen_at.between(now - GONE_AFTER_S, now + GONE_AFTER_S)


def acquire(engine: Engine, name: str, holder: str, *, now: float) -> Lease | None:
    """The lease, if nobody has it, its holder has not renewed it in time, or is this very process; None otherwise.

    One that lasts longer than any could was not renewed since somebody set the clock back.
    """
    expires_at = now + GONE_AFTER_S
    free = or_(leases.c.expires_at <= now, leases.c.expires_at > expires_at, leases.c.holder == holder)
    try:
        with engine.begin() as connection:
            mine = {"holder": holder, "expires_at": expires_at}
            taken = connection.execute(
                update(leases).where(leases.c.name == name, free).values(epoch=leases.c.epoch + 1, **mine)
            )
            if taken.rowcount == 0:
                if connection.execute(select(leases.c.name).where(leases.c.name == name)).first() is not None:
                    return None
                connection.execute(insert(leases).values(name=name, epoch=1, **mine))
            epoch = connection.execute(select(leases.c.epoch).where(leases.c.name == name)).scalar_one()
    except IntegrityError:
        return None  # another process was quicker
    return Lease(name, holder, epoch)


def renew(engine: Engine, lease: Lease, *, now: float) -> None:
    """Keep the lease; LeaseLost if it is another's."""
    with lightly(engine) as connection:
        kept = connection.execute(update(leases).where(*_mine(lease)).values(expires_at=now + GONE_AFTER_S))
    if kept.rowcount == 0:
        raise _lost(lease)


def release(engine: Engine, lease: Lease) -> None:
    """Let another process have it at once; the epoch stays, so that the next one's is higher."""
    with engine.begin() as connection:
        connection.execute(update(leases).where(*_mine(lease)).values(expires_at=0.0))


def hold(connection: Connection, lease: Lease) -> None:
    """Within a transaction: the lease is this one until the transaction ends; LeaseLost otherwise."""
    query = select(leases.c.epoch).where(*_mine(lease)).with_for_update()
    if connection.execute(query).first() is None:
        raise _lost(lease)


def _mine(lease: Lease) -> tuple[ColumnElement[bool], ...]:
    return leases.c.name == lease.name, leases.c.holder == lease.holder, leases.c.epoch == lease.epoch


def _lost(lease: Lease) -> LeaseLost:
    return LeaseLost(f"Expected to coordinate {lease.name!r}, but another process has taken over.")
