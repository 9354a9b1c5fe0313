"""Gaussian noise that a strategy correlates between rounds (DP-FTRL): a binary tree, buffered or banded Toeplitz matrices.

Every strategy is a mechanism of the same name. A strategy from outside becomes one when it is registered.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from tacit.errors import PrivacyError
from tacit.privacy.accounting.cost import Cost
from tacit.privacy.accounting.releases import Releases, noise_multiplier_of
from tacit.privacy.accounting.zcdp import composed, gaussian_rho
from tacit.privacy.noise.kinds.base import SYSTEM_ENTROPY, MechanismKind
from tacit.privacy.noise.kinds.gaussian import IDEAL, least_gaussian_rho
from tacit.privacy.noise.strategies import Strategy, from_description, optimised
from tacit.privacy.participation.limits import Gap
from tacit.privacy.record.records import Intent, Opened

if TYPE_CHECKING:
    from tacit.privacy.noise.mechanisms import Mechanism
    from tacit.privacy.plan import PrivacyPlan


class CorrelatedKind(MechanismKind):
    """The matrix mechanism of one kind of strategy, on users who check in."""

    proven_under = ("check_in",)
    correlated = True

    def __init__(self, name: str, noise: str, *, has_bands: bool = False, version: str = "") -> None:
        self.name, self.noise, self.has_bands, self.version = name, noise, has_bands, version

    def build(self, plan: PrivacyPlan, rounds: int, strategy: Strategy | None) -> Mechanism:
        from tacit.privacy.noise.mechanisms import Correlated

        if strategy is None or strategy.name != self.name:
            raise PrivacyError(f"Expected a strategy of the kind {self.name}, got {strategy and strategy.name}.")
        return Correlated(plan.noise_multipliers, strategy, rounds, plan.restarts)

    def build_strategy(self, plan: PrivacyPlan, rounds: int) -> Strategy | None:
        """The strategy that is fitted to the longest stretch between restarts, and to the plan's MinS and MaxP."""
        if plan.max_participation is None:
            return None
        longest = max(stop - start for start, stop in pairwise([0, *plan.restarts, rounds]))
        return optimised(self.name, longest, plan.gap, plan.max_participation, most_bands=plan.most_bands)

    def cost(self, releases: Releases) -> Cost:
        """The sum over branches of Δ² / (2 z²), with the squared sensitivity Δ² that the strategy has under MinS and MaxP."""
        if releases.sampled:
            return Cost.unknown("correlated noise has no proof on sampled rounds")
        if releases.opened.strategy.get("strategy") != self.name:
            return Cost.unknown(undescribed(self.name))
        strategy, rhos = from_description(releases.opened.strategy), []
        for branch, seen in zip(releases.branches, releases.participation_by_branch, strict=True):
            intents = [releases.all[number] for number in branch]
            restarts = [intent.round for intent in intents if intent.restart and intent.round > 0]
            gap, most = Gap(seen.min_separation), seen.max_participation
            squared = strategy.sensitivity(len(intents), gap, most, restarts).squared
            rhos.append(gaussian_rho(min(map(noise_multiplier_of, intents)), squared))
        return Cost.of_rho(composed(*rhos), gaussian=True)

    def enforced(self) -> tuple[str, ...]:
        # Copies of a run share the noise state, which holds earlier draws; later draws are fresh.
        return (SYSTEM_ENTROPY + "a resumed run, or a copy of it, adds fresh draws to every later sum", IDEAL)

    def least_rho(self, opened: Opened, intents: Sequence[Intent]) -> float:
        """1/(2z²): a strategy has ones on its diagonal, so one participation costs at least this."""
        return least_gaussian_rho(intents)

    def describe_itself(self) -> dict[str, Any]:
        return {"noise": self.noise}


def undescribed(mechanism: str) -> str:
    """The reason for a ledger whose first record has no strategy, or one that is not the mechanism's."""
    return f"the ledger does not describe how the noise of the mechanism {mechanism!r} is correlated"


TREE = CorrelatedKind("tree", "Gaussian noise on the nodes of a binary tree over the rounds (DP-FTRL)")
BLT = CorrelatedKind(
    "blt", "Gaussian noise correlated over the rounds by a buffered linear Toeplitz strategy (DP-FTRL)"
)
BANDED = CorrelatedKind(
    "banded", "Gaussian noise correlated over the rounds by a banded strategy (DP-FTRL)", has_bands=True
)
