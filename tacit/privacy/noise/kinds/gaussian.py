"""Independent Gaussian noise (DP-FedAvg), and no noise at all."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from tacit.privacy.accounting.cost import Cost
from tacit.privacy.accounting.gaussian import sensitivity_squared
from tacit.privacy.accounting.releases import Releases, noise_multiplier_of
from tacit.privacy.accounting.zcdp import composed, gaussian_rho
from tacit.privacy.noise.kinds.base import OUTSIDE_SAMPLINGS, SYSTEM_ENTROPY, MechanismKind
from tacit.privacy.participation.limits import Gap
from tacit.privacy.record.records import Intent, Opened

if TYPE_CHECKING:
    from tacit.privacy.noise.mechanisms import Mechanism
    from tacit.privacy.noise.strategies import Strategy
    from tacit.privacy.plan import PrivacyPlan

IDEAL = (
    "the noise is the ideal Gaussian's, rounded to a grid, to the last bit and with all of its tail; what float64 "
    "adds to correlated noise is within the room for rounding"
)
NOT_INDEPENDENT = "the ledger describes correlated noise, and the mechanism's noise is independent between rounds"


class GaussianKind(MechanismKind):
    """Fresh Gaussian noise in every round, on sampled users or on users who check in."""

    name = "gaussian"
    noise = "Independent Gaussian noise on the sum of each round (DP-FedAvg)"
    proven_under = OUTSIDE_SAMPLINGS

    def build(self, plan: PrivacyPlan, rounds: int, strategy: Strategy | None) -> Mechanism:
        from tacit.privacy.noise.mechanisms import Gaussian

        return Gaussian(plan.noise_multipliers)

    def cost(self, releases: Releases) -> Cost:
        """With sampling, that of the sampled rounds; without, the sum over branches of participations / (2 z²)."""
        objection = NOT_INDEPENDENT if releases.opened.strategy else None
        if releases.sampled:
            return Cost.of_rounds(releases.rounds, objection=objection)
        rhos = []
        for branch, seen in zip(releases.branches, releases.participation_by_branch, strict=True):
            squared = sensitivity_squared(len(branch), Gap(seen.min_separation), seen.max_participation)
            smallest = min(noise_multiplier_of(releases.all[number]) for number in branch)
            rhos.append(gaussian_rho(smallest, squared))
        return Cost.of_rho(composed(*rhos), gaussian=True, objection=objection)

    def enforced(self) -> tuple[str, ...]:
        return (
            SYSTEM_ENTROPY + "neither a resumed run nor a copy of it adds the same draws to another sum",
            IDEAL,
        )

    def least_rho(self, opened: Opened, intents: Sequence[Intent]) -> float:
        """1/(2z²) with the largest z of any release."""
        return least_gaussian_rho(intents)


class NoNoiseKind(GaussianKind):
    """Sums as they are. Epsilon is infinite: the accounting finds a noise multiplier of 0."""

    name = "none"
    noise = "No noise on the sum of each round"
    adds_noise = False

    def build(self, plan: PrivacyPlan, rounds: int, strategy: Strategy | None) -> Mechanism:
        from tacit.privacy.noise.mechanisms import NoNoise

        return NoNoise(plan.noise_multipliers)

    def enforced(self) -> tuple[str, ...]:
        return ()


def least_gaussian_rho(intents: Sequence[Intent]) -> float:
    """What one participation costs at least under Gaussian noise, however it is correlated."""
    return gaussian_rho(max((noise_multiplier_of(intent) for intent in intents), default=float("inf")))
