"""One plan builds everything: clip, sampler, denominator, noise and accounting come from here and cannot disagree.

A plan is a recipe's ``[privacy]`` section, validated. Its numbers are public constants: the population is a stated
estimate, never counted on a store; q and the denominator follow from it.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, model_validator

from tacit.privacy.accounting.sampled_gaussian import ADJACENCY, combined_noise_multiplier
from tacit.privacy.participation import FixedSize, Poisson, Sampler
from tacit.privacy.records import UPDATE, WEIGHT

if TYPE_CHECKING:
    from tacit.privacy.mechanisms import Mechanism

# Rounding in the gate is covered by its bound up to this many users a round (tacit.privacy.sums).
LARGEST_COHORT = 100_000

Positive = Annotated[float, Field(gt=0, allow_inf_nan=False)]


class ClipChange(BaseModel):
    """From `round` on, clip at `clip_norm`; the noise σ = z · S follows, so the cost of a round stays the same."""

    model_config = ConfigDict(extra="forbid", frozen=True)
    round: int = Field(ge=0)
    clip_norm: Positive


class PrivacyPlan(BaseModel):
    """What is released about users, and the noise on it. Symbols of DP-FedAvg in brackets."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    mechanism: Literal["gaussian", "none"] = "gaussian"
    population: int = Field(gt=0, description="how many users there are, a public estimate [K]")
    cohort: Positive = Field(description="users a round: expected (Poisson) or exact (fixed) [C]")
    sampling: Literal["poisson", "fixed"] = "poisson"
    clip_norm: Positive | None = Field(
        default=None, description="bound on one user's update [S]; none means no clipping"
    )
    clipping: Literal["flat", "per_layer"] = "flat"
    clip_schedule: tuple[ClipChange, ...] = ()
    noise_multiplier: float = Field(default=0.0, ge=0, allow_inf_nan=False, description="σ over the sensitivity [z]")
    delta: float = Field(default=1e-9, gt=0, lt=1)
    example_cap: Positive | None = Field(
        default=None, description="predictions at which a user's weight reaches 1 [ŵ]; none weighs all users alike"
    )
    estimator: Literal["fixed", "clipped"] = "fixed"
    total_weight: Positive | None = Field(
        default=None,
        description="public estimate of the sum of all users' weights [W, or W_min for the clipped estimator]",
    )
    weight_noise: float = Field(
        default=10.0, gt=1, allow_inf_nan=False, description="noise multiplier of the weight block, in units of z"
    )

    @model_validator(mode="after")
    def _fits_together(self) -> PrivacyPlan:
        if self.cohort > self.population:
            raise ValueError(f"expected privacy.cohort ≤ privacy.population = {self.population}, got {self.cohort:g}")
        if self.sampling == "fixed" and self.cohort != int(self.cohort):
            raise ValueError(f"expected a whole number for privacy.cohort with fixed-size rounds, got {self.cohort:g}")
        if self.mechanism == "gaussian" and self.clip_norm is None:
            raise ValueError(
                "expected privacy.clip_norm with mechanism 'gaussian': noise needs a bound to be scaled to"
            )
        if self.mechanism == "gaussian" and self.cohort > LARGEST_COHORT:
            raise ValueError(
                f"expected privacy.cohort ≤ {LARGEST_COHORT}, the largest for which rounding is proven, got {self.cohort:g}"
            )
        if self.mechanism == "gaussian" and self.noise_multiplier == 0:
            raise ValueError(
                "expected privacy.noise_multiplier > 0 with mechanism 'gaussian', got 0; "
                "say mechanism = 'none' for training without privacy"
            )
        if self.mechanism == "none" and self.noise_multiplier > 0:
            raise ValueError(
                f"expected no privacy.noise_multiplier with mechanism 'none', got {self.noise_multiplier:g}"
            )
        if self.mechanism == "gaussian" and self.delta >= 1 / self.population:
            raise ValueError(f"expected privacy.delta < 1/population = {1 / self.population:.3g}, got {self.delta:g}")
        if self.example_cap is not None and self.total_weight is None:
            raise ValueError("expected privacy.total_weight with privacy.example_cap: the denominator must be public")
        if self.total_weight is not None and self.total_weight > self.population:
            raise ValueError(
                f"expected privacy.total_weight ≤ privacy.population = {self.population}: weights are at most 1, "
                f"got {self.total_weight:g}"
            )
        if self.clip_schedule and self.clip_norm is None:
            raise ValueError(
                "expected privacy.clip_norm with privacy.clip_schedule: it is the bound before the first change"
            )
        starts = [change.round for change in self.clip_schedule]
        if starts != sorted(set(starts)):
            raise ValueError(f"expected rising rounds in privacy.clip_schedule, got {starts}")
        return self

    @property
    def sampling_probability(self) -> float:
        """q: the share of the population that takes part in a round."""
        return self.cohort / self.population

    @property
    def denominator(self) -> float:
        """What sums are divided by: qW for the fixed estimator, qW_min (a floor) for the clipped one."""
        return self.sampling_probability * (self.population if self.total_weight is None else self.total_weight)

    @property
    def weighted(self) -> bool:
        """Whether the sum of weights is a block of the gate."""
        return self.estimator == "clipped"

    @property
    def noise_multipliers(self) -> dict[str, float]:
        """z_j of each block, so that together they cost z: z_w = weight_noise · z, and the update takes the rest."""
        z = self.noise_multiplier
        if not self.weighted:
            return {UPDATE: z}
        return {UPDATE: z / math.sqrt(1 - self.weight_noise**-2), WEIGHT: z * self.weight_noise}

    @property
    def combined_noise_multiplier(self) -> float:
        """The z of a round as a whole, computed from what its blocks get."""
        return combined_noise_multiplier(self.noise_multipliers.values())

    @property
    def adjacency(self) -> str:
        """What two neighbouring data sets differ in."""
        return ADJACENCY[self.sampling]

    def clip_norm_at(self, round: int) -> float:
        """S in this round; infinite where there is no clipping."""
        norm = math.inf if self.clip_norm is None else self.clip_norm
        for change in self.clip_schedule:
            if change.round <= round:
                norm = change.clip_norm
        return norm

    def build_sampler(self) -> Sampler:
        """The sampler whose law is the one accounted."""
        if self.sampling == "poisson":
            return Poisson(self.sampling_probability)
        return FixedSize(int(self.cohort), self.population)

    def build_mechanism(self) -> Mechanism:
        """The mechanism that adds this plan's noise."""
        from tacit.privacy.mechanisms import Gaussian, NoNoise

        return Gaussian(self.noise_multipliers) if self.mechanism == "gaussian" else NoNoise(self.noise_multipliers)
