"""The beat of a process: it says that it is there, keeps its lease, and forgets rounds that are over.

A lease that could not be renewed in time counts as lost, whatever the database will say of it later: somebody else may have it.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from contextlib import suppress

from sqlalchemy import Engine
from sqlalchemy.exc import SQLAlchemyError

from tacit.fleet.server import clock, leases
from tacit.fleet.server.leases import GONE_AFTER_S, LEAVING, RENEW_S, Lease, LeaseLost
from tacit.fleet.server.observability import log_failure


class Heartbeat:
    """Beats in a thread of its own from `start` to `stop`. `beat` is what else is to be done each time."""

    def __init__(
        self, engine: Engine, process: str, *, role: str, address: str, beat: Callable[[], None] | None = None
    ) -> None:
        self._engine, self._process, self._role, self._address, self._beat = engine, process, role, address, beat
        self._stopping = threading.Event()
        self._lease: Lease | None = None
        self._kept_at = 0.0
        self._lock = threading.Lock()
        self._thread = threading.Thread(target=self._run, name="tacit heartbeat", daemon=True)

    def start(self) -> None:
        """Appear, then go on in the background."""
        self._appear()
        self._thread.start()

    def leave(self) -> None:
        """Say that this process takes on nothing new; those who have begun something with it still find it."""
        self._role = LEAVING
        with suppress(SQLAlchemyError):  # the next beat says it
            self._appear()

    def stop(self) -> None:
        """Be gone at once, as others see it."""
        self._stopping.set()
        self._thread.join()
        with suppress(SQLAlchemyError):  # it will be missed soon enough
            leases.disappear(self._engine, self._process)

    def acquire(self, name: str) -> Lease | None:
        """Try to coordinate `name`; the lease is kept from then on."""
        began = time.monotonic()
        lease = leases.acquire(self._engine, name, self._process, now=clock.now(self._engine))
        with self._lock:
            self._lease, self._kept_at = lease, began
        return lease

    def release(self) -> None:
        """Let another process coordinate."""
        with self._lock:
            lease, self._lease = self._lease, None
        if lease is None:
            return
        with suppress(SQLAlchemyError):  # it runs out by itself
            leases.release(self._engine, lease)

    def require(self) -> None:
        """LeaseLost unless this process coordinates still."""
        with self._lock:
            # Less than others wait, so that this one stops before they begin.
            if self._lease is None or time.monotonic() - self._kept_at > GONE_AFTER_S - RENEW_S:
                raise LeaseLost("Expected to coordinate, but the lease could not be kept.")

    def _run(self) -> None:
        while not self._stopping.wait(RENEW_S):
            try:
                self._appear()
                self._keep_lease()
                if self._beat is not None:
                    self._beat()
            except SQLAlchemyError:
                continue  # a database that is away comes back, or the lease runs out
            except Exception:
                log_failure(
                    "heartbeat"
                )  # a process that stops beating for a mistake would be missed, and nobody knew why

    def _appear(self) -> None:
        leases.appear(self._engine, self._process, role=self._role, address=self._address, now=clock.now(self._engine))

    def _keep_lease(self) -> None:
        with self._lock:
            lease = self._lease
        if lease is None:
            return
        began = time.monotonic()
        try:
            leases.renew(self._engine, lease, now=clock.now(self._engine))
        except LeaseLost:
            with self._lock:
                self._lease = None if self._lease == lease else self._lease
            return
        with self._lock:
            self._kept_at = began
