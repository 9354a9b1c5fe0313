"""Compares what a server offers with the owner's policy, and with the best terms that the server has offered before.

Every assignment is compared, whatever its task, run or name is: a server that makes its terms weaker under another name is
refused like one that makes them weaker under the same. The first objection is one sentence, which the device keeps
(`memory.py`) and shows.
"""

from __future__ import annotations

import math

from pydantic import BaseModel, ConfigDict

from tacit.errors import FleetError
from tacit.fleet.device.policy import OwnerPolicy
from tacit.fleet.wire.messages import Assignment
from tacit.fleet.wire.task import DeviceTask


class PolicyRefusal(FleetError):
    """The owner's policy, or an earlier and better offer, forbids the assignment."""


class Terms(BaseModel):
    """Terms of a task that protect the device. `clip_norms` has the largest clip of each kind of task, unless it is adapted."""

    model_config = ConfigDict(extra="forbid", frozen=True)
    min_separation: int
    timer_s: float
    report_goal: int
    noise_multiplier: float
    clip_norms: dict[str, float]
    secure: bool
    noise_of_devices: bool

    @classmethod
    def of(cls, task: DeviceTask) -> Terms:
        """The terms of this task."""
        return cls(
            min_separation=task.min_separation,
            timer_s=task.timer_s,
            report_goal=task.report_goal,
            noise_multiplier=noise_of(task),
            clip_norms={} if task.clip_norm is None else {task.kind: task.clip_norm},
            secure=task.secagg is not None,
            noise_of_devices=task.secagg is not None and task.secagg.local_variance > 0,
        )

    def best(self, other: Terms | None) -> Terms:
        """The stronger of each term."""
        if other is None:
            return self
        clips = {**self.clip_norms, **other.clip_norms}
        return Terms(
            min_separation=max(self.min_separation, other.min_separation),
            timer_s=max(self.timer_s, other.timer_s),
            report_goal=max(self.report_goal, other.report_goal),
            noise_multiplier=max(self.noise_multiplier, other.noise_multiplier),
            clip_norms={kind: min(clip, self.clip_norms.get(kind, clip)) for kind, clip in clips.items()},
            secure=self.secure or other.secure,
            noise_of_devices=self.noise_of_devices or other.noise_of_devices,
        )

    def require_as_good_as(self, before: Terms, kind: str) -> None:
        """PolicyRefusal if one of these terms, of a task of this kind, is weaker than the one before."""
        if before.secure and not self.secure:
            raise PolicyRefusal("The server weakened its terms: it offered secure aggregation before, and none now.")
        if before.noise_of_devices and not self.noise_of_devices:
            raise PolicyRefusal("The server weakened its terms: it offered noise of the devices before, and none now.")
        if kind in before.clip_norms:
            now, then = self.clip_norms.get(kind), before.clip_norms[kind]
            if now is None or now > then * (1 + 1e-6):
                raise _weaker("a clip norm", "a changing one" if now is None else f"{now:.6g}", f"{then:.6g}")
        for name, offered, earlier in (
            ("a separation", self.min_separation, before.min_separation),
            ("a timer in seconds", self.timer_s, before.timer_s),
            ("a report goal", self.report_goal, before.report_goal),
            ("a noise multiplier", self.noise_multiplier, before.noise_multiplier),
        ):
            if offered < earlier * (1 - 1e-9):
                raise _weaker(name, f"{offered:g}", f"{earlier:g}")


def require_permitted(policy: OwnerPolicy, task: DeviceTask, assignment: Assignment) -> None:
    """PolicyRefusal unless the owner's policy permits a round of this task with this clip."""
    if not assignment.clip_norm <= policy.largest_clip:  # nan is not ≤ anything
        raise _forbidden("a clip norm of at most", f"{policy.largest_clip:g}", f"{assignment.clip_norm:g}")
    if task.clip_norm is not None and assignment.clip_norm > task.clip_norm:
        raise PolicyRefusal(
            f"Expected a clip norm of at most {task.clip_norm:g}, as the task says, got {assignment.clip_norm:g}."
        )
    if task.clip_norm is not None and assignment.threshold is not None:
        # One more number of each device, which is in none of the costs that the task states.
        raise PolicyRefusal(
            "The task has a fixed clip norm, and the server asked whether the update is longer than "
            f"{assignment.threshold:g}."
        )
    if task.report_goal < policy.least_cohort:
        raise _forbidden("a report goal of at least", str(policy.least_cohort), str(task.report_goal))
    if task.min_separation < policy.least_separation:
        raise _forbidden("a separation of at least", str(policy.least_separation), str(task.min_separation))
    if policy.secure_aggregation == "required" and task.secagg is None:
        raise PolicyRefusal("The owner's policy asks for secure aggregation, and the task has none.")
    if policy.noise_from == "devices" and (task.secagg is None or task.secagg.local_variance == 0):
        raise PolicyRefusal("The owner's policy asks for noise that devices add, and the task has none.")
    if noise_of(task) < policy.least_noise * (1 - 1e-9):
        raise _forbidden("a noise multiplier of at least", f"{policy.least_noise:g}", f"{noise_of(task):g}")
    stated = None if task.noise is None else task.noise.multiplier
    if stated is not None and stated > task.noise_multiplier * (
        1 + 1e-9
    ):  # of all blocks together: never more than one's
        raise PolicyRefusal(
            f"The task contradicts itself: it states noise of {task.noise_multiplier:g} times the clip, and computes its cost "
            f"from {stated:g}."
        )


def noise_of(task: DeviceTask) -> float:
    """The noise multiplier: what the devices' own noise amounts to if there is some, else what the task states.

    Of the devices' noise, that of the report goal counts; what corrupt devices know is left to the accounting (`spending.py`).
    """
    if task.secagg is not None and task.secagg.local_variance > 0:
        variance = task.secagg.local_variance * task.report_goal
        return math.sqrt(variance / task.secagg.encoding().norm_limit_squared)
    return task.noise_multiplier


def _forbidden(what: str, limit: str, got: str) -> PolicyRefusal:
    return PolicyRefusal(f"The owner's policy asks for {what} {limit}, got {got}.")


def _weaker(what: str, now: str, then: str) -> PolicyRefusal:
    return PolicyRefusal(f"The server weakened its terms: it offered {what} of {then} before, and {now} now.")
