"""Results of `tacit fleet` and `tacit device`."""

from __future__ import annotations

from tacit.cli.results.base import Result, key


class TokenResult(Result):
    """An enrolment token."""

    token: str = key("the token; it cannot be shown again")
    uses: int = key("how many devices may enrol with it")
    hours: float = key("how long it is valid")


class RevokeResult(Result):
    """A device that was shut out."""

    device: int = key("the device's number")
    revoked: bool = key("true: every further request of it is refused")


class RoundUnderWay(Result):
    """A round that is open."""

    round: int = key("its number")
    goal: int = key("how many reports complete it")
    places: int = key("how many devices it may select")
    selected: int = key("how many it has selected")
    reported: int = key("how many have reported")
    seconds_left: float = key("until it is abandoned")


class TaskState(Result):
    """A task of the fleet."""

    name: str = key("its name")
    task: str = key("its id")
    active: bool = key("whether devices are selected for it")
    rounds: dict[str, int] = key("how many rounds, by state")
    under_way: RoundUnderWay | None = key("the open round; null if there is none")
    could_come: int | None = key("about how many devices may take part in it; null without an open round")
    last_abandoned: str | None = key("why the last abandoned round was; null if none was")


class StatusResult(Result):
    """A fleet."""

    devices: int = key("how many devices are enrolled")
    processes: dict[str, int] = key("how many processes were seen recently, by role")
    tasks: list[TaskState] = key("each task")


class EnrolResult(Result):
    """A device that was enrolled."""

    home: str = key("the device's folder")
    server: str = key("the server's address")
    device: int = key("the device's number at the server")


class DeviceEvent(Result):
    """Something that happened on the device."""

    event: str = key("one sentence, without any of the user's data")
