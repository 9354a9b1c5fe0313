"""What a device remembers of tasks, and the rules it keeps whatever the server says.

A task is named by the hash of its description, so its terms cannot change on the way; and a description of the same name with
weaker terms (a smaller separation, more participations, a shorter rest, no secure aggregation where there was some) is refused.
A round counts from the moment before its report is sent: whether the server took the report is only the server's word.
"""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict, Field

from tacit.errors import FleetError
from tacit.fleet.wire.messages import Assignment, RoundId, Sha256, Task


class _Kept(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class TaskMemory(_Kept):
    """What a device has done for one task, and the terms it did it under."""

    name: str
    min_separation: int
    max_participation: int
    timer_s: float
    secure: bool = Field(default=False, description="whether updates are sent under secure aggregation alone")
    taken: int = Field(default=0, ge=0, description="rounds it took part in")
    last_round: int | None = None
    rests_until: float = Field(default=0.0, description="the device's own clock, as all times here")
    seen_at: float = Field(description="when a place was last offered")
    blobs: tuple[Sha256, ...] = Field(default=(), description="what was downloaded for it")

    @property
    def is_over(self) -> bool:
        """Whether this device will never take part again."""
        return self.taken >= self.max_participation


class Pending(_Kept):
    """A report that is written down and may or may not have arrived."""

    round_id: RoundId
    upload_to: str
    until: float


class Memory(_Kept):
    """All that a device remembers: one file, written before anything that depends on it is sent."""

    format: int = Field(default=1, ge=1, le=1)
    counter: int = Field(default=0, ge=0, description="no request was signed with a higher one")
    tasks: dict[Sha256, TaskMemory] = Field(default_factory=dict)
    pending: Pending | None = None

    def busy_with(self, now: float) -> list[str]:
        """Tasks that this device will not take now, those it heard of last first."""
        busy = [name for name, task in self.tasks.items() if task.is_over or now < task.rests_until]
        return sorted(busy, key=lambda name: -self.tasks[name].seen_at)

    def was_in(self) -> list[tuple[str, int]]:
        """The last round of each task that this device has taken, those it heard of last first."""
        known = sorted(self.tasks.items(), key=lambda item: -item[1].seen_at)
        return [(name, task.last_round) for name, task in known if task.last_round is not None]

    def offered(self, name: str, task: Task, now: float) -> Memory:
        """With this task known; FleetError if it is a known one with weaker terms under another hash."""
        for other in self.tasks.values():
            if other.name == task.name and (
                task.min_separation < other.min_separation
                or task.max_participation > other.max_participation
                or task.timer_s < other.timer_s
                or (other.secure and task.secagg is None)
            ):
                raise FleetError(
                    f"Expected the terms that the task was known by, got weaker ones: separation {task.min_separation}, "
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
        """FleetError unless this round may be taken: rested, far enough from the last one, within the limit."""
        task = self.tasks[assignment.task]
        if task.is_over:
            raise FleetError(f"Expected at most {task.max_participation} rounds of a task, got an offer of one more.")
        if now < task.rests_until:
            raise FleetError(f"Expected an offer after the timer of {task.timer_s:g} s, got one before.")
        if task.last_round is not None and assignment.round - task.last_round <= task.min_separation:
            raise FleetError(
                f"Expected an offer more than {task.min_separation} rounds after round {task.last_round}, "
                f"got round {assignment.round}."
            )

    def taking_part(self, assignment: Assignment, now: float, pending: Pending | None) -> Memory:
        """After the decision to send: the round counts, the timer runs, the report is the only one this round will ever see."""
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
