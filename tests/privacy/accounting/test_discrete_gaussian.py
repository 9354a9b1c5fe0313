"""What devices' summed noise costs, against the exact laws computed by convolution."""

from __future__ import annotations

import math

import numpy as np
import pytest

from tacit.errors import PrivacyError
from tacit.privacy.accounting.discrete_gaussian import local_variance_for, rho, ripple

REACH = 60


def law(variance: float) -> np.ndarray:
    values = np.arange(-REACH, REACH + 1)
    weights = np.exp(-(values.astype(float) ** 2) / (2 * variance))
    return weights / weights.sum()


def summed(variance: float, devices: int) -> np.ndarray:
    total = law(variance)
    for _ in range(devices - 1):
        total = np.convolve(total, law(variance), mode="same")
    return total


@pytest.mark.parametrize("variance", [0.3, 0.5, 1])
@pytest.mark.parametrize("devices", [2, 3, 6])
def test_the_ripple_bounds_the_exact_difference_and_is_near_it(variance, devices):
    exact, near = summed(variance, devices), law(variance * devices)
    middle = slice(REACH - 8, REACH + 9)  # where float64 still resolves the tail
    ratio = np.log(exact[middle] / near[middle])
    spread = ratio.max() - ratio.min()
    bound = ripple(variance, devices)
    assert spread <= bound
    if devices == 2:  # one step: the bound is what happens
        assert spread > 0.9 * bound


@pytest.mark.parametrize("variance", [0.2, 0.3, 1])
def test_the_ripple_counts_every_term_of_the_series(variance):
    """Two devices: log((1 + 2η)/(1 - 2η)) with the whole series η = Σ q^(j²); rounded up, never down."""
    q = math.exp(-(math.pi**2) * variance)
    eta = sum(q ** (j * j) for j in range(1, 30))
    whole = math.log((1 + 2 * eta) / (1 - 2 * eta))
    assert whole <= ripple(variance, 2) <= whole * (1 + 1e-6)


@pytest.mark.parametrize("variance", [0.3, 1])
@pytest.mark.parametrize("devices", [1, 2, 5])
def test_the_cost_bounds_the_exact_divergence(variance, devices):
    """Rényi divergences of the exact law, at many orders and shifts; fractional variances make the ripple matter."""
    exact = summed(variance, devices)
    for shift in (1, 2, 3):
        for order in (1.01, 1.5, 2.0, 4.0, 8.0):
            p, q = exact[shift:], exact[: len(exact) - shift]
            kept = (p > 1e-290) & (q > 1e-290)
            logs = order * np.log(p[kept]) + (1 - order) * np.log(q[kept])
            divergence = np.log(np.exp(logs - logs.max()).sum()) + logs.max()
            divergence /= order - 1
            variances = {"local_variance": variance, "devices": devices, "dimension": 1}
            bound = _first(shift**2, **variances)
            assert divergence <= order * bound * (1 + 1e-9)


def _first(sensitivity_squared, *, local_variance, devices, dimension):
    """`rho` asks for a whole variance ≥ 1; below that the formula is its own."""
    if local_variance >= 1:
        return rho(sensitivity_squared, local_variance=local_variance, devices=devices, dimension=dimension)
    base, extra = sensitivity_squared / (2 * local_variance * devices), ripple(local_variance, devices)
    return min(base + extra, (math.sqrt(2 * base) + 2 * extra) ** 2 / 2)


def test_with_a_variance_of_four_the_sum_costs_what_one_gaussian_does():
    cost = rho(1e6, local_variance=4, devices=1000, dimension=1_310_720)
    gaussian = 1e6 / (2 * 4 * 1000)
    assert gaussian <= cost <= gaussian * (1 + 1e-9)


def test_a_small_variance_on_many_entries_costs_more():
    gaussian = 1e6 / (2 * 1000)
    cost = rho(1e6, local_variance=1, devices=1000, dimension=1_310_720)
    assert cost > gaussian * 1.01
    assert rho(1e6, local_variance=1, devices=1000, dimension=10) < cost
    # No more entries can move than whole numbers of this norm allow.
    assert rho(9.0, local_variance=1, devices=50, dimension=9) == rho(
        9.0, local_variance=1, devices=50, dimension=10**6
    )


def test_losses_cost():
    costs = [rho(100.0, local_variance=4, devices=devices, dimension=100) for devices in (100, 70, 1)]
    assert costs == sorted(costs)
    assert costs[1] == pytest.approx(costs[0] / 0.7)


def test_limits():
    assert rho(0, local_variance=0, devices=0, dimension=1) == 0
    assert rho(1, local_variance=0, devices=5, dimension=1) == math.inf
    assert rho(1, local_variance=4, devices=0, dimension=1) == math.inf
    assert ripple(1, 1) == 0


@pytest.mark.parametrize("target", [1e-4, 0.03, 2.0])
def test_the_variance_found_is_the_smallest_that_does(target):
    asked = {"devices": 70, "dimension": 1000}
    found = local_variance_for(target, 5000.0, **asked)
    assert rho(5000.0, local_variance=found, **asked) <= target
    assert rho(5000.0, local_variance=found - 1, **asked) > target


def test_what_cannot_be_is_refused():
    with pytest.raises(PrivacyError, match="target ρ > 0, got 0"):
        local_variance_for(0, 1.0, devices=5, dimension=1)
    with pytest.raises(PrivacyError, match="at least 1 device with noise, got 0"):
        local_variance_for(1, 1.0, devices=0, dimension=1)
