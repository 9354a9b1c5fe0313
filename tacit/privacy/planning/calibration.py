"""The noise, the rounds or the cohort that meet a privacy target.

The answer never gives less privacy than was asked for: noise is rounded up, rounds and cohorts are rounded down, and the cost
of the returned value itself was computed. The search uses a δ that is smaller by a thousandth, because a run sets that much
aside for the tail of its noise (`noise.tail`). So a run with these settings meets the target too.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

from tacit.errors import RecipeError
from tacit.privacy.accounting.library import dp_accounting
from tacit.privacy.accounting.sampled_gaussian import (
    LARGEST_FOR_PLD,
    SMALLEST_FOR_PLD,
    SampledRounds,
    dp_event,
    epsilon,
    sampled_epsilon,
)
from tacit.privacy.accounting.zcdp import epsilon_of_gaussian, gaussian_rho
from tacit.privacy.noise.multipliers import MOST_NOISE
from tacit.privacy.noise.tail import apart_from_tail
from tacit.privacy.planning.search import LEAST_SEARCHED_NOISE, TOLERANCE, largest_within

MOST_ROUNDS = 10**8
# Where the search begins.
_USUAL_NOISE = 1.0
# The relative tolerance of the first, coarse search.
_ROUGH = 0.05
# Significant digits of the noise that is found.
_DIGITS = 4
_FEW_ORDERS = (1.1, 1.25, 1.5, 1.75, 2, 2.5, 3, 4, 5, 6, 7, 8, 10, 12, 14, 16, 20, 24, 28, 32, 40, 48, 63, 128, 256)
# Steps of privacy loss distributions, to search and to verify. All give upper bounds, and coarser ones are faster. If the
# search left this much of the target unused, a finer one follows.
_COARSE, _COARSEST, _STEPS_TO_TARGET = 1e-3, 2e-3, 2_000
_FINE = 5e-4
_AS_COARSE = 1e-3
_WORTH_ANOTHER_LOOK, _CLOSER = 0.01, 2e-3

Setting = Literal["noise_multiplier", "rounds", "cohort"]


@dataclass(frozen=True)
class Calibrated:
    """A setting that meets the target, and its cost."""

    setting: Setting
    value: float
    epsilon: float
    rho: float | None
    accountant: str


def calibrate_sampled(
    target: float,
    delta: float,
    *,
    sampling: Literal["poisson", "fixed"],
    population: int,
    cohort: float | None = None,
    rounds: int | None = None,
    noise_multiplier: float | None = None,
) -> Calibrated:
    """Finds the one of cohort, rounds and noise multiplier that is None, for (target, delta)-privacy of sampled rounds.

    That is the smallest noise, the most rounds or the largest whole cohort, to about a thousandth, rounded to more privacy.
    RecipeError if nothing meets the target.
    """
    setting = _the_missing(cohort=cohort, rounds=rounds, noise_multiplier=noise_multiplier)
    within = apart_from_tail(delta)

    def training(value: float) -> list[SampledRounds]:
        users = value if cohort is None else cohort
        constants: dict[str, Any] = {"kind": sampling, "probability": users / population}
        if sampling == "fixed":
            constants = {"kind": sampling, "size": int(users), "population": population}
        z = value if noise_multiplier is None else noise_multiplier
        return [SampledRounds(constants, z, int(value) if rounds is None else rounds)]

    most = population if setting == "cohort" else MOST_ROUNDS
    # Well below the largest ε for PLD: where RDP gives more than that, the accountant does not compute PLD.
    loss_distributions = target <= LARGEST_FOR_PLD / 2
    smallest = SMALLEST_FOR_PLD * (2 if sampling == "fixed" else 1)
    loss_distributions &= noise_multiplier is None or noise_multiplier >= smallest

    def quick(value: float) -> float:
        rounds = training(value)
        return _fixed_epsilon(rounds[0], within) if sampling == "fixed" else epsilon(rounds, within, "rdp")

    def coarse(value: float) -> float:
        step = min(max(target / _STEPS_TO_TARGET, _COARSE), _COARSEST)
        return epsilon(training(value), within, "pld", discretization=step)

    def spent(value: float) -> tuple[float, str]:
        return sampled_epsilon(training(value), within, discretization=_FINE)

    found = _search(setting, quick, target, most, tolerance=_ROUGH if loss_distributions else TOLERANCE)
    if loss_distributions and found != most:
        # Never far beyond the target: privacy loss distributions of large losses are slow to compute.
        start = found or (MOST_NOISE if setting == "noise_multiplier" else 1)
        tighter = _search(setting, coarse, target, most, least_noise=smallest, start=start, tolerance=_AS_COARSE)
        found = _less_private(setting, found, tighter)
    if found is None:
        raise RecipeError(_unreachable(setting, f"epsilon {target:g} at delta {delta:g}"))
    value, (cost, accountant) = _verified(setting, found, target, spent)
    if cost < target * (1 - _WORTH_ANOTHER_LOOK):
        closer = _search(setting, lambda value: spent(value)[0], target, most, start=value, tolerance=_CLOSER)
        value, (cost, accountant) = _verified(setting, _less_private(setting, value, closer) or value, target, spent)
    return Calibrated(setting, value, cost, None, accountant)


def calibrate_unsampled(
    sensitivity_squared: Callable[[int], float],
    delta: float,
    *,
    epsilon: float | None = None,
    rho: float | None = None,
    rounds: int | None = None,
    noise_multiplier: float | None = None,
    most_rounds: int = MOST_ROUNDS,
) -> Calibrated:
    """Finds the one of rounds and noise multiplier that is None, for a target ε or ρ of Gaussian noise without sampling.

    `sensitivity_squared` gives the squared sensitivity of all releases of so many rounds, in units of the clip, for any
    factorisation. It must not decrease with more rounds. RecipeError if nothing meets the target, or if even `most_rounds`
    rounds do.
    """
    setting = _the_missing(rounds=rounds, noise_multiplier=noise_multiplier)
    within = apart_from_tail(delta)
    aim = f"rho {rho:g}" if epsilon is None else f"epsilon {epsilon:g} at delta {delta:g}"
    if epsilon is not None:
        rho = largest_within(lambda rho: epsilon_of_gaussian(rho, within), epsilon, 1e-12, 1e9, tolerance=1e-9)
    if rho is None:
        raise RecipeError(f"No noise multiplier reaches {aim}: the target is too small.")
    squared = None if rounds is None else sensitivity_squared(rounds)

    def cost(value: float) -> tuple[float, str]:
        if noise_multiplier is not None:
            return gaussian_rho(noise_multiplier, sensitivity_squared(int(value))), ""
        return gaussian_rho(value, squared or 0.0), ""

    found: float | None
    if squared is not None:  # ρ = Δ² / (2 z²)
        found = max(math.sqrt(squared / (2 * rho)), LEAST_SEARCHED_NOISE)
        found = None if found > MOST_NOISE else found
    else:
        found = _search(setting, lambda value: cost(value)[0], rho, most_rounds)
        if found == most_rounds:
            raise RecipeError(f"{most_rounds} rounds and more meet {aim}: expected a target that sets a limit.")
    if found is None:
        raise RecipeError(_unreachable(setting, aim))
    value, (spent, _) = _verified(setting, found, rho, cost)
    return Calibrated(setting, value, epsilon_of_gaussian(spent, within), spent, "zCDP, exact Gaussian curve")


def _fixed_epsilon(rounds: SampledRounds, delta: float) -> float:
    """An upper bound on ε of fixed-size rounds, mostly equal to the accountant's: fewer orders are eight times faster."""
    library = dp_accounting()
    accountant = library.rdp.RdpAccountant(
        orders=_FEW_ORDERS, neighboring_relation=library.NeighboringRelation.REPLACE_ONE
    )
    return float(accountant.compose(dp_event(rounds)).get_epsilon(float(delta)))


def _the_missing(**settings: float | None) -> Setting:
    missing = [name for name, value in settings.items() if value is None]
    if len(missing) != 1:
        raise ValueError(f"expected exactly one of {', '.join(settings)} to be None, got {missing}")
    return missing[0]  # type: ignore[return-value]


def _search(
    setting: Setting,
    cost: Callable[[float], float],
    target: float,
    most: int,
    *,
    least_noise: float = LEAST_SEARCHED_NOISE,
    start: float | None = None,
    tolerance: float = TOLERANCE,
) -> float | None:
    """The value that uses as much of the target as possible without exceeding it; None if every value exceeds it."""
    if setting != "noise_multiplier":
        return largest_within(cost, target, 1, most, whole=True, start=start, tolerance=tolerance)
    # More noise costs less: what is searched is its reciprocal.
    x = largest_within(
        lambda x: cost(1 / x),
        target,
        1 / MOST_NOISE,
        1 / least_noise,
        start=1 / (start or _USUAL_NOISE),
        tolerance=tolerance,
    )
    return None if x is None else 1 / x


def _less_private(setting: Setting, one: float | None, other: float | None) -> float | None:
    """The one of two values, both within the target, that leaves less of it unused."""
    found = [value for value in (one, other) if value is not None]
    if not found:
        return None
    return min(found) if setting == "noise_multiplier" else max(found)


def _verified(
    setting: Setting, found: float, target: float, spent: Callable[[float], tuple[float, str]]
) -> tuple[float, tuple[float, str]]:
    """A value near the one found, with few digits, whose cost is within the target; and that cost."""
    noise = setting == "noise_multiplier"
    value = rounded_up(found) if noise else math.floor(found)
    answer = spent(value)
    step = 10.0**-_DIGITS
    while answer[0] > target:
        value = rounded_up(value * (1 + step)) if noise else min(math.floor(value * (1 - step)), value - 1)
        if value > MOST_NOISE if noise else value < 1:
            raise RecipeError(_unreachable(setting, f"the target of {target:g}"))
        answer, step = spent(value), 2 * step
    return value, answer


def rounded_up(value: float) -> float:
    """To so many significant digits, never below the value."""
    unit = 10.0 ** (_DIGITS - 1 - math.floor(math.log10(value)))
    up = math.ceil(value * unit * (1 - TOLERANCE * 1e-6)) / unit
    return up if up >= value else math.nextafter(value, math.inf)


def _unreachable(setting: Setting, aim: str) -> str:
    if setting == "noise_multiplier":
        return f"No noise multiplier up to {MOST_NOISE:g} reaches {aim}: ask for more, train less, or draw fewer users."
    what = "a single round" if setting == "rounds" else "a cohort of a single user"
    return f"Not even {what} reaches {aim} with this noise multiplier: raise it, or the target."
