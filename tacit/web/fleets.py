"""Route of a running fleet: its status as its administrator sees it, what happened lately, and alarms with what to do.

The board asks the server with the administrator's token, which stays on this machine, and passes counts on: never a device's
number. It also looks now and then while no page is open, so that a page begins with what happened since the board was started.
"""

from __future__ import annotations

import math
import threading
import time
from collections import deque
from typing import TYPE_CHECKING, Any

from fastapi import APIRouter, HTTPException
from pydantic import BaseModel, Field

from tacit.errors import TacitError
from tacit.web.fleet_alarms import Alarm, alarms
from tacit.web.fleet_figures import FleetFigures, read_figures

if TYPE_CHECKING:
    from tacit.fleet.administrator import Access

# A server is asked at most this often, however many pages are open, and this often while none is.
AGAIN_S, UNWATCHED_S = 2.0, 15.0
# How many looks are remembered, and how many of them a page gets.
SAMPLES, SHOWN = 5_000, 600
# The stages of a round, in order.
SELECTION, REPORTS, SUM = "selection", "reports", "sum, noise and server step"


class Sample(BaseModel):
    """The fleet at one moment. Check-ins, reports and refusals are those of the process that answered, since it started."""

    at: float = Field(description="seconds since 1970")
    devices: int
    selected: int = Field(description="devices in rounds that are under way")
    reported: int
    committed: int
    abandoned: int
    dropouts: int = Field(description="places in rounds from which nothing came")
    check_ins: float
    reports: float
    refused: float


class OpenRoundView(BaseModel):
    round: int
    goal: int
    places: int
    selected: int
    reported: int
    seconds_left: float


class FleetTask(BaseModel):
    name: str
    active: bool
    paused: bool
    rounds: dict[str, int]
    stage: str | None = Field(description="what the round under way is at; null between rounds")
    under_way: OpenRoundView | None
    could_come: int | None
    last_abandoned: str | None
    epsilon_spent: float | None = Field(
        description="epsilon of what the ledger has so far; null if infinite or not known"
    )
    lost: int = Field(description="rounds lost after their intent, which are accounted")


class FleetView(BaseModel):
    """A fleet now and lately."""

    server: str
    devices: int
    devices_by: dict[str, int] = Field(description="devices by state; those in a round now are counted as working")
    dropouts: dict[str, int] = Field(description="places in rounds from which nothing came, by stage")
    seconds_a_round: float | None = Field(description="of a committed round, on average")
    processes: dict[str, int]
    tasks: list[FleetTask]
    alarms: list[Alarm]
    samples: list[Sample]


class FleetWatch:
    """The server's last answer, and what was seen before it. Between `start` and `stop` it also looks by itself."""

    def __init__(self, access: Access) -> None:
        self._access = access
        self._lock = threading.Lock()
        self._samples: deque[Sample] = deque(maxlen=SAMPLES)
        self._seen: FleetView | None = None
        self._asked = 0.0
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._look_now_and_then, name="tacit board fleet", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._stop.set()

    def look(self) -> FleetView:
        """The fleet now; FleetError if the server does not answer."""
        from tacit.fleet.administrator import ask, metrics

        with self._lock:
            if self._seen is None or time.monotonic() - self._asked > AGAIN_S:
                status = ask("GET", "/v1/admin/status", self._access)
                figures = read_figures(metrics(self._access))
                self._samples.append(_sample(status, figures))
                self._seen = _view(self._access.server, status, figures, _thinned(list(self._samples)))
                self._asked = time.monotonic()
            return self._seen

    def _look_now_and_then(self) -> None:
        while not self._stop.wait(UNWATCHED_S):
            try:
                if time.monotonic() - self._asked >= UNWATCHED_S:
                    self.look()
            except TacitError:  # a page says so when it asks
                continue


def fleet_routes(watch: FleetWatch | None) -> APIRouter:
    """The route of the fleet; it says how to see one where the board was started without."""
    router = APIRouter(prefix="/api/fleet")

    @router.get("")
    def fleet() -> FleetView:
        """The fleet that this board looks at."""
        if watch is None:
            raise HTTPException(
                404, "This board looks at no fleet: tacit board --fleet ADDRESS --admin-token FILE does."
            )
        return watch.look()

    return router


def stage_of(task: dict[str, Any]) -> str | None:
    """What the task's round under way is at; None between rounds."""
    opened = task["under_way"]
    if opened is None:
        return SUM if task["rounds"].get("settled", 0) > 0 else None
    return SELECTION if opened["reported"] == 0 and opened["selected"] < opened["places"] else REPORTS


def _view(server: str, status: dict[str, Any], figures: FleetFigures, samples: list[Sample]) -> FleetView:
    working = sum(task["under_way"]["selected"] for task in status["tasks"] if task["under_way"] is not None)
    states = dict(figures.devices_by)
    if working > 0:
        states = {"working": working, **states, "ready": max(0, states.get("ready", 0) - working)}
    return FleetView(
        server=server,
        devices=status["devices"],
        devices_by=states,
        dropouts=figures.dropouts,
        seconds_a_round=figures.seconds_a_round,
        processes=status["processes"],
        tasks=[
            FleetTask.model_validate(
                task
                | {
                    "stage": stage_of(task),
                    "epsilon_spent": _finite(figures.epsilon.get(task["name"])),
                    "lost": figures.lost.get(task["name"], 0),
                }
            )
            for task in status["tasks"]
        ],
        alarms=alarms(status, figures),
        samples=samples,
    )


def _finite(value: float | None) -> float | None:
    return value if value is not None and math.isfinite(value) else None


def _thinned(samples: list[Sample]) -> list[Sample]:
    """At most SHOWN samples, evenly over the time, the last one among them."""
    every = max(1, math.ceil(len(samples) / SHOWN))
    return samples[(len(samples) - 1) % every :: every]


def _sample(status: dict[str, Any], figures: FleetFigures) -> Sample:
    under_way = [task["under_way"] for task in status["tasks"] if task["under_way"] is not None]
    return Sample(
        at=time.time(),
        devices=status["devices"],
        selected=sum(each["selected"] for each in under_way),
        reported=sum(each["reported"] for each in under_way),
        committed=sum(task["rounds"].get("committed", 0) for task in status["tasks"]),
        abandoned=sum(task["rounds"].get("abandoned", 0) for task in status["tasks"]),
        dropouts=sum(figures.dropouts.values()),
        check_ins=figures.check_ins,
        reports=figures.reports,
        refused=figures.refused,
    )
