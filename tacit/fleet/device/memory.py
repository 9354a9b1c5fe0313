"""A device's memory of tasks and rounds, and the limits that it enforces whatever the server says.

A task is named by the hash of its description, so its terms cannot change. What another task could reset is counted for the
server as a whole, and there terms are compared as well (`server_memory.py`). A round counts from just before its report is
sent, because the device cannot verify what the server does with the report.

**Tries that came to nothing.** A round may need several tries, and a try that fails releases nothing. If it counted for good, a
few bad tries would use up all devices. So a device asks about what it has sent (`sent`), and what the server calls uncounted no
longer counts towards separation and limit (`participation_table.uncounted` proves when the server may say so). The device takes
the server's word for this as it does for the number of a round, but not without end: after `max_participation` uncounted tries
and `SPARE_TRIES` more, the task is over for it. Whatever a server says, a device sends at most 2 · max_participation +
SPARE_TRIES reports for a task, and never two before its timer is over, which runs after every report. What it counts for the
server as a whole is every report, whatever became of it.

**A folder that is put back to an older state** has forgotten rounds. The device cannot see this by itself. It knows if the
server has seen a request with a higher counter than any of this folder's, which every counted round raises (`connection.py`):
it then takes part in nothing more, and states no finite cost.
"""

from __future__ import annotations

import math
from collections.abc import Collection

from pydantic import BaseModel, ConfigDict, Field

from tacit.errors import FleetError
from tacit.fleet.device.log_memory import LogMemory
from tacit.fleet.device.policy import MOST_TASKS, OwnerPolicy
from tacit.fleet.device.server_memory import ServerMemory
from tacit.fleet.device.terms import PolicyRefusal, Terms
from tacit.fleet.wire.messages import MOST_ASKED, Assignment, RoundId, Sha256
from tacit.fleet.wire.task import DeviceTask, NoiseTerms

# How many refusals are kept.
_MOST_REFUSALS = 20
# How many tries may come to nothing, beyond the number of participations, before a device has had enough of a task.
SPARE_TRIES = 32


class _Stored(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Sent(_Stored):
    """A try at a round that the device has sent something in."""

    round_id: RoundId
    round: int


class TaskMemory(_Stored):
    """A device's participation in one task, and the task's terms."""

    name: str
    min_separation: int
    max_participation: int
    timer_s: float
    sent: tuple[Sent, ...] = Field(default=(), description="the tries it took part in, without those that do not count")
    uncounted: int = Field(default=0, ge=0, description="how many tries came to nothing")
    rests_until: float = Field(default=0.0, description="by the device's own clock, as all times here")
    seen_at: float = Field(description="when a place was last offered")
    blobs: tuple[Sha256, ...] = Field(default=(), description="what was downloaded for it")
    noise: NoiseTerms | None = Field(default=None, description="what the server says about its noise")
    devices_noise: bool = Field(default=False, description="whether devices add the noise, so that its cost is proven")

    @property
    def taken(self) -> int:
        """The number of rounds it took part in, as far as it knows."""
        return len(self.sent)

    @property
    def last_round(self) -> int | None:
        """The last of them."""
        return max((each.round for each in self.sent), default=None)

    @property
    def is_over(self) -> bool:
        """Whether this device will never take part again."""
        return self.taken >= self.max_participation or self.uncounted >= self.max_participation + SPARE_TRIES


class Objection(_Stored):
    """A refusal of what the server asked for."""

    at: float
    sentence: str


class Pending(_Stored):
    """A saved report that may or may not have arrived."""

    round_id: RoundId
    upload_to: str
    until: float


class Memory(_Stored):
    """All that a device remembers, in one file that is written before anything that depends on it is sent."""

    format: int = Field(default=1, ge=1, le=1)
    counter: int = Field(default=0, ge=0, description="no request was signed with a higher counter")
    tasks: dict[Sha256, TaskMemory] = Field(default_factory=dict)
    server: ServerMemory = ServerMemory()
    refusals: tuple[Objection, ...] = Field(default=(), description="what the device refused, the latest last")
    pending: Pending | None = None
    log: LogMemory = LogMemory()
    restored: bool = Field(
        default=False, description="whether another copy of this folder was in use, so that rounds are missing here"
    )

    @property
    def proven_rho(self) -> float:
        """What the rounds cost whose noise the devices added; infinite if some may be missing here."""
        return math.inf if self.restored else self.server.spent_rho

    def require_whole(self) -> None:
        """PolicyRefusal if rounds may be missing here: no limit can be kept then."""
        if self.restored:
            raise PolicyRefusal(
                "An older copy of this device's folder was put back, or another copy was in use: what it sent meanwhile is not "
                "in its account, so no limit can be kept."
            )

    def busy_with(self, now: float) -> list[str]:
        """Tasks that this device refuses now, the most recently offered first."""
        rests = self.server.rests(now)
        busy = [name for name, task in self.tasks.items() if rests or task.is_over or now < task.rests_until]
        return sorted(busy, key=lambda name: -self.tasks[name].seen_at)

    def was_in(self) -> list[tuple[str, int]]:
        """The last round that this device took part in, for each task, the most recently offered first."""
        known = sorted(self.tasks.items(), key=lambda item: -item[1].seen_at)
        return [(name, task.last_round) for name, task in known if task.last_round is not None]

    def asked(self) -> tuple[str, ...]:
        """The latest tries that the device has sent something in: it asks the server whether they count."""
        known = sorted(self.tasks.values(), key=lambda task: -task.seen_at)
        return tuple(each.round_id for task in known for each in reversed(task.sent))[:MOST_ASKED]

    def without(self, uncounted: Collection[str]) -> Memory:
        """The memory after the server has said that these tries do not count."""
        changed = self
        for name, task in self.tasks.items():
            kept = tuple(each for each in task.sent if each.round_id not in uncounted)
            if len(kept) < len(task.sent):
                less = {"sent": kept, "uncounted": task.uncounted + len(task.sent) - len(kept)}
                changed = changed._with(name, task.model_copy(update=less))
        return changed

    def under(self, policy: OwnerPolicy) -> Memory:
        """The memory under this edition of the policy; FleetError if it is older than the one before."""
        return self.model_copy(update={"server": self.server.under(policy)})

    def offered(self, name: str, task: DeviceTask, now: float, *, most_tasks: int = MOST_TASKS) -> Memory:
        """The memory with this task in it.

        PolicyRefusal if the server offered better terms before, in any task, or more tasks than `most_tasks`.
        """
        server = self.server.offered(Terms.of(task), task.kind)
        if name not in self.tasks and len(self.tasks) >= most_tasks:
            raise PolicyRefusal(
                f"The server has offered {most_tasks} different tasks, as many as the owner's policy allows."
            )
        for other in self.tasks.values():
            if other.name == task.name and task.max_participation > other.max_participation:
                raise PolicyRefusal(
                    f"The server weakened its terms: it offered {other.max_participation} participations in this task before, "
                    f"and {task.max_participation} now."
                )
        known = self.tasks.get(name) or TaskMemory(
            name=task.name,
            min_separation=task.min_separation,
            max_participation=task.max_participation,
            timer_s=task.timer_s,
            seen_at=now,
            noise=task.noise,
            devices_noise=task.secagg is not None and task.secagg.local_variance > 0,
        )
        blobs = (name, task.plan, task.vocabulary)
        memory = self._with(name, known.model_copy(update={"seen_at": now, "blobs": blobs}))
        return memory.model_copy(update={"server": server})

    def require_free(self, assignment: Assignment, now: float) -> None:
        """FleetError if the device may not take part: its timer runs, the last round is too recent, or the limit is reached."""
        task = self.tasks[assignment.task]
        if task.is_over:
            raise FleetError(
                f"The device has taken part in {task.taken} rounds of this task and in {task.uncounted} tries that came to "
                f"nothing, as many as it may."
            )
        if now < task.rests_until:
            raise FleetError(f"The device's timer of {task.timer_s:g} s for this task is still running.")
        if self.server.rests(now):
            raise FleetError(
                f"The device's timer of {self.server.timer_s:g} s for all this server's tasks is still running."
            )
        if task.last_round is not None and assignment.round - task.last_round <= task.min_separation:
            raise FleetError(
                f"Expected an offer more than {task.min_separation} rounds after round {task.last_round}, "
                f"got round {assignment.round}."
            )

    def begins(self, session: str) -> Memory:
        """The memory when a session of secure aggregation begins; PolicyRefusal if it was begun before."""
        return self.model_copy(update={"server": self.server.begins(session)})

    def taking_part(
        self, assignment: Assignment, now: float, pending: Pending | None, rho: float | None = None
    ) -> Memory:
        """The memory when the report is about to be sent: the round counts, and the timer starts.

        `rho` is the round's cost, if the device can prove one.
        """
        task = self.tasks[assignment.task]
        changes = {
            "sent": (*task.sent, Sent(round_id=assignment.round_id, round=assignment.round)),
            "rests_until": now + task.timer_s,
        }
        memory = self._with(assignment.task, task.model_copy(update=changes))
        server = self.server.taking_part(assignment.round_id, now, rho)
        return memory.model_copy(update={"pending": pending, "server": server})

    def objecting(self, sentence: str, now: float) -> Memory:
        """The memory with this refusal in it. The same one as before is written down once."""
        if self.refusals and self.refusals[-1].sentence == sentence:
            return self
        refusals = (*self.refusals, Objection(at=now, sentence=sentence))[-_MOST_REFUSALS:]
        return self.model_copy(update={"refusals": refusals})

    def _with(self, name: str, task: TaskMemory) -> Memory:
        return self.model_copy(update={"tasks": {**self.tasks, name: task}})
