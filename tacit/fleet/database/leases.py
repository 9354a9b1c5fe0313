"""Which processes run, and which of them coordinates.

Each process renews its entry every few seconds. A lease makes one process the coordinator: if it is not renewed in time,
another process can take it over, and its epoch rises. The clock (`clock.py`) only decides when another process may try. Every
write of a coordinator is in a transaction that checks the lease (`hold`), so a coordinator that has lost its lease writes
nothing more, however late it notices.
"""

from __future__ import annotations

from dataclasses import dataclass

from sqlalchemy import ColumnElement, Connection, Engine, delete, insert, or_, select, update
from sqlalchemy.exc import IntegrityError

from tacit.errors import FleetError
from tacit.fleet.database.schema import leases, processes
from tacit.fleet.database.transactions import light_transaction, read_only

# The roles of processes that accept reports. A process that is leaving finishes its rounds and gets no new ones.
AGGREGATES, LEAVING = ("aggregator", "all"), "leaving"
RENEW_S = 2.0
# After this long without a sign of life a process counts as gone, and its lease may be taken over.
GONE_AFTER_S = 10.0
_FORGOTTEN_AFTER_S = 3600.0


class LeaseLost(FleetError):
    """Another process coordinates now."""


@dataclass(frozen=True)
class Lease:
    """The right to coordinate `name`; `epoch` counts its holders so far."""

    name: str
    holder: str
    epoch: int


def appear(engine: Engine, process: str, *, role: str, address: str, now: float) -> None:
    """Enter a running process and its address, or renew its entry."""
    with light_transaction(engine) as connection:
        renewed = update(processes).where(processes.c.process == process).values(seen_at=now, role=role)
        if connection.execute(renewed).rowcount == 0:
            connection.execute(delete(processes).where(processes.c.seen_at < now - _FORGOTTEN_AFTER_S))
            connection.execute(insert(processes).values(process=process, role=role, address=address, seen_at=now))


def disappear(engine: Engine, process: str) -> None:
    """Remove a process's entry."""
    with engine.begin() as connection:
        connection.execute(delete(processes).where(processes.c.process == process))


def alive(engine: Engine, roles: tuple[str, ...], *, now: float) -> dict[str, str]:
    """The address of each process in these roles that was seen recently."""
    with read_only(engine) as connection:
        query = select(processes.c.process, processes.c.address).where(processes.c.role.in_(roles), seen_recently(now))
        return {row.process: row.address for row in connection.execute(query)}


def seen_recently(now: float) -> ColumnElement[bool]:
    """SQL condition: the process was seen recently. A time in the future comes from before the clock was set back."""
    return processes.c.seen_at.between(now - GONE_AFTER_S, now + GONE_AFTER_S)


def acquire(engine: Engine, name: str, holder: str, *, now: float) -> Lease | None:
    """The lease, if it is free, expired, or already held by this process; None otherwise.

    A lease that expires later than a new one would was written before the clock was set back; it counts as expired.
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
        return None  # another process was faster
    return Lease(name, holder, epoch)


def renew(engine: Engine, lease: Lease, *, now: float) -> None:
    """Renew the lease; LeaseLost if another process has it."""
    with light_transaction(engine) as connection:
        kept = connection.execute(update(leases).where(*_mine(lease)).values(expires_at=now + GONE_AFTER_S))
    if kept.rowcount == 0:
        raise _lost(lease)


def release(engine: Engine, lease: Lease) -> None:
    """Free the lease at once. The row stays, so that the next holder's epoch is higher."""
    with engine.begin() as connection:
        connection.execute(update(leases).where(*_mine(lease)).values(expires_at=0.0))


def hold(connection: Connection, lease: Lease) -> None:
    """Hold the lease until this transaction ends; LeaseLost if another process has it."""
    query = select(leases.c.epoch).where(*_mine(lease)).with_for_update()
    if connection.execute(query).first() is None:
        raise _lost(lease)


def _mine(lease: Lease) -> tuple[ColumnElement[bool], ...]:
    return leases.c.name == lease.name, leases.c.holder == lease.holder, leases.c.epoch == lease.epoch


def _lost(lease: Lease) -> LeaseLost:
    return LeaseLost(f"Another process coordinates {lease.name!r} now.")
