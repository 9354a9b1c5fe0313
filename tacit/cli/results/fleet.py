"""Results of `tacit fleet` and `tacit device`."""

from __future__ import annotations

from tacit.cli.results.base import OpenResult, Result, key


class TokenResult(Result):
    """An enrolment token."""

    token: str = key("the token; it cannot be shown again")
    uses: int = key("how many devices may enrol with it")
    hours: float = key("how long it is valid")


class RevokeResult(Result):
    """A device that was shut out."""

    device: int = key("the device's number")
    revoked: bool = key("true: every further request of it is refused")


class QuarantineResult(Result):
    """A device that gets no places, or gets them again."""

    device: int = key("the device's number")
    quarantined: bool = key("whether it gets no places")


class FleetDevice(Result):
    """A device as the server knows it."""

    device: int = key("its number")
    state: str = key("ready, working, resting, quarantined, left or revoked")
    failures: int = key("places in a row from which nothing came")
    places: int = key("places that it holds in open rounds")
    participations: int = key("rounds that it took part in, over all tasks")
    seen_s: float | None = key("seconds since its last request; null if there was none")
    last_word: str | None = key("what it last did, or failed to do, in a round; null if nothing")


class DevicesResult(Result):
    """The devices of a fleet."""

    devices: list[FleetDevice] = key("each device")


class RoundResult(Result):
    """What was done with the rounds of a run."""

    action: str = key("skip, pause, resume or adjust")


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
    paused: bool = key("whether an operator has paused its rounds")
    rounds: dict[str, int] = key("how many rounds, by state")
    under_way: RoundUnderWay | None = key("the open round; null if there is none")
    could_come: int | None = key("how many devices may take part in it; null without an open round")
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


class RefusalResult(Result):
    """Something that a device refused."""

    at: float = key("when, in seconds of the device's clock")
    sentence: str = key("what the server asked for, and why it was refused")


class PolicyResult(OpenResult):
    """A policy of a device's owner; docs/fleet.md lists its keys."""

    issue: int = key("the edition of the policy")


class DeviceStatusResult(Result):
    """A device, as its owner sees it."""

    policy: PolicyResult = key("the policy in force")
    signed: bool = key("whether an application signed it; false for a built-in policy")
    rounds: int = key("how many rounds the server had, over all tasks")
    epsilon: float | None = key(
        "what the rounds cost whose noise the devices added, by the device's own computation; null if it cannot be said"
    )
    unproven: int = key("rounds whose noise is the server's word; they are not in epsilon")
    refusals: list[RefusalResult] = key("the last refusals")
    cage: list[str] = key("what a process that runs plans gives up here: limits, no network, closed")


class SignResult(Result):
    """A file that was signed."""

    signature: str = key("the signature's file")
    public_key: str = key("the key with which devices check it")


class OperatorResult(Result):
    """Somebody who operates a fleet."""

    name: str = key("the name in the log of operators")
    role: str | None = key("what the token is good for; null if it was withdrawn")
    token: str | None = key("the token, which cannot be shown again; null if it was withdrawn")
