"""The context that all rounds of a run share: the database, the lease, the task, the peers."""

from __future__ import annotations

import math
import os
import threading
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from sqlalchemy import Engine

from tacit.fleet.database.heartbeat import Heartbeat
from tacit.fleet.database.leases import Lease
from tacit.fleet.rounds.peers import Peers
from tacit.fleet.wire.task import DeviceTask
from tacit.learning.secure_sums import SecureSums
from tacit.recipe.sections import FleetSection
from tacit.runs.journal import StopRequested


class Log(Protocol):
    """Logs an event: a name and numbers, never anything about a device (`tacit.fleet.logs.log`)."""

    def __call__(self, event: str, **fields: Any) -> None: ...


@dataclass(frozen=True)
class FleetContext:
    """The context that all rounds of a run share."""

    engine: Engine
    lease: Lease
    heartbeat: Heartbeat
    peers: Peers
    name: str  # of the task: the SHA-256 of its description
    task: DeviceTask
    section: FleetSection
    secure: SecureSums | None
    enough_room: Callable[[int], bool]
    content: Callable[[Any], bytes]  # the checkpoint that devices download in a round that begins with this model
    stopping: threading.Event
    log: Log

    def pause(self, seconds: float) -> None:
        """Wait; StopRequested if the process is to stop, LeaseLost if another process may coordinate."""
        if self.stopping.wait(seconds):
            raise StopRequested
        self.heartbeat.require()


def places_of(context: FleetContext) -> int:
    """How many devices may be selected for a round: more than the report goal, because some will not report."""
    return math.ceil(context.task.report_goal * context.section.over_selection)


def enough_room_in(*folders: Path) -> Callable[[int], bool]:
    """A function that tells whether the disk has room for a checkpoint of a model of so many bytes, with a margin.

    It is called before a round is opened: a round whose checkpoint cannot be saved would cost privacy for nothing.
    """

    def enough(size: int) -> bool:
        largest = max((path.stat().st_size for folder in folders for path in folder.iterdir()), default=0)
        status = os.statvfs(folders[0])
        return status.f_bavail * status.f_frsize > 4 * max(size, largest) + (1 << 24)

    return enough
