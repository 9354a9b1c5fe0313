"""Gaussian noise that a strategy correlates between rounds (DP-FTRL): a binary tree, buffered or banded Toeplitz matrices.

Every strategy is a mechanism of the same name. A strategy from outside becomes one when it is registered. The users check in,
and what a round costs follows from how often and how far apart they come. A band also has a proof for sampled users
(`BandedKind`).
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from tacit.errors import PrivacyError
from tacit.privacy.accounting.cost import Cost
from tacit.privacy.accounting.cyclic import cyclic_rounds
from tacit.privacy.accounting.releases import Releases, noise_multiplier_of
from tacit.privacy.accounting.zcdp import composed, gaussian_rho
from tacit.privacy.noise.kinds.base import SYSTEM_ENTROPY, MechanismKind
from tacit.privacy.noise.kinds.gaussian import IDEAL, least_gaussian_rho
from tacit.privacy.noise.strategies import BandedToeplitz, Strategy, from_description, optimised
from tacit.privacy.participation.cyclic import CYCLIC
from tacit.privacy.participation.limits import Gap
from tacit.privacy.record.records import Intent, Opened, canonical

if TYPE_CHECKING:
    from tacit.privacy.noise.mechanisms import Mechanism
    from tacit.privacy.plan import PrivacyPlan


class CorrelatedKind(MechanismKind):
    """The matrix mechanism of one kind of strategy, on users who check in."""

    proven_under: tuple[str, ...] = ("check_in",)
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
        longest = _longest_stretch(plan, rounds)
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


class BandedKind(CorrelatedKind):
    """Noise that is correlated over a few rounds: beside check-ins, on users who are drawn by cyclic Poisson sampling."""

    proven_under = (CYCLIC, "check_in")

    def build(self, plan: PrivacyPlan, rounds: int, strategy: Strategy | None) -> Mechanism:
        if plan.sampling == CYCLIC and (objection := _objection_to_band(strategy, plan.bands)) is not None:
            raise PrivacyError(f"{objection[0].upper()}{objection[1:]}.")
        return super().build(plan, rounds, strategy)

    def build_strategy(self, plan: PrivacyPlan, rounds: int) -> Strategy | None:
        """With cyclic sampling, the band with the least noise on prefix sums for the longest column of norm 1.

        z / (the norm of the longest column) is what the cost follows from, so this is the band for one participation.
        """
        if plan.sampling != CYCLIC or plan.bands is None:
            return super().build_strategy(plan, rounds)
        gap = Gap.of_index_difference(plan.bands)
        return optimised(self.name, _longest_stretch(plan, rounds), gap, 1, most_bands=plan.bands)

    def cost(self, releases: Releases) -> Cost:
        """With cyclic sampling, that of the sampled Gaussian rounds of `accounting.cyclic`."""
        if releases.opened.plan["sampling"] != CYCLIC:
            return super().cost(releases)
        opened, laws = releases.opened, {canonical(intent.sampling) for intent in releases.all}
        if not laws:
            return Cost.of_rounds([])
        if opened.strategy.get("strategy") != self.name:
            return Cost.unknown(undescribed(self.name))
        if opened.extended_from:
            return Cost.unknown("nothing is proven about extending a run with cyclic sampling")
        law, groups = releases.all[0].sampling, opened.plan.get("bands")
        if len(laws) > 1 or law.get("kind") != CYCLIC or type(groups) is not int or law.get("groups") != groups:
            return Cost.unknown("the rounds were not all drawn by the cyclic sampling of the plan")
        if (departed := releases.departure(correlated=True)) is not None:
            return Cost.unknown(departed)
        strategy = from_description(opened.strategy)
        if (objection := _objection_to_band(strategy, groups)) is not None:
            return Cost.unknown(objection)
        assert isinstance(strategy, BandedToeplitz)
        return Cost.of_rounds(
            cyclic_rounds(
                releases.all,
                releases.branches,
                strategy.coefficients,
                probability=float(law["probability"]),
                groups=groups,
                noise_multiplier=releases.noise_multiplier,
            )
        )


def _objection_to_band(strategy: Strategy | None, bands: int | None) -> str | None:
    """Why cyclic sampling in so many groups proves nothing for this strategy; None if its band is no wider than that."""
    # Its own class and no other: of a subclass or a matrix from outside, nobody knows that the entries outside are zero.
    if type(strategy) is not BandedToeplitz:
        return "cyclic sampling needs a banded strategy of Tacit's own"
    if bands is None or len(strategy.coefficients) > bands:
        return (
            f"the noise is correlated over {len(strategy.coefficients)} rounds, and cyclic sampling has {bands} groups"
        )
    return None


def _longest_stretch(plan: PrivacyPlan, rounds: int) -> int:
    return max(stop - start for start, stop in pairwise([0, *plan.restarts, rounds]))


def undescribed(mechanism: str) -> str:
    """The reason for a ledger whose first record has no strategy, or one that is not the mechanism's."""
    return f"the ledger does not describe how the noise of the mechanism {mechanism!r} is correlated"


TREE = CorrelatedKind("tree", "Gaussian noise on the nodes of a binary tree over the rounds (DP-FTRL)")
BLT = CorrelatedKind(
    "blt", "Gaussian noise correlated over the rounds by a buffered linear Toeplitz strategy (DP-FTRL)"
)
BANDED = BandedKind(
    "banded", "Gaussian noise correlated over the rounds by a banded strategy (DP-FTRL)", has_bands=True
)
