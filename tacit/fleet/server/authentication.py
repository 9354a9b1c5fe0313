"""Authenticates devices' requests: the signature, the counter against replays, and revocation."""

from __future__ import annotations

import threading
from collections import OrderedDict
from contextlib import suppress
from functools import lru_cache

from sqlalchemy import Engine, bindparam, select, update

from tacit.fleet.database import clock
from tacit.fleet.database.hot_statements import light
from tacit.fleet.database.schema import devices
from tacit.fleet.database.transactions import read_only
from tacit.fleet.server.request_limits import (
    FAILURES_BURST,
    FAILURES_PER_S,
    LOOK_UPS_BURST,
    LOOK_UPS_PER_S,
    RateLimiter,
)
from tacit.fleet.wire import signing
from tacit.fleet.wire.refusals import Refusal, unauthorised

_LOOK_AGAIN_S = 2.0
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
    .values(counter=bindparam("new"), seen_at=bindparam("now"))
)


class DeviceAuthenticator:
    """Verifies signatures and counters of devices' requests.

    Keys are cached, because a device never changes its key. A database that was restored from a backup may give a number to
    another device, so a key that does not fit is looked up again, at most every `_LOOK_AGAIN_S` for a device.

    Requests with wrong signatures are cheap, so that a stranger cannot keep the others waiting: an address that has sent many
    is refused before anything is verified, unless the request claims a device that has asked from there before; and at most
    `LOOK_UPS_PER_S` devices are looked up in the database.
    """

    def __init__(self, engine: Engine, most_keys: int = 100_000) -> None:
        self._engine = engine
        self._identity_of = lru_cache(most_keys)(self._look_up)
        self._failures = RateLimiter(per_s=FAILURES_PER_S, burst=FAILURES_BURST)
        self._look_ups = RateLimiter(per_s=LOOK_UPS_PER_S, burst=LOOK_UPS_BURST)
        self._looked_again = RateLimiter(per_s=1 / _LOOK_AGAIN_S, burst=1)
        self._known: OrderedDict[tuple[str, int], None] = OrderedDict()
        self._most_known = most_keys
        self._lock = threading.Lock()

    def authenticate(self, credentials: signing.Credentials, method: str, path: str, address: str = "") -> None:
        """Return if the enrolled device signed this request, and mark its counter as used. Refusal otherwise; nothing changes.

        The body is not checked here: call `signing.is_body` when it has arrived.
        """
        device = credentials.device
        if (address, device) not in self._known:
            self._failures.require(address)
        try:
            identity = self._verified(credentials, method, path)
        except Refusal as refusal:
            if refusal.status == 401:
                with suppress(Refusal):
                    self._failures.take(address)
            raise
        with self._lock:
            self._known[address, device] = None
            self._known.move_to_end((address, device))
            if len(self._known) > self._most_known:
                self._known.popitem(last=False)
        with light(self._engine) as connection:
            taking = {"which": device, "key": identity, "new": credentials.counter, "now": clock.now(self._engine)}
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

    def _verified(self, credentials: signing.Credentials, method: str, path: str) -> bytes:
        """The key of the enrolled device that signed this request."""
        device = credentials.device
        identity = self._identity_of(device)
        if signing.is_signed(identity, credentials, method, path):
            return identity
        try:
            self._looked_again.take(device)
        except Refusal:
            raise unauthorised() from None
        if (now := self._look_up(device)) == identity or not signing.is_signed(now, credentials, method, path):
            raise unauthorised()
        self._identity_of.cache_clear()
        return now

    def _look_up(self, device: int) -> bytes:
        self._look_ups.take("all")
        with read_only(self._engine) as connection:
            found = connection.execute(_DEVICE, {"which": device}).one_or_none()
        if found is None:
            raise unauthorised()  # not cached: the number may be given to a device later
        return bytes(found.identity)
