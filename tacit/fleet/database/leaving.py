"""A device leaves: what is deleted, what must remain, and the confirmation that it gets.

The device's row keeps its number, because the rounds that it took part in are released, and the ledger's proof that nobody took
part too often or too soon counts by these numbers. Its public key is replaced by a keyed digest of it, so that a device
that comes back with the same key is the same device to every limit, and nobody else can tell whose number it was. What it
was last seen doing is deleted. It is never selected again.
"""

from __future__ import annotations

from typing import Any

from sqlalchemy import Connection, Engine, Row, func, select, update

from tacit.fleet.database import clock, public_log
from tacit.fleet.database.schema import REPORTED, assignments, devices, participations
from tacit.fleet.database.transactions import read_only
from tacit.fleet.wire.public_log import LEFT_LABEL, Leaving, SignedText, salted
from tacit.fleet.wire.refusals import unauthorised
from tacit.fleet.wire.server_key import ServerKey

_NUMBER = "the device's number, and a keyed digest of its public key in place of the key"
_ROUNDS = (
    "the rounds that it took part in ({}), by that number: their releases cannot be taken back, and limits count them"
)
_OPEN = "its contribution to a round that is not over: it is in that round's sum, and the round is then kept as well"
_RECEIPTS = "salted digests of its receipts in the public log, which name no device"


def leave(engine: Engine, device: int, identity: bytes, key: ServerKey) -> SignedText:
    """Let this device go, and confirm it. A device that missed the answer may ask again, and gets the same one."""
    pseudonym, query = key.pseudonym(identity), select(devices).where(devices.c.device == device)
    with read_only(engine) as connection:  # so that a stranger's request takes no write lock
        _require_own(connection.execute(query).one_or_none(), identity, pseudonym)
    with engine.begin() as connection:
        row = _require_own(connection.execute(query.with_for_update()).one_or_none(), identity, pseudonym)
        left_at = clock.now(engine) if row.left_at is None else row.left_at
        gone = {"identity": pseudonym, "left_at": left_at, "seen_at": None, "failures": 0, "rests_until": 0.0}
        connection.execute(update(devices).where(devices.c.device == device).values(**gone, last_word=None))
        leaving = _confirmation(connection, device, left_at, key)
        public_log.append(connection, leaving)
    return SignedText(text=leaving.text(), signature=key.sign(LEFT_LABEL, leaving.text()))


def returned(connection: Connection, identity: bytes, key: ServerKey) -> int | None:
    """The number of the device that left with this key, which is enrolled again; None if none did. A revoked one stays out."""
    which = (devices.c.identity == key.pseudonym(identity), devices.c.revoked.is_(False))
    known = connection.execute(select(devices.c.device).where(*which)).scalar_one_or_none()
    if known is not None:
        back = update(devices).where(devices.c.device == known).values(identity=identity, left_at=None)
        connection.execute(back)
    return known


def _require_own(row: Row[Any] | None, identity: bytes, pseudonym: bytes) -> Row[Any]:
    """The device's row; Refusal unless this is the key that it has, or had before it left."""
    if row is None or bytes(row.identity) not in (identity, pseudonym):
        raise unauthorised()
    return row


def _confirmation(connection: Connection, device: int, left_at: float, key: ServerKey) -> Leaving:
    count = select(func.count()).where(participations.c.device == device)
    rounds = connection.execute(count).scalar_one()
    salt = key.salt("leaving", str(device), repr(left_at))
    here = (assignments.c.device == device, assignments.c.state == REPORTED)
    is_open = connection.execute(select(assignments.c.device).where(*here)).first() is not None
    kept = (_NUMBER, *((_ROUNDS.format(rounds),) if rounds else ()), *((_OPEN,) if is_open else ()), _RECEIPTS)
    return Leaving(device=salted(salt, device), at=int(left_at), salt=salt, kept=kept)
