"""The server's public log in the database: entries are added in the transaction that they tell of, and never changed.

A task's entry is written in the transaction that first shows the task, so no device is offered a task that is not in the log. A
try's entry is written in the transaction that closes the try, together with its receipts: a report costs no write of its
own (its receipt's leaf is in the row that counts it), and the log grows by one entry a try. A try that nobody sent
anything in is not in the log, unless it was committed.

Writers take the same lock, so entries are numbered without gaps, and whoever reads a number finds all before it.
"""

from __future__ import annotations

import threading
from functools import lru_cache

from sqlalchemy import Connection, Engine, func, insert, select

from tacit.fleet.database.schema import COMMITTED, REPORTED, assignments, log_entries, receipts, rounds, schema_version
from tacit.fleet.database.transactions import read_only
from tacit.fleet.wire.public_log import Counted, Entry, Place, TryEntry
from tacit.fleet.wire.refusals import Refusal
from tacit.transparency import merkle


def append(connection: Connection, entry: Entry) -> None:
    """Put this entry at the end, once: nothing happens if the log has the same entry."""
    # Of several writers the second waits here, and then sees what the first has written.
    connection.execute(select(schema_version).with_for_update())
    leaf = entry.leaf()
    if connection.execute(select(log_entries.c.number).where(log_entries.c.leaf == leaf)).first() is not None:
        return
    last = connection.execute(select(func.max(log_entries.c.number))).scalar()
    number = 0 if last is None else last + 1
    tried = entry.round_id if isinstance(entry, TryEntry) else None
    connection.execute(insert(log_entries).values(number=number, leaf=leaf, entry=entry.text(), tried=tried))


def close_try(connection: Connection, round_id: str, ledger: str | None) -> None:
    """Write the entry of a try that was just committed or abandoned, and its receipts, before its places are deleted."""
    row = connection.execute(select(rounds).where(rounds.c.round_id == round_id)).one()
    query = select(assignments.c.receipt).where(assignments.c.round_id == round_id, assignments.c.state == REPORTED)
    reported = connection.execute(query).scalars().all()
    if not reported and row.state != COMMITTED:
        return
    leaves = sorted(leaf for leaf in reported if leaf is not None)  # the order says nothing about who came when
    if leaves:
        values = [{"round_id": round_id, "number": number, "leaf": leaf} for number, leaf in enumerate(leaves)]
        connection.execute(insert(receipts), values)
    entry = TryEntry(
        task=row.task,
        round=row.round,
        attempt=row.attempt,
        round_id=round_id,
        outcome=row.state,
        counted=len(reported),
        receipts=merkle.root([bytes.fromhex(leaf) for leaf in leaves]).hex(),
        ledger=ledger,
    )
    append(connection, entry)


class PublicLog:
    """The log as this process knows it; what it has read is kept in memory, because entries never change."""

    def __init__(self, engine: Engine) -> None:
        self._engine, self._lock = engine, threading.Lock()
        self._leaves: list[bytes] = []
        self._tree = merkle.Frontier()
        self._proofs = lru_cache(4096)(self._consistency)

    def head(self) -> tuple[int, bytes]:
        """How many entries there are now, and their root."""
        with self._lock:
            self._read_on()
            return self._tree.size, self._tree.root()

    def consistency(self, old: int, size: int) -> tuple[str, ...]:
        """The proof that the first `size` entries begin with the first `old`; Refusal if there are not so many."""
        if not 0 <= old <= size <= self._known(size):
            raise Refusal("The log has no such heads.", status=404)
        return self._proofs(old, size)

    def place(self, leaf: str, size: int) -> Place:
        """Where this entry is among the first `size`; Refusal (404) if it is not among them."""
        with read_only(self._engine) as connection:
            query = select(log_entries.c.number).where(log_entries.c.leaf == leaf)
            number = connection.execute(query).scalar_one_or_none()
        if number is None or not number < size <= self._known(size):
            raise Refusal("The log has no such entry.", status=404)
        return Place(index=number, hashes=_hexed(merkle.inclusion_proof(self._leaves[:size], number)))

    def counted(self, round_id: str, leaf: str, size: int) -> Counted:
        """That a try counted this receipt, and that the try is in the log; Refusal (404) if not, or not yet."""
        with read_only(self._engine) as connection:
            query = select(receipts.c.leaf).where(receipts.c.round_id == round_id).order_by(receipts.c.number)
            leaves = [bytes.fromhex(each) for each in connection.execute(query).scalars()]
            query = select(log_entries.c.leaf, log_entries.c.entry).where(log_entries.c.tried == round_id)
            tried = connection.execute(query).one_or_none()
        if tried is None or bytes.fromhex(leaf) not in leaves:
            raise Refusal("The log has no such receipt.", status=404)
        number = leaves.index(bytes.fromhex(leaf))
        return Counted(
            entry=tried.entry,
            place=self.place(tried.leaf, size),
            receipt=Place(index=number, hashes=_hexed(merkle.inclusion_proof(leaves, number))),
        )

    def _consistency(self, old: int, size: int) -> tuple[str, ...]:
        return _hexed(merkle.consistency_proof(self._leaves[:size], old))

    def _known(self, size: int) -> int:
        """How many entries are known, after reading on if they are fewer than `size`."""
        with self._lock:
            if self._tree.size < size:
                self._read_on()
            return self._tree.size

    def _read_on(self) -> None:
        query = select(log_entries.c.leaf).where(log_entries.c.number >= self._tree.size).order_by(log_entries.c.number)
        with read_only(self._engine) as connection:
            found = [bytes.fromhex(each) for each in connection.execute(query).scalars()]
        for leaf in found:
            self._tree.add(leaf)
        self._leaves = [*self._leaves, *found]


def _hexed(hashes: list[bytes]) -> tuple[str, ...]:
    return tuple(each.hex() for each in hashes)
