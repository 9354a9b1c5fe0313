"""Tokens, devices and their keys: who may speak to the server, and whether a request is really theirs.

A person who may enrol devices makes tokens; a token is worth a number of enrolments until it expires, and only its digest is
kept. A device brings a token and an Ed25519 key of its own, and has a number from then on. The number is a pseudonym: nothing
else about a device is known here. One enrolment a person is an assumption of the guarantee, and tokens are how it is met.
"""

from __future__ import annotations

import hashlib
import secrets
from functools import lru_cache

from sqlalchemy import Engine, bindparam, func, insert, select, update
from sqlalchemy.exc import IntegrityError

from tacit.errors import FleetError
from tacit.fleet.server.database import lightly, reading
from tacit.fleet.server.schema import devices, tokens
from tacit.fleet.wire import signing
from tacit.fleet.wire.messages import EnrolRequest
from tacit.fleet.wire.refusals import Refusal, unauthorised

_TOKEN_BYTES = 24
# Built once: to put a query together takes longer than to run it.
_DEVICE = select(devices).where(devices.c.device == bindparam("which"))
_TAKE = (
    update(devices)
    .where(
        devices.c.device == bindparam("which"),
        devices.c.identity == bindparam("key"),
        devices.c.counter < bindparam("new"),
        devices.c.revoked.is_(False),
    )
    .values(counter=bindparam("new"))
)


def make_token(engine: Engine, *, uses: int, expires_at: float) -> str:
    """A new enrolment token; it is shown once, here."""
    token = secrets.token_urlsafe(_TOKEN_BYTES)
    with engine.begin() as connection:
        connection.execute(insert(tokens).values(digest=_digest(token), uses_left=uses, expires_at=expires_at))
    return token


def enrol(engine: Engine, request: EnrolRequest, *, now: float) -> int:
    """The number of a new device. A device that missed the answer asks again and gets the same number, at no cost."""
    identity, proof = bytes.fromhex(request.identity), bytes.fromhex(request.proof)
    digest = _digest(request.token)
    if not signing.is_enrolment(identity, request.token, proof):
        raise _no_token()
    with reading(engine) as connection:  # a stranger with an invented token does not keep those waiting who write
        if connection.execute(select(tokens.c.digest).where(tokens.c.digest == digest)).first() is None:
            raise _no_token()
    try:
        with engine.begin() as connection:
            # First of all the token's row, so that two enrolments with one token wait for each other.
            token = connection.execute(select(tokens).where(tokens.c.digest == digest).with_for_update()).one()
            there = connection.execute(select(devices).where(devices.c.identity == identity)).one_or_none()
            if there is not None:
                if there.revoked:
                    raise _no_token()
                return int(there.device)
            if token.uses_left <= 0 or token.expires_at <= now:
                raise _no_token()
            connection.execute(update(tokens).where(tokens.c.digest == digest).values(uses_left=tokens.c.uses_left - 1))
            return int(
                connection.execute(insert(devices).values(identity=identity).returning(devices.c.device)).scalar_one()
            )
    except IntegrityError:
        raise Refusal("Expected one enrolment of a key at a time, got two.", status=409, again=True) from None


class Door:
    """Tells whether a request is a device's own, and new.

    Keys are remembered, because a device has one for ever; but a database that was put back may give its number to another.
    """

    def __init__(self, engine: Engine, most_keys: int = 100_000) -> None:
        self._engine = engine
        self._identity_of = lru_cache(most_keys)(self._look_up)

    def authenticate(self, credentials: signing.Credentials, method: str, path: str) -> None:
        """Return if an enrolled device signed this, and use its counter up; a Refusal otherwise, and nothing has changed.

        `signing.is_body` is still to be asked, once the body is there.
        """
        device = credentials.device
        identity = self._identity_of(device)
        if not signing.is_signed(identity, credentials, method, path):
            if (now := self._look_up(device)) == identity or not signing.is_signed(now, credentials, method, path):
                raise unauthorised()
            self._identity_of.cache_clear()
            identity = now
        with lightly(self._engine) as connection:
            taking = {"which": device, "key": identity, "new": credentials.counter}
            if connection.execute(_TAKE, taking).rowcount == 1:
                return
        with reading(self._engine) as connection:
            there = connection.execute(_DEVICE, {"which": device}).one_or_none()
        if there is None or there.revoked or bytes(there.identity) != identity:
            raise unauthorised()
        raise Refusal(
            "Expected a higher counter than the last one, got one that was used.",
            status=409,
            headers={signing.COUNTER: str(there.counter)},
        )

    def _look_up(self, device: int) -> bytes:
        with reading(self._engine) as connection:
            found = connection.execute(_DEVICE, {"which": device}).one_or_none()
        if found is None:
            raise unauthorised()  # and not remembered: the number may be given out yet
        return bytes(found.identity)


def revoke(engine: Engine, device: int) -> None:
    """Never listen to this device again; what it has contributed stays counted."""
    with engine.begin() as connection:
        if connection.execute(update(devices).where(devices.c.device == device).values(revoked=True)).rowcount == 0:
            raise Refusal("Expected the number of an enrolled device, got another.", status=404)


def enrolled(engine: Engine) -> int:
    """How many devices may speak."""
    with reading(engine) as connection:
        query = select(func.count()).select_from(devices).where(devices.c.revoked.is_(False))
        return connection.execute(query).scalar_one()


def _digest(token: str) -> str:
    return hashlib.sha256(token.encode()).hexdigest()


def _no_token() -> FleetError:
    """One sentence, whatever is wrong with a token, so that nobody learns which ones there are."""
    return Refusal("Expected a valid enrolment token and a proof made with it, got another.", status=401)
