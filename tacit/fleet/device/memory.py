"""A device's memory of tasks and rounds, and the limits that it enforces whatever the server says.

A task is named by the hash of its description, so its terms cannot change. A description with the name of a known task and
weaker terms (a smaller separation, more participations, a shorter timer, or no secure aggregation where there was some) is
refused. A round counts from just before its report is sent, because the device cannot verify what the server does with the
report.
"""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict, Field

from tacit.errors import FleetError
from tacit.fleet.wire.messages import Assignment, RoundId, Sha256
from tacit.fleet.wire.task import DeviceTask


class _Stored(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class TaskMemory(_Stored):
    """A device's participation in one task, and the task's terms."""

    name: str
    min_separation: int
    max_participation: int
    timer_s: float
    secure: bool = Field(default=False, description="whether updates are sent only with secure aggregation")
    taken: int = Field(default=0, ge=0, description="the number of rounds it took part in")
    last_round: int | None = None
    rests_until: float = Field(default=0.0, description="by the device's own clock, as all times here")
    seen_at: float = Field(description="when a place was last offered")
    blobs: tuple[Sha256, ...] = Field(default=(), description="what was downloaded for it")

    @property
    def is_over(self) -> bool:
        """Whether this device will never take part again."""
        return self.taken >= self.max_participation


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
    pending: Pending | None = None

    def busy_with(self, now: float) -> list[str]:
        """Tasks that this device refuses now, the most recently offered first."""
        busy = [name for name, task in self.tasks.items() if task.is_over or now < task.rests_until]
        return sorted(busy, key=lambda name: -self.tasks[name].seen_at)

    def was_in(self) -> list[tuple[str, int]]:
        """The last round that this device took part in, for each task, the most recently offered first."""
        known = sorted(self.tasks.items(), key=lambda item: -item[1].seen_at)
        return [(name, task.last_round) for name, task in known if task.last_round is not None]

    def offered(self, name: str, task: DeviceTask, now: float) -> Memory:
        """The memory with this task in it; FleetError if a task of the same name is known with stronger terms."""
        for other in self.tasks.values():
            if other.name == task.name and (
                task.min_separation < other.min_separation
                or task.max_participation > other.max_participation
                or task.timer_s < other.timer_s
                or (other.secure and task.secagg is None)
            ):
                raise FleetError(
                    f"Expected terms at least as strong as before for this task, got separation {task.min_separation}, "
                    f"participations {task.max_participation}, timer {task.timer_s:g} s, "
                    f"{'no ' if task.secagg is None else ''}secure aggregation."
                )
        known = self.tasks.get(name) or TaskMemory(
            name=task.name,
            min_separation=task.min_separation,
            max_participation=task.max_participation,
            timer_s=task.timer_s,
            secure=task.secagg is not None,
            seen_at=now,
        )
        blobs = (name, task.plan, task.vocabulary)
        return self._with(name, known.model_copy(update={"seen_at": now, "blobs": blobs}))

    def require_free(self, assignment: Assignment, now: float) -> None:
        """FleetError if the device may not take part: its timer runs, the last round is too recent, or the limit is reached."""
        task = self.tasks[assignment.task]
        if task.is_over:
            raise FleetError(
                f"The device has taken part in {task.max_participation} rounds of this task, as many as it may."
            )
        if now < task.rests_until:
            raise FleetError(f"The device's timer of {task.timer_s:g} s for this task is still running.")
        if task.last_round is not None and assignment.round - task.last_round <= task.min_separation:
            raise FleetError(
                f"Expected an offer more than {task.min_separation} rounds after round {task.last_round}, "
                f"got round {assignment.round}."
            )

    def taking_part(self, assignment: Assignment, now: float, pending: Pending | None) -> Memory:
        """The memory when the report is about to be sent: the round counts, and the timer starts."""
        task = self.tasks[assignment.task]
        changes = {
            "taken": task.taken + 1,
            "last_round": assignment.round,
            "rests_until": now + task.timer_s,
        }
        memory = self._with(assignment.task, task.model_copy(update=changes))
        return memory.model_copy(update={"pending": pending})

    def _with(self, name: str, task: TaskMemory) -> Memory:
        return self.model_copy(update={"tasks": {**self.tasks, name: task}})
