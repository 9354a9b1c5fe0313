"""A background thread that renews a process's entry and its lease, and runs the process's regular clean-up.

A lease that could not be renewed in time counts as lost, whatever the database says later: another process may hold it.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from contextlib import suppress

from sqlalchemy import Engine
from sqlalchemy.exc import SQLAlchemyError

from tacit.fleet.database import clock, leases
from tacit.fleet.database.leases import GONE_AFTER_S, LEAVING, RENEW_S, Lease, LeaseLost
from tacit.fleet.logs import log_failure


class Heartbeat:
    """Runs in a thread of its own from `start` to `stop`. `on_beat` is called at each beat."""

    def __init__(
        self, engine: Engine, process: str, *, role: str, address: str, on_beat: Callable[[], None] | None = None
    ) -> None:
        self._engine, self._process, self._role, self._address, self._on_beat = engine, process, role, address, on_beat
        self._stopping = threading.Event()
        self._lease: Lease | None = None
        self._renewed_at = 0.0
        self._lock = threading.Lock()
        self._thread = threading.Thread(target=self._run, name="tacit heartbeat", daemon=True)

    def start(self) -> None:
        """Enter the process into the table, then renew the entry in the background.

        If the database is away just now, the next beat enters it; until then nobody sends anything to this process.
        """
        with suppress(SQLAlchemyError):
            self._appear()
        self._thread.start()

    def leave(self) -> None:
        """Take no new rounds from now on. Devices in this process's rounds can still reach it."""
        self._role = LEAVING
        with suppress(SQLAlchemyError):  # the next beat writes it
            self._appear()

    def stop(self) -> None:
        """End the thread and remove the process's entry, so that others see at once that it is gone."""
        self._stopping.set()
        self._thread.join()
        with suppress(SQLAlchemyError):  # the entry expires by itself
            leases.disappear(self._engine, self._process)

    def acquire(self, name: str) -> Lease | None:
        """Try to become the coordinator of `name`; if it succeeds, the lease is renewed from then on."""
        began = time.monotonic()
        lease = leases.acquire(self._engine, name, self._process, now=clock.now(self._engine))
        with self._lock:
            self._lease, self._renewed_at = lease, began
        return lease

    def release(self) -> None:
        """Let another process coordinate."""
        with self._lock:
            lease, self._lease = self._lease, None
        if lease is None:
            return
        with suppress(SQLAlchemyError):  # the lease expires by itself
            leases.release(self._engine, lease)

    def require(self) -> None:
        """LeaseLost unless this process still holds its lease."""
        with self._lock:
            # Shorter than others wait, so that this process stops before another one begins.
            if self._lease is None or time.monotonic() - self._renewed_at > GONE_AFTER_S - RENEW_S:
                raise LeaseLost("The coordinator's lease could not be renewed in time.")

    def _run(self) -> None:
        while not self._stopping.wait(RENEW_S):
            try:
                self._appear()
                self._keep_lease()
                if self._on_beat is not None:
                    self._on_beat()
            except SQLAlchemyError:
                continue  # the database comes back, or the lease expires
            except Exception:
                log_failure("heartbeat")  # logged, because others would see only that the process is gone

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
            self._renewed_at = began
