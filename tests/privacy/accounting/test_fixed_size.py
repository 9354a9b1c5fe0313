"""Fixed-size rounds: the loss distribution is never below what neighbours really cost, computed without it.

Every neighbouring pair is taken in units of the clip, with noise z: the sum of a cohort of m out of n users is a mixture of
Gaussians over all cohorts, whose means depend on the others' contributions, which are anywhere in [−1, 1].
"""

from __future__ import annotations

import itertools
import math
from functools import cache

import numpy as np
import pytest
from dp_accounting import NeighboringRelation
from dp_accounting.rdp import RdpAccountant
from dp_accounting.rdp.rdp_privacy_accountant import compute_epsilon
from numpy.typing import NDArray
from scipy import signal
from scipy.integrate import simpson
from scipy.stats import norm

from tacit.privacy.accounting.fixed_size import curve, loss_distribution, renyi_divergences
from tacit.privacy.accounting.sampled_gaussian import SampledRounds, dp_event, epsilon, sampled_epsilon

Array = NDArray[np.float64]

EPSILONS = np.array([-3.0, -1.0, -0.3, -0.05, 0.0, 0.05, 0.3, 1.0, 3.0])
OTHERS = {
    "all below": lambda count: [-1.0] * count,
    "all above": lambda count: [1.0] * count,
    "at zero": lambda count: [0.0] * count,
    "half and half": lambda count: [(-1.0) ** place for place in range(count)],
    "spread": lambda count: list(np.linspace(-1, 1, count)) if count > 1 else [0.5] * count,
}
ONES = [(1.0, -1.0), (-1.0, 1.0), (1.0, 0.0), (0.3, -1.0)]


def release(one: float, others: list[float], size: int, z: float, at: Array) -> Array:
    """The density of a round's release at these points, over all cohorts of this size."""
    sums = [sum(cohort) for cohort in itertools.combinations([one, *others], size)]
    return np.asarray(np.mean([norm.pdf(at, total, z) for total in sums], axis=0))


def points(z: float, size: int) -> Array:
    return np.linspace(-size - 14 * z, size + 14 * z, 40_001)


# Of the sums that stand for integrals here: at most the square of a grid's width, 1e-3.
INTEGRATION = 1e-6


def hockey_stick(upper: Array, lower: Array, epsilons: Array, width: float) -> Array:
    """∫ (upper − e^ε lower)₊ on a grid, for each ε."""
    return np.array([np.maximum(upper - math.exp(each) * lower, 0).sum() * width for each in epsilons])


@cache
def discrete_bound(share: float, z: float) -> Array:
    """δ of the discrete pair at each of EPSILONS, computed once for all neighbours."""
    return np.asarray(loss_distribution(share, z, 1e-3).get_delta_for_epsilon(EPSILONS))


@pytest.mark.parametrize("others", OTHERS)
@pytest.mark.parametrize("ones", ONES)
@pytest.mark.parametrize(("population", "size"), [(2, 1), (3, 1), (4, 2), (5, 3), (6, 2), (6, 6)])
def test_no_neighbours_cost_more_than_the_curve_of_one_round(
    population: int, size: int, ones: tuple[float, float], others: str
) -> None:
    """Any order α, those below 1 too, and neighbours in either order (the pairs of ONES with places changed)."""
    for z in (0.7, 2.0):
        at, rest = points(z, size), OTHERS[others](population - 1)
        width = at[1] - at[0]
        one, other = (release(each, rest, size, z, at) for each in ones)
        cost = hockey_stick(one, other, EPSILONS, width)
        bound = curve(EPSILONS, size / population, z)
        assert (cost <= bound + INTEGRATION).all()
        assert (cost <= discrete_bound(size / population, z) + INTEGRATION).all()


@pytest.mark.parametrize(("population", "size"), [(3, 1), (6, 2), (6, 6)])
def test_both_branches_of_the_curve_are_attained(population: int, size: int) -> None:
    """Others all below, one user above: the upper branch. Others all above, one below: the lower. So f cannot be smaller."""
    z = 1.5
    at = points(z, size)
    width, bound = at[1] - at[0], curve(EPSILONS, size / population, z)
    for rest, branch in ((-1.0, EPSILONS >= 0), (1.0, EPSILONS <= 0)):
        one, other = (release(each, [rest] * (population - 1), size, z, at) for each in (1.0, -1.0))
        assert hockey_stick(one, other, EPSILONS, width)[branch] == pytest.approx(bound[branch], rel=1e-6)


def pair(one: float, other: float, rest: float, q: float, z: float) -> tuple[Array, Array, float]:
    """A round whose other users all give `rest`, as densities of the user's effect on the sum."""
    at = np.linspace(-2 - 12 * z, 2 + 12 * z, 10_001)
    densities = [(1 - q) * norm.pdf(at, 0, z) + q * norm.pdf(at, each - rest, z) for each in (one, other)]
    return densities[0], densities[1], float(at[1] - at[0])


@pytest.mark.parametrize(("q", "z"), [(0.1, 1.0), (0.3, 2.0), (0.5, 0.8)])
def test_two_rounds_cost_no_more_whatever_the_others_do_in_each(q: float, z: float) -> None:
    """Integrated over the plane, for all combinations of what the others do, so that losses of both signs meet."""
    rounds = [SampledRounds({"kind": "fixed", "size": round(q * 10), "population": 10}, z, 2)]
    composed = loss_distribution(q, z, 1e-3).self_compose(2)
    ways = [(1.0, -1.0, -1.0), (1.0, -1.0, 1.0), (1.0, -1.0, 0.0), (1.0, 0.0, -1.0)]
    for first, second in itertools.combinations_with_replacement(ways, 2):
        for value in (0.0, 0.2, 1.0, 2.5):
            cost = in_the_plane(pair(*first, q, z), pair(*second, q, z), value)
            assert cost <= composed.get_delta_for_epsilon(value) + INTEGRATION
            if value == 1.0:  # at the attack's own δ, ε is not below the attack's
                assert epsilon(rounds, cost - INTEGRATION, "pld", discretization=1e-2) >= value


def in_the_plane(one: tuple[Array, Array, float], other: tuple[Array, Array, float], value: float) -> float:
    """∫∫ (p₁ p₂ − e^ε q₁ q₂)₊ as ∫ p₁ H_α, where H_α is the second round's divergence at α = e^ε q₁ / p₁."""
    (p1, q1, width1), (p2, q2, width2) = one, other
    order = np.argsort(q2 / p2)  # falling p₂ / q₂
    cumulated = [np.concatenate([[0.0], np.cumsum(each[order]) * width2]) for each in (p2, q2)]
    alpha = math.exp(value) * q1 / p1
    place = np.searchsorted((q2 / p2)[order], 1 / alpha)
    return float((p1 * (cumulated[0][place] - alpha * cumulated[1][place])).sum() * width1)


def losses(upper: Array, lower: Array, width: float, step: float) -> tuple[Array, float]:
    """The law of log(upper/lower) under upper, rounded down to multiples of the step: a lower bound of its cost."""
    keep = upper * width > 1e-18
    cells = np.floor(np.log(upper[keep] / lower[keep]) / step).astype(int)
    law = np.bincount(cells - cells.min(), weights=upper[keep] * width)
    return law, cells.min() * step


@pytest.mark.parametrize(("q", "z", "rounds"), [(0.02, 1.0, 60), (0.2, 3.0, 40), (0.5, 6.0, 50)])
def test_many_rounds_cost_no_more_whatever_the_others_do_in_each(q: float, z: float, rounds: int) -> None:
    """Part of the rounds with all others below, part with all above: losses convolved directly, rounded down."""
    composed, step = loss_distribution(q, z, 1e-3).self_compose(rounds), 2e-3
    highest = 0.0
    for below in (0, rounds // 4, rounds // 2, rounds):
        law, lowest = np.ones(1), 0.0
        for rest, count in ((-1.0, below), (1.0, rounds - below)):
            once, least = losses(*pair(1.0, -1.0, rest, q, z), step)
            for _ in range(count):
                law, lowest = signal.fftconvolve(law, once), lowest + least
        values = lowest + step * np.arange(law.size)
        for value in (0.1, 0.5, 1.5):
            cost = float(-np.expm1(value - values[values > value]) @ law[values > value])
            assert cost <= composed.get_delta_for_epsilon(value) + 1e-9
            highest = max(highest, cost / float(composed.get_delta_for_epsilon(value)))
    assert highest > 0.4  # the attacks come near the bound


def test_the_upper_branch_alone_would_not_be_a_bound() -> None:
    """A composition of the pair that attains the upper branch is below the composed curve f: the lower one counts."""
    from dp_accounting.pld import privacy_loss_distribution as library

    one_sided = library.from_gaussian_mechanism(0.5, sampling_prob=0.2, value_discretization_interval=1e-3)
    both = loss_distribution(0.2, 1.0, 1e-3)
    assert both.get_delta_for_epsilon(0.5) == pytest.approx(one_sided.get_delta_for_epsilon(0.5), rel=1e-5)
    ten = [each.self_compose(10).get_delta_for_epsilon(2.0) for each in (both, one_sided)]
    assert ten[0] > 1.05 * ten[1]


@pytest.mark.parametrize(("q", "z"), [(1.0, 2.0), (0.3, 0.5), (1e-3, 1.0), (1e-6, 30.0), (0.5, 1000.0)])
def test_the_discrete_pair_lies_above_the_curve_and_near_it(q: float, z: float) -> None:
    step = 1e-4
    epsilons = np.concatenate([-np.geomspace(1e-6, 5, 60)[::-1], [0.0], np.geomspace(1e-6, 5, 60)])
    bound, exact = loss_distribution(q, z, step).get_delta_for_epsilon(epsilons), curve(epsilons, q, z)
    assert (bound >= exact * (1 - 1e-9) - 1e-20).all()
    assert (bound <= exact + min(q, step)).all()


@pytest.mark.parametrize(("q", "z"), [(0.005, 0.8), (0.2, 1.5), (0.5, 6.0), (1e-4, 1.0), (1e-3, 40.0)])
def test_renyi_divergences_are_those_of_the_pair(q: float, z: float) -> None:
    """Against integrals of both halves by another rule, and below Wang et al.'s bound."""
    orders = np.array([1.2, 1.5, 2.0, 2.7, 4.0, 9.0])
    found = renyi_divergences(q, z, orders)
    distance = 2 / z
    atom = (1 - q) * (1 - 2 * norm.cdf(-distance / 2))
    for order, value in zip(orders, found, strict=True):
        at = np.linspace(distance / 2, distance * order + 14, 400_001)
        loss = np.logaddexp(math.log1p(-q), math.log(q) + distance * at - distance**2 / 2)
        halves = np.exp(norm.logpdf(at) + order * loss) + np.exp(norm.logpdf(at) + (1 - order) * loss)
        moment = float(simpson(halves, x=at)) + atom
        assert math.log(moment) / (order - 1) == pytest.approx(value, rel=1e-7, abs=1e-13 / (order - 1))
    rounds = [SampledRounds({"kind": "fixed", "size": round(q * 10_000), "population": 10_000}, z, 1)]
    accountant = RdpAccountant([float(order) for order in orders], NeighboringRelation.REPLACE_ONE)
    assert (found <= accountant.compose(dp_event(rounds[0])).rdp * (1 + 1e-7)).all()


@pytest.mark.parametrize("others", OTHERS)
@pytest.mark.parametrize("ones", ONES)
def test_no_neighbours_have_larger_renyi_divergences(ones: tuple[float, float], others: str) -> None:
    for population, size, z in ((3, 1, 0.8), (5, 2, 1.5), (6, 5, 3.0)):
        at = points(z, size)
        one, other = (release(each, OTHERS[others](population - 1), size, z, at) for each in ones)
        for order in (1.3, 2.0, 5.0):
            moment = float((one**order * other ** (1 - order)).sum() * (at[1] - at[0]))
            bound = renyi_divergences(size / population, z, np.array([order]))[0]
            assert math.log(moment) / (order - 1) <= bound * (1 + 1e-9) + 1e-12


def test_renyi_divergences_bound_the_same_cost_as_the_loss_distribution() -> None:
    """The best order's conversion is above the composed distribution's ε, by less than a fifth."""
    orders = np.concatenate([np.linspace(1.05, 10, 180), np.arange(11.0, 64)])
    for q, z, count in ((0.005, 0.8, 2000), (0.01, 2.0, 1000), (0.1, 4.0, 50)):
        found, _ = compute_epsilon(orders, count * renyi_divergences(q, z, orders), 1e-6)
        exact = loss_distribution(q, z, 1e-3).self_compose(count).get_epsilon_for_delta(1e-6)
        assert exact < found < 1.2 * exact


def test_everybody_drawn_is_a_gaussian_of_half_the_noise() -> None:
    for z, rounds in ((2.0, 1), (200.0, 10**4), (2000.0, 10**6)):
        distance = 2 * math.sqrt(rounds) / z
        composed = loss_distribution(1.0, z, 1e-4).self_compose(rounds)
        for value in (0.5, 2.0, 5.0, 8.0):
            exact = norm.cdf(distance / 2 - value / distance) - math.exp(
                value + norm.logcdf(-distance / 2 - value / distance)
            )
            found = composed.get_delta_for_epsilon(value)
            # Rounding errors grow with the rounds: `epsilon` takes them off its δ.
            assert exact - 2e-17 * rounds - 1e-14 <= found <= exact * (1 + 3e-8 * rounds) + 1e-16 * rounds + 1e-14


PAPERS = {  # population, cohort, noise multiplier, rounds, δ
    "Production": (4_000_000, 20_000, 0.8, 2_000, 1 / 4e6**1.1),
}


def test_production_costs_half_of_what_renyi_divergences_say() -> None:
    """With 2S, as replacing one user needs: 66.5 by RDP. The pair of the upper branch alone would say 29.5."""
    population, size, z, count, delta = PAPERS["Production"]
    rounds = [SampledRounds({"kind": "fixed", "size": size, "population": population}, z, count)]
    assert epsilon(rounds, delta, "rdp") == pytest.approx(66.5, abs=0.1)
    fine, accountant = sampled_epsilon(rounds, delta)
    assert (fine, accountant) == (pytest.approx(31.66, abs=0.01), "pld")
    assert fine <= epsilon(rounds, delta, "pld", discretization=1e-3) < 31.7


def test_loss_distributions_serve_where_renyi_divergences_are_many_times_larger() -> None:
    """And are left alone where the losses themselves are large."""
    rounds = [SampledRounds({"kind": "fixed", "size": 10, "population": 1000}, 0.5, 300)]
    found, accountant = sampled_epsilon(rounds, 1e-6, discretization=1e-2)
    assert epsilon(rounds, 1e-6, "rdp") > 2000
    assert (found, accountant) == (pytest.approx(78.1, abs=0.2), "pld")
    everybody = [SampledRounds({"kind": "fixed", "size": 1000, "population": 1000}, 0.5, 10**6)]
    assert sampled_epsilon(everybody, 1e-6)[1] == "rdp"


def test_a_delta_below_the_rounding_errors_has_no_finite_loss_distribution() -> None:
    rounds = [SampledRounds({"kind": "fixed", "size": 1, "population": 1000}, 50.0, 10**6)]
    assert epsilon(rounds, 5e-11, "pld", discretization=1e-3) == math.inf
    assert sampled_epsilon(rounds, 5e-11)[1] == "rdp"
