"""What the same training would cost at a larger scale, without running it (DP-FedAvg, section 3; Gboard, section 2.2).

A simulation with few users and little noise predicts the accuracy with many users and more noise: the model sees the noise on
the mean, z · S / m, which stays the same when z and m grow together. That more users are otherwise as good as fewer is a
hypothesis (both papers give evidence for it), so a result at scale is an estimate, and is labelled as one everywhere.
The cost is not an estimate: it is that of the larger plan.
"""

from __future__ import annotations

import dataclasses
from typing import Any

from pydantic import BaseModel, ConfigDict, Field

from tacit.privacy.accounting.spent import Spent, spent_by
from tacit.privacy.plan import PrivacyPlan
from tacit.privacy.record.planned import planned_intents
from tacit.privacy.record.reasons import Why
from tacit.privacy.record.records import Opened

ESTIMATE = (
    "an estimate: the accuracy was measured with fewer users and proportionally less noise, and assumes that more users with "
    "the same noise on the mean train as well"
)


class ScaleSection(BaseModel):
    """The plan for a larger fleet; noise grows with the cohort. Fields that are left out stay as they are in [privacy]."""

    model_config = ConfigDict(extra="forbid", frozen=True)
    population: int = Field(gt=0, description="users of the larger fleet, a public estimate")
    cohort: float = Field(gt=0, allow_inf_nan=False, description="users a round of the larger fleet")
    delta: float | None = Field(default=None, gt=0, lt=1, description="δ of the larger fleet's guarantee")
    min_separation: int | None = Field(
        default=None, ge=0, description="rounds between two participations of a user, at least"
    )
    max_participation: int | None = Field(default=None, ge=1, description="rounds a user takes part in, at most")


def scaled_up(plan: PrivacyPlan, scale: ScaleSection) -> PrivacyPlan:
    """The plan at scale: the same noise on the mean."""
    factor = scale.cohort / plan.cohort
    changes: dict[str, Any] = scale.model_dump(exclude_none=True)
    changes["noise_multiplier"] = plan.noise_multiplier * factor
    if plan.adaptive is not None and plan.adaptive.count_noise is not None:
        changes["adaptive"] = plan.adaptive.model_copy(update={"count_noise": plan.adaptive.count_noise * factor})
    if plan.total_weight is not None:
        changes["total_weight"] = plan.total_weight * scale.population / plan.population
    return PrivacyPlan.model_validate({**plan.model_dump(), **changes})


def cost_at_scale(opened: Opened, plan: PrivacyPlan, rounds: int) -> Spent:
    """What `rounds` rounds of the scaled-up plan would cost, with releases of this run's size and noise of its shape."""
    # A run with a fleet has no seed. It would have every other reason, such as words counted on private users.
    reasons = tuple(reason for reason in opened.reasons_not_private if reason.code != Why.SEEDED)
    hypothetical = dataclasses.replace(
        opened,
        plan=plan.model_dump(mode="json"),
        population=plan.population,
        rounds=rounds,
        reasons_not_private=reasons,
    )
    return spent_by(hypothetical, planned_intents(plan, rounds))
