"""The context that all rounds of a run share: the database, the lease, the task, the peers."""

from __future__ import annotations

import math
import os
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from sqlalchemy import Engine

from tacit.fleet.database.heartbeat import Heartbeat
from tacit.fleet.database.leases import Lease
from tacit.fleet.database.round_table import RoundRow
from tacit.fleet.rounds.peers import Peers
from tacit.fleet.wire.task import DeviceTask
from tacit.learning.secure_sums import SecureSums
from tacit.privacy.record.records import Adjusted, Record
from tacit.recipe.sections import FleetSection
from tacit.runs.journal import StopRequested

# Of a stage's time, and of the time for selection: more would hardly help, and a failed try takes all of it.
MOST_PATIENCE = 8


class Log(Protocol):
    """Logs an event: a name and numbers, never anything about a device (`tacit.fleet.logs.log`)."""

    def __call__(self, event: str, **fields: Any) -> None: ...


@dataclass
class RunLink:
    """What the rounds know of the run's ledger: how to append a record, and the goal and deadline that it has for the rounds.

    `head` gives the digest of its last record.

    `unfinished` is the settled round of the last intent, if its sum is still there and the run goes on with it. `lost` says why
    the last round was lost, if it was: its sum is then given up.

    `patience`: how much longer than the recipe says devices have for selection and for a stage of secure aggregation.
    """

    append: Callable[[Record], object] | None = None
    head: Callable[[], str | None] = lambda: None
    adjusted: tuple[int, float] | None = None
    unfinished: RoundRow | None = None
    lost: str | None = None
    patience: int = 1

    def was_too_fast(self) -> None:
        """A try of secure aggregation failed because too few devices answered in time: the next one waits twice as long."""
        self.patience = min(2 * self.patience, MOST_PATIENCE)

    def was_slow_enough(self) -> None:
        """A round of secure aggregation was settled: the next one may be faster again."""
        self.patience = max(1, self.patience // 2)


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
    run: RunLink = field(default_factory=RunLink)

    def adjusted(self, round: int, goal: int, deadline_s: float) -> None:
        """Write into the ledger that rounds have another goal or deadline from here on, if they have."""
        before = self.run.adjusted or (self.task.report_goal, self.section.deadline_s)
        if (goal, deadline_s) == before or self.run.append is None:
            return
        self.run.append(Adjusted(round, goal, deadline_s))
        self.run.adjusted = (goal, deadline_s)
        self.log("goal or deadline adjusted by an operator", round=round, goal=goal, deadline_s=deadline_s)

    def pause(self, seconds: float) -> None:
        """Wait; StopRequested if the process is to stop, LeaseLost if another process may coordinate."""
        if self.stopping.wait(seconds):
            raise StopRequested
        self.heartbeat.require()


def places_of(goal: int, section: FleetSection) -> int:
    """How many devices are selected for a round at first: more than the report goal, because some will not report."""
    return math.ceil(goal * section.over_selection)


def replace_s(section: FleetSection) -> float:
    """How long a selected device may be silent before another one is selected, too."""
    return section.deadline_s / 4 if section.replace_s is None else section.replace_s


def enough_room_in(*folders: Path) -> Callable[[int], bool]:
    """A function that tells whether the disk has room for a checkpoint of a model of so many bytes, with a margin.

    It is called before a round is opened: a round whose checkpoint cannot be saved would cost privacy for nothing.
    """

    def enough(size: int) -> bool:
        largest = max((path.stat().st_size for folder in folders for path in folder.iterdir()), default=0)
        status = os.statvfs(folders[0])
        return status.f_bavail * status.f_frsize > 4 * max(size, largest) + (1 << 24)

    return enough
