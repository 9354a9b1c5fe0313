"""What keeps a fleet from training, and what to do about it, from its status and its figures."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel

from tacit.privacy.statement.wording import counted
from tacit.web.fleet_figures import FleetFigures

# A round whose time ends within so many seconds, with reports still missing, is likely to be abandoned.
ENDS_SOON_S = 30
MANY_ABANDONED = 0.2
MANY_QUARANTINED = 0.1


class Alarm(BaseModel):
    """Something that keeps the fleet from training, and what to do about it."""

    what: str
    do: str


def alarms(status: dict[str, Any], figures: FleetFigures) -> list[Alarm]:
    """What keeps this fleet from training."""
    return [
        *_of_the_fleet(status, figures),
        *(alarm for task in status["tasks"] for alarm in _of_a_task(task, figures)),
    ]


def _of_the_fleet(status: dict[str, Any], figures: FleetFigures) -> list[Alarm]:
    found = []
    running = status["processes"]
    active = any(task["active"] for task in status["tasks"])
    if active and not any(running.get(role) for role in ("all", "coordinator")):
        found.append(
            Alarm(what="No coordinator is running.", do="Start tacit serve again with the same folder: it goes on.")
        )
    if status["devices"] == 0:
        found.append(
            Alarm(what="No device has enrolled.", do="Make a token with tacit fleet token; devices enrol with it.")
        )
    held = figures.devices_by.get("quarantined", 0)
    if held > MANY_QUARANTINED * max(1, status["devices"]):
        found.append(
            Alarm(
                what=f"{held} of {status['devices']} devices are in quarantine and get no places.",
                do="See why with tacit fleet devices; tacit fleet quarantine NUMBER --release lets one take part again.",
            )
        )
    return found


def _of_a_task(task: dict[str, Any], figures: FleetFigures) -> list[Alarm]:
    found = []
    name, rounds, opened = task["name"], task["rounds"], task["under_way"]
    if task["paused"] and task["active"]:
        found.append(
            Alarm(what=f"{name}: an operator has paused the rounds.", do="Go on with tacit fleet round resume.")
        )
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
                    what=f"{name}: round {opened['round']} ends soon, and {_reports(missing)} missing.",
                    do="If rounds are often abandoned, give them more time or over-select (fleet section of the recipe).",
                )
            )
    if lost := figures.lost.get(name, 0):
        found.append(
            Alarm(
                what=f"{name}: {_lost(lost)}",
                do="Look in the server's log for what stopped them: a process that died, or a database that was gone.",
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


def _reports(count: int) -> str:
    return f"{counted(count, 'report')} {'is' if count == 1 else 'are'}"


def _lost(rounds: int) -> str:
    if rounds == 1:
        return "1 round was lost after its intent. It costs users the same and teaches nothing."
    return f"{rounds} rounds were lost after their intent. They cost users the same and teach nothing."
