"""Route of a running fleet: its status as its administrator sees it, what happened lately, and alarms with what to do.

The board asks the server with the administrator's token, which stays on this machine, and passes counts on: never a device's
number. What happened lately is remembered from one question to the next, as long as a page asks.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from fastapi import APIRouter, HTTPException
from pydantic import BaseModel, Field

from tacit.web.settings import BoardSettings

if TYPE_CHECKING:
    from tacit.fleet.administrator import Access

# A server is asked at most this often, however many pages are open.
AGAIN_S = 2.0
SAMPLES = 1_800
# A round whose time ends within so many seconds, with reports still missing, is likely to be abandoned.
ENDS_SOON_S = 30
MANY_ABANDONED = 0.2


class Alarm(BaseModel):
    """Something that keeps the fleet from training, and what to do about it."""

    what: str
    do: str


class Sample(BaseModel):
    """The fleet at one moment. Counters are those of the process that answered, since it started."""

    at: float = Field(description="seconds since 1970")
    devices: int
    selected: int = Field(description="devices in rounds that are under way")
    reported: int
    committed: int
    abandoned: int
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
    rounds: dict[str, int]
    under_way: OpenRoundView | None
    could_come: int | None
    last_abandoned: str | None


class FleetView(BaseModel):
    """A fleet now and lately."""

    server: str
    devices: int
    processes: dict[str, int]
    tasks: list[FleetTask]
    alarms: list[Alarm]
    samples: list[Sample]


@dataclass
class _Watch:
    """The server's last answer, and what was seen before it."""

    access: Access
    lock: threading.Lock = field(default_factory=threading.Lock)
    samples: deque[Sample] = field(default_factory=lambda: deque(maxlen=SAMPLES))
    seen: FleetView | None = None
    asked: float = 0.0

    def look(self) -> FleetView:
        from tacit.fleet.administrator import ask, metrics

        with self.lock:
            if self.seen is None or time.monotonic() - self.asked > AGAIN_S:
                status = ask("GET", "/v1/admin/status", self.access)
                self.samples.append(_sample(status, metrics(self.access)))
                self.seen = FleetView(
                    server=self.access.server,
                    devices=status["devices"],
                    processes=status["processes"],
                    tasks=[FleetTask.model_validate(task) for task in status["tasks"]],
                    alarms=alarms(status),
                    samples=list(self.samples),
                )
                self.asked = time.monotonic()
            return self.seen


def fleet_routes(settings: BoardSettings) -> APIRouter:
    """The route of the fleet; it says how to see one where the board was started without."""
    router = APIRouter(prefix="/api/fleet")
    watch = None if settings.fleet is None else _Watch(settings.fleet)

    @router.get("")
    def fleet() -> FleetView:
        """The fleet that this board looks at."""
        if watch is None:
            raise HTTPException(
                404, "This board looks at no fleet: tacit board --fleet ADDRESS --admin-token FILE does."
            )
        return watch.look()

    return router


def alarms(status: dict[str, Any]) -> list[Alarm]:
    """What keeps this fleet from training, by its status."""
    found = []
    running = status["processes"]
    if not any(running.get(role) for role in ("all", "coordinator")) and any(
        task["active"] for task in status["tasks"]
    ):
        found.append(
            Alarm(what="No coordinator is running.", do="Start tacit serve again with the same folder: it goes on.")
        )
    if status["devices"] == 0:
        found.append(
            Alarm(what="No device has enrolled.", do="Make a token with tacit fleet token; devices enrol with it.")
        )
    for task in status["tasks"]:
        name, rounds, opened = task["name"], task["rounds"], task["under_way"]
        if opened is not None:
            could = task["could_come"]
            missing = opened["goal"] - opened["reported"]
            if could is not None and could + opened["selected"] < opened["goal"]:
                found.append(
                    Alarm(
                        what=f"{name}: round {opened['round']} waits for {opened['goal']} devices, and about {could} may come.",
                        do="Enrol more devices, or wait until MinS lets those that took part come again.",
                    )
                )
            elif missing > 0 and opened["seconds_left"] < ENDS_SOON_S and opened["selected"] > 0:
                found.append(
                    Alarm(
                        what=f"{name}: round {opened['round']} ends soon, and {missing} reports are missing.",
                        do="If rounds are often abandoned, give them more time or over-select (fleet section of the recipe).",
                    )
                )
        ended = rounds.get("committed", 0) + rounds.get("abandoned", 0)
        if ended >= 5 and rounds.get("abandoned", 0) > MANY_ABANDONED * ended:
            because = f" The last because: {task['last_abandoned']}" if task["last_abandoned"] else ""
            found.append(
                Alarm(
                    what=f"{name}: {rounds['abandoned']} of {ended} rounds were abandoned.{because}",
                    do="An abandoned round releases nothing. Give rounds more time, over-select, or ask for fewer reports.",
                )
            )
    return found


def _sample(status: dict[str, Any], text: str) -> Sample:
    from prometheus_client.parser import text_string_to_metric_families

    counted = {"check_ins": 0.0, "reports": 0.0, "refused": 0.0}
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            if sample.name != "tacit_requests_total":
                continue
            route, worked = sample.labels["route"], sample.labels["status"].startswith("2")
            if not worked and route.startswith("/v1/") and not route.startswith("/v1/admin"):
                counted["refused"] += sample.value
            elif worked and route.endswith("/check-in"):
                counted["check_ins"] += sample.value
            elif worked and route.endswith("/report"):
                counted["reports"] += sample.value
    under_way = [task["under_way"] for task in status["tasks"] if task["under_way"] is not None]
    return Sample(
        at=time.time(),
        devices=status["devices"],
        selected=sum(each["selected"] for each in under_way),
        reported=sum(each["reported"] for each in under_way),
        committed=sum(task["rounds"].get("committed", 0) for task in status["tasks"]),
        abandoned=sum(task["rounds"].get("abandoned", 0) for task in status["tasks"]),
        **counted,
    )
