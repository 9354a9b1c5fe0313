"""The noise of banded, cyclically sampled rounds: the least for a target epsilon, and how far it moves the model."""

from __future__ import annotations

import math

from tacit.errors import RecipeError
from tacit.privacy.accounting.cyclic import cyclic_rounds
from tacit.privacy.accounting.releases import branches_of
from tacit.privacy.accounting.sampled_gaussian import SampledRounds, epsilon, sampled_epsilon
from tacit.privacy.noise.multipliers import MOST_NOISE
from tacit.privacy.noise.strategies import BandedToeplitz
from tacit.privacy.noise.tail import apart_from_tail
from tacit.privacy.plan import PrivacyPlan
from tacit.privacy.planning.calibration import rounded_up
from tacit.privacy.planning.search import LEAST_SEARCHED_NOISE, largest_within
from tacit.privacy.record.planned import planned_intents

# Steps of privacy loss while searching; what is found is checked with the usual ones.
_COARSE = 1e-3


def calibrate_cyclic(target: float, plan: PrivacyPlan, rounds: int) -> float:
    """The least noise multiplier, rounded up to four digits, at which `rounds` rounds cost at most `target` at the plan's δ.

    RecipeError if none does.
    """
    strategy = plan.build_strategy(rounds)
    assert isinstance(strategy, BandedToeplitz)
    within, unit = apart_from_tail(plan.delta), rounds_for_unit_noise(plan, strategy, rounds)

    def exposed(noise: float) -> list[SampledRounds]:
        return [SampledRounds(each.sampling, noise * each.noise_multiplier, each.count) for each in unit]

    def quick(inverse: float) -> float:
        return sampled_epsilon(exposed(1 / inverse), within, discretization=_COARSE)[0]

    by_rdp = largest_within(
        lambda inverse: epsilon(exposed(1 / inverse), within, "rdp"),
        target,
        1 / MOST_NOISE,
        1 / LEAST_SEARCHED_NOISE,
        start=1.0,
    )
    start = 1 / MOST_NOISE if by_rdp is None else by_rdp
    found = largest_within(quick, target, 1 / MOST_NOISE, 1 / LEAST_SEARCHED_NOISE, start=start)
    noise = math.inf if found is None else rounded_up(1 / found)
    if not noise <= MOST_NOISE or sampled_epsilon(exposed(noise), within)[0] > target:
        raise RecipeError(
            f"No noise multiplier up to {MOST_NOISE:g} reaches epsilon {target:g} at delta {plan.delta:g}."
        )
    return noise


def rounds_for_unit_noise(plan: PrivacyPlan, strategy: BandedToeplitz, rounds: int) -> list[SampledRounds]:
    """The sampled rounds that a user is exposed to in so many rounds of the plan, for the noise multiplier 1."""
    intents = planned_intents(plan, rounds)
    return cyclic_rounds(
        intents,
        branches_of(intents),
        strategy.coefficients,
        probability=plan.group_probability,
        groups=plan.bands or 1,
        noise_multiplier=1.0,
    )
