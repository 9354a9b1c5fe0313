"""What a device can say to its owner: what was asked, what was sent, what that cost, what was refused, and how to leave.

All of it comes from the device's own files: its account, its memory, the owner's policy. Of the server's word it has the
receipts and the public log's head, both signed, and the noise that tasks state, which is always named as the server's word.
"""

from __future__ import annotations

import math
import time
from dataclasses import dataclass

from tacit.fleet.device import account
from tacit.fleet.device.account import Contributed
from tacit.fleet.device.home import Home
from tacit.fleet.device.leaving import confirmation_in
from tacit.fleet.device.memory import Memory
from tacit.fleet.device.policy import OwnerPolicy
from tacit.fleet.device.spending import epsilon_of
from tacit.fleet.device.stated_noise import stated_epsilon
from tacit.fleet.wire.public_log import Leaving


@dataclass(frozen=True)
class Statement:
    """`epsilon` is proven by devices' noise, for `proven` rounds; `stated` is of all rounds, if the server adds its noise."""

    server: str
    policy: OwnerPolicy
    memory: Memory
    contributions: tuple[Contributed, ...]
    epsilon: float
    stated: float
    left: Leaving | None
    has_left: bool
    home: str

    @property
    def proven(self) -> int:
        """How many rounds cost what the device can prove."""
        return self.memory.server.rounds - self.memory.server.unproven

    def sentences(self) -> list[str]:
        """The same in plain English."""
        return [*self._asked(), *self._sent(), *self._cost(), *self._log(), *self._refused(), *self._leaving()]

    def _asked(self) -> list[str]:
        tasks = {each.sent.task: each.sent for each in self.contributions}
        lines = [
            f"The server {self.server} asked this device to take part in {len(self.memory.tasks)} "
            f"{_plural(len(self.memory.tasks), 'task', 'tasks')}; it had {self.memory.server.rounds} of the "
            f"{self.policy.most_rounds:,} rounds that the owner's policy allows."
        ]
        for sent in tasks.values():
            who = "each device adds" if sent.noise_from == "devices" else "the server says that it adds"
            masked = "with" if sent.secure_aggregation else "without"
            lines.append(
                f"Task {sent.name!r} ({sent.kind}, plan {sent.plan[:16]}…): sums of {sent.report_goal} contributions, each no "
                f"longer than the round's clip; {who} noise of {sent.noise_multiplier:.3g} times the clip; {masked} secure "
                "aggregation."
            )
        return lines

    def _sent(self) -> list[str]:
        missing = self.memory.server.rounds - len(self.contributions)
        unlisted = f"{missing} {_plural(missing, 'contribution is', 'contributions are')} not listed in its account."
        lines = [unlisted] if missing > 0 else []
        if not self.contributions:
            return lines or ["It has sent nothing."]
        total = sum(each.sent.size for each in self.contributions)
        lines.append(
            f"It sent {len(self.contributions)} {_plural(len(self.contributions), 'contribution', 'contributions')}, "
            f"{total:,} bytes in all: numbers that the task's program computed from the text, and not the text itself."
        )
        for each in self.contributions:
            sent = each.sent
            lines.append(
                f"  {_day(sent.at)}  round {sent.round} of {sent.name!r}: {sent.numbers:,} numbers"
                f"{', masked' if sent.secure_aggregation else ''}, of length at most {sent.clip_norm:.3g}, {sent.size:,} "
                f"bytes; {_fate(each)}"
            )
        if not all(each.sent.secure_aggregation for each in self.contributions):
            lines.append(
                "Numbers that are not masked can be read by whoever runs the server, before they are added up, and can tell "
                "them something about the text."
            )
        return lines

    def _cost(self) -> list[str]:
        rounds, delta = self.memory.server.rounds, self.policy.delta
        if self.memory.restored:
            return [
                "What that cost cannot be said: an older copy of this folder was put back, or another copy was in use, and "
                "what was sent meanwhile is not in this account. The device takes part in nothing more."
            ]
        if not rounds:
            return ["That cost nothing: ε = 0."]
        lines = []
        if self.proven:
            lines.append(
                f"{self.proven} of {rounds} rounds cost at most ε = {self.epsilon:.3g} (δ = {delta:g}), proven by noise that "
                "devices add."
            )
        if self.memory.server.unproven:
            stated = f"ε = {self.stated:.3g} (δ = {delta:g})" if math.isfinite(self.stated) else "no finite ε"
            what = f"all {rounds} rounds together cost" if rounds > 1 else "its one round costs"
            apart = any(each.taken and each.noise and each.noise.moved_squared for each in self.memory.tasks.values())
            rounds_too = ", and its rounds are as far apart as it says," if apart else ","
            lines.append(
                f"If the server adds the noise it logged{rounds_too} {what} at most {stated}. The device cannot check that it "
                "does."
            )
        return lines

    def _log(self) -> list[str]:
        head = self.memory.log.checkpoint
        if head is None:
            return ["The server has shown no public log."]
        lines = [
            f"The server's log {head.origin} had {head.size} entries when this device last looked, with root "
            f"{head.root.hex()[:16]}…. Compare it with another device: tacit device compare."
        ]
        if self.memory.log.fork is not None:
            lines.append("TWO DIFFERENT LOGS WERE SHOWN: another device has a head that does not fit this one's.")
        return lines

    def _refused(self) -> list[str]:
        refusals = self.memory.refusals
        return [f"It refused: {each.sentence} ({_day(each.at)})" for each in refusals] or ["It has refused nothing."]

    def _leaving(self) -> list[str]:
        if self.left is not None:
            kept = "; ".join(self.left.kept)
            return [f"The device left on {_day(self.left.at)}, which the server confirmed. The server keeps: {kept}."]
        if self.has_left:
            return ["Key and text were deleted here. The server was not told."]
        return [f"To leave for good: tacit device leave --home {self.home}"]


def statement_of(home: Home) -> Statement:
    """The statement of this device."""
    policy, memory = home.policy, home.memory
    return Statement(
        server=home.config.server,
        policy=policy,
        memory=memory,
        contributions=tuple(account.read(home.account_path)),
        epsilon=epsilon_of(memory.proven_rho, policy.delta),
        stated=stated_epsilon(memory, policy.delta),
        left=confirmation_in(home),
        has_left=home.left_path.is_file(),
        home=str(home.path),
    )


def fate_of(each: Contributed) -> str:
    """What became of a contribution: "no receipt", "receipt", "committed" or "abandoned"."""
    if each.receipt is None:
        return "no receipt"
    return "receipt" if each.checked is None else each.checked.outcome


def _fate(each: Contributed) -> str:
    match fate_of(each):
        case "no receipt":
            return "the server gave no receipt."
        case "receipt":
            return "the server signed a receipt, not yet found in its log."
        case "abandoned":
            return "the server's log says that the round was abandoned."
    assert each.checked is not None
    return f"the server's log counts it, among {each.checked.counted}."


def _day(seconds: float) -> str:
    return time.strftime("%Y-%m-%d %H:%M", time.gmtime(seconds))


def _plural(count: int, one: str, many: str) -> str:
    return one if count == 1 else many
