"""Mechanisms side by side: what a unit of noise costs one user, and how far it moves the model.

A mechanism that adds noise of multiplier z to report goals of m users is weighed by two figures.

- **ρ = Δ² / (2 z²)**, where Δ² is its squared sensitivity under MinS and MaxP (`tacit.privacy.accounting`).
- **The prefix error z · e / m.** After t rounds the model has moved along the sum of t mean updates; e is the standard
  deviation of the noise in that running sum, for z = 1, as a root mean square over t = 1 .. T. So the prefix error is in
  units of the clip, and two mechanisms with the same prefix error disturb training about equally. It is a proxy for accuracy,
  not exact for any optimizer; within one mechanism it is proportional to the noise on the mean, z / m.

Noise multipliers of different mechanisms cannot be compared directly. A tree adds noise of multiplier z to every node, and a
running sum contains few nodes; independent noise of the same z accumulates in the running sum round after round.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from tacit.privacy.accounting import gaussian
from tacit.privacy.accounting.sampled_gaussian import SampledRounds, epsilon
from tacit.privacy.accounting.zcdp import epsilon_of_gaussian, gaussian_rho
from tacit.privacy.noise.kinds import KINDS
from tacit.privacy.noise.multipliers import MOST_NOISE
from tacit.privacy.noise.strategies import optimised
from tacit.privacy.participation.limits import Gap
from tacit.privacy.planning.search import LEAST_SEARCHED_NOISE, largest_within

# Steps of privacy loss: a thousandth of epsilon, between these. Finer ones take longer and hardly change a table.
_FINEST, _COARSEST = 1e-3, 1e-2
# With little noise the loss of one round reaches 1/z², so steps grow with 1/z², and their number stays the same.
_STEP_OF_REACH = 1e-3
_LEAST_RHO, _MOST_RHO = 1e-15, 1e12


@dataclass(frozen=True)
class PlannedCost:
    """For z = 1: the squared sensitivity of all rounds in clips, and the root-mean-square noise in running sums."""

    sensitivity_squared: float
    prefix_rmse: float


def _gaussian(rounds: int, gap: Gap, max_participation: int) -> PlannedCost:
    return PlannedCost(gaussian.sensitivity_squared(rounds, gap, max_participation), independent_prefix_rmse(rounds))


def _strategy(name: str, rounds: int, gap: Gap, max_participation: int) -> PlannedCost:
    """The cost of the strategy that is fitted to these rounds and limits."""
    strategy = optimised(name, rounds, gap, max_participation)
    return PlannedCost(strategy.sensitivity(rounds, gap, max_participation).squared, strategy.prefix_rmse(rounds))


# Tacit's own mechanisms without sampling, by name.
MECHANISMS: dict[str, Callable[[int, Gap, int], PlannedCost]] = {
    **{kind.name: partial(_strategy, kind.name) for kind in KINDS.own.values() if kind.correlated},
    "gaussian": _gaussian,
}


def independent_prefix_rmse(rounds: int) -> float:
    """The prefix error of independent noise: the running sum after t rounds contains t draws."""
    return math.sqrt((rounds + 1) / 2)


def rho_of_epsilon(target: float, delta: float) -> float:
    """The largest ρ, to 9 digits and never above it, whose Gaussian curve stays at or below ε at this δ.

    Zero if even the smallest ρ that floating point can represent here is too large.
    """
    found = largest_within(
        lambda rho: epsilon_of_gaussian(rho, delta), target, _LEAST_RHO, _MOST_RHO, start=1.0, tolerance=1e-9
    )
    return 0.0 if found is None else found


def noise_for_rho(rho: float, sensitivity_squared: float) -> float:
    """The least noise multiplier whose ρ is at most this one."""
    z = math.sqrt(sensitivity_squared / (2 * rho))
    while gaussian_rho(z, sensitivity_squared) > rho:
        z = math.nextafter(z, math.inf)
    return z


def poisson_epsilon(probability: float, noise_multiplier: float, rounds: int, delta: float) -> float:
    """ε of Poisson-sampled Gaussian rounds, by privacy loss distributions that are only as fine as a table needs.

    A coarser distribution rounds losses up, so ε stays an upper bound. With hardly any noise, ε is that of the same rounds
    without sampling, which is never smaller.
    """
    if noise_multiplier < LEAST_SEARCHED_NOISE:
        return epsilon_of_gaussian(gaussian_rho(noise_multiplier, rounds), delta)
    training = [SampledRounds({"kind": "poisson", "probability": probability}, noise_multiplier, rounds)]
    coarsest = max(_COARSEST, _STEP_OF_REACH / noise_multiplier**2)
    coarse = epsilon(training, delta, "pld", discretization=coarsest)
    finer = max(_FINEST, coarse / 1000)
    return coarse if finer >= _COARSEST else min(coarse, epsilon(training, delta, "pld", discretization=finer))


def poisson_noise(probability: float, rounds: int, target: float, delta: float) -> float:
    """A noise multiplier at which Poisson-sampled rounds stay at or below the target ε, within 0.1% of the least.

    Infinite where more than `MOST_NOISE` would be needed.
    """
    inverse = largest_within(
        lambda inverse: poisson_epsilon(probability, 1 / inverse, rounds, delta),
        target,
        1 / MOST_NOISE,
        1 / LEAST_SEARCHED_NOISE,
        start=1.0,
        tolerance=1e-3,
    )
    return math.inf if inverse is None else 1 / inverse
