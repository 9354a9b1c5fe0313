"""Results of those `tacit device` commands that are for the person whose text is on the device."""

from __future__ import annotations

from tacit.cli.results.base import Result, key
from tacit.cli.results.fleet import RefusalResult


class ContributionResult(Result):
    """Something that the device has sent, or was about to send when it was stopped."""

    at: float = key("when, in seconds since 1970 by the device's clock")
    task: str = key("the task's id")
    name: str = key("the task's name")
    plan: str = key("the SHA-256 of the program that ran on the text")
    round: int = key("the round's number")
    round_id: str = key("the name of the try at the round")
    clip_norm: float = key("no contribution in this round is longer")
    report_goal: int = key("how many contributions the task promised to add up")
    noise_multiplier: float = key("the noise that the task states, in units of the clip")
    noise_from: str = key("who adds it: server, which is the server's word, or devices")
    secure_aggregation: bool = key("whether the numbers were masked")
    numbers: int = key("how many numbers were sent")
    size: int = key("how many bytes were sent")
    rho: float | None = key("the round's proven cost; null if the noise is the server's word")
    fate: str = key("no receipt, receipt (signed by the server), committed or abandoned (found in the server's log)")
    counted: int | None = key("how many contributions the log says were counted; null if it was not found there yet")


class HeadResult(Result):
    """The signed head of a server's log."""

    origin: str = key("the log's name")
    size: int = key("how many entries it has")
    root: str = key("the root of the tree over them, in hexadecimal")
    head: str = key("the signed head as text")
    key: str = key("the log's public key, name+id+key")


class ReceiptsResult(Result):
    """The device's contributions, and what the server signed for them."""

    contributions: list[ContributionResult] = key("each of them, oldest first")
    checked: bool = key("whether the log was asked now")
    in_ledger: int | None = key("how many committed rounds of the device the ledger has; null without --ledger")


class CompareHeadsResult(Result):
    """Of this device's head and another device's."""

    one_log: bool = key("whether both are heads of one and the same log")
    here: int = key("entries in this device's head")
    there: int = key("entries in the other head")
    sentence: str = key("the finding in one sentence")


class LeaveResult(Result):
    """A device that has left."""

    confirmed: bool = key("whether the server confirmed it")
    kept: list[str] = key("what the server says that it keeps; empty if it was not asked")
    kept_text: bool = key("whether the device's text is still in its folder")


class StatementResult(Result):
    """What a device can say to its owner."""

    server: str = key("the server's address")
    rounds: int = key("how many rounds the server had, over all tasks")
    most_rounds: int = key("how many the owner's policy allows")
    tasks: int = key("how many tasks the server offered")
    contributions: list[ContributionResult] = key("what was sent, oldest first")
    epsilon_proven: float | None = key("what the rounds cost whose noise the devices added; null if it cannot be said")
    rounds_proven: int = key("how many rounds that is")
    epsilon_if_server_adds_noise: float | None = key(
        "what all rounds cost if the server adds the noise it logged; null if no ε follows from what it logged"
    )
    delta: float = key("δ of both")
    restored: bool = key(
        "whether another copy of the folder was in use, so that rounds are missing and no cost can be said"
    )
    log: HeadResult | None = key("the last head of the server's log; null if it has shown none")
    two_logs: bool = key("whether the server is known to have shown two different logs")
    refusals: list[RefusalResult] = key("the last refusals")
    left: bool = key("whether the device has left")
    server_keeps: list[str] = key("what the server said that it keeps when the device left; empty before")
