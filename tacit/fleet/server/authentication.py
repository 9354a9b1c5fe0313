"""Authenticates devices' requests: the signature, the counter against replays, and revocation."""

from __future__ import annotations

from functools import lru_cache

from sqlalchemy import Engine, bindparam, select, update

from tacit.fleet.database.schema import devices
from tacit.fleet.database.transactions import light_transaction, read_only
from tacit.fleet.wire import signing
from tacit.fleet.wire.refusals import Refusal, unauthorised

# Built once, because building a query takes longer than running it.
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


class DeviceAuthenticator:
    """Verifies signatures and counters of devices' requests.

    Keys are cached, because a device never changes its key. A database that was restored from a backup may give a number to
    another device, so a key that does not fit is looked up again.
    """

    def __init__(self, engine: Engine, most_keys: int = 100_000) -> None:
        self._engine = engine
        self._identity_of = lru_cache(most_keys)(self._look_up)

    def authenticate(self, credentials: signing.Credentials, method: str, path: str) -> None:
        """Return if the enrolled device signed this request, and mark its counter as used. Refusal otherwise; nothing changes.

        The body is not checked here: call `signing.is_body` when it has arrived.
        """
        device = credentials.device
        identity = self._identity_of(device)
        if not signing.is_signed(identity, credentials, method, path):
            if (now := self._look_up(device)) == identity or not signing.is_signed(now, credentials, method, path):
                raise unauthorised()
            self._identity_of.cache_clear()
            identity = now
        with light_transaction(self._engine) as connection:
            taking = {"which": device, "key": identity, "new": credentials.counter}
            if connection.execute(_TAKE, taking).rowcount == 1:
                return
        with read_only(self._engine) as connection:
            row = connection.execute(_DEVICE, {"which": device}).one_or_none()
        if row is None or row.revoked or bytes(row.identity) != identity:
            raise unauthorised()
        raise Refusal(
            "The request's counter was used already.",
            status=409,
            headers={signing.COUNTER: str(row.counter)},
        )

    def _look_up(self, device: int) -> bytes:
        with read_only(self._engine) as connection:
            found = connection.execute(_DEVICE, {"which": device}).one_or_none()
        if found is None:
            raise unauthorised()  # not cached: the number may be given to a device later
        return bytes(found.identity)
