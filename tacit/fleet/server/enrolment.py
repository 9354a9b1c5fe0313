"""Enrolment on the server: tokens, devices and their keys.

The administrator makes tokens. A token allows a number of enrolments until it expires, and only its digest is stored. A device
presents a token and an Ed25519 key of its own, and gets a number. The number is a pseudonym: the server knows nothing else
about the device. A device that has left and comes back with the same key gets its old number, with all that it took part in.
The guarantee assumes one enrolment a person; giving each person one token is how the owner ensures it.
"""

from __future__ import annotations

import secrets

from sqlalchemy import Engine, func, insert, select, update
from sqlalchemy.exc import IntegrityError

from tacit.errors import FleetError
from tacit.fleet.database.leaving import returned
from tacit.fleet.database.schema import devices, tokens
from tacit.fleet.database.transactions import read_only
from tacit.fleet.wire import signing
from tacit.fleet.wire.blobs import sha256_of
from tacit.fleet.wire.messages import EnrolRequest
from tacit.fleet.wire.refusals import Refusal
from tacit.fleet.wire.server_key import ServerKey

_TOKEN_BYTES = 24


def make_token(engine: Engine, *, uses: int, expires_at: float) -> str:
    """A new enrolment token. It is returned once; only its digest is stored."""
    token = secrets.token_urlsafe(_TOKEN_BYTES)
    with engine.begin() as connection:
        connection.execute(
            insert(tokens).values(digest=sha256_of(token.encode()), uses_left=uses, expires_at=expires_at)
        )
    return token


def enrol(engine: Engine, request: EnrolRequest, *, now: float, key: ServerKey | None = None) -> int:
    """The number of a new device, or of one that has left and comes back: the server's `key` recognises it.

    A device that missed the answer can ask again: it gets the same number, and no use is counted.
    """
    identity, proof = bytes.fromhex(request.identity), bytes.fromhex(request.proof)
    digest = sha256_of(request.token.encode())
    if not signing.is_enrolment(identity, request.token, proof):
        raise _invalid_token()
    with read_only(engine) as connection:  # so that a request with an invented token takes no write lock
        if connection.execute(select(tokens.c.digest).where(tokens.c.digest == digest)).first() is None:
            raise _invalid_token()
    try:
        with engine.begin() as connection:
            # Lock the token's row first, so that two enrolments with one token wait for each other.
            token = connection.execute(select(tokens).where(tokens.c.digest == digest).with_for_update()).one()
            known = connection.execute(select(devices).where(devices.c.identity == identity)).one_or_none()
            if known is not None:
                if known.revoked:
                    raise _invalid_token()
                return int(known.device)
            if token.uses_left <= 0 or token.expires_at <= now:
                raise _invalid_token()
            connection.execute(update(tokens).where(tokens.c.digest == digest).values(uses_left=tokens.c.uses_left - 1))
            if key is not None and (back := returned(connection, identity, key)) is not None:
                return back
            return int(
                connection.execute(insert(devices).values(identity=identity).returning(devices.c.device)).scalar_one()
            )
    except IntegrityError:
        raise Refusal("Another enrolment with this key is under way.", status=409, again=True) from None


def revoke(engine: Engine, device: int) -> None:
    """Refuse every further request of this device. Its past participation stays counted."""
    with engine.begin() as connection:
        if connection.execute(update(devices).where(devices.c.device == device).values(revoked=True)).rowcount == 0:
            raise Refusal("No such device.", status=404)


def enrolled(engine: Engine) -> int:
    """The number of devices that are enrolled, not revoked and have not left."""
    with read_only(engine) as connection:
        here = (devices.c.revoked.is_(False), devices.c.left_at.is_(None))
        query = select(func.count()).select_from(devices).where(*here)
        return connection.execute(query).scalar_one()


def _invalid_token() -> FleetError:
    """The same answer whatever is wrong with a token, so that nobody learns which tokens exist."""
    return Refusal("The enrolment token or its proof is not valid.", status=401)
