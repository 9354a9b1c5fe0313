"""ρ, and what it stands for."""

from __future__ import annotations

import math

import pytest
from scipy.stats import norm

from tacit.privacy.accounting.zcdp import epsilon_of_any, epsilon_of_gaussian, gaussian_rho


def gaussian_delta(rho: float, epsilon: float) -> float:
    """Balle and Wang 2018, Theorem 8, for sensitivity over scale √(2ρ)."""
    mu = math.sqrt(2 * rho)
    return float(norm.cdf(mu / 2 - epsilon / mu) - math.exp(epsilon) * norm.cdf(-mu / 2 - epsilon / mu))


@pytest.mark.parametrize("rho", [1e-4, 0.03, 0.5, 4.0, 30.0])
@pytest.mark.parametrize("delta", [1e-10, 1e-5, 1e-2])
def test_the_gaussian_curve_is_exact_and_an_upper_bound(rho: float, delta: float) -> None:
    epsilon = epsilon_of_gaussian(rho, delta)
    assert gaussian_delta(rho, epsilon) <= delta
    if epsilon > 0:
        assert gaussian_delta(rho, epsilon * (1 - 1e-6)) > delta
    else:
        assert gaussian_delta(rho, 0.0) <= delta


@pytest.mark.parametrize("rho", [1e-6, 0.03, 0.5, 4.0, 1e5])
@pytest.mark.parametrize("delta", [1e-10, 1e-2])
def test_what_holds_for_any_mechanism_is_no_less_and_beats_the_textbook(rho: float, delta: float) -> None:
    epsilon = epsilon_of_any(rho, delta)
    textbook = rho + 2 * math.sqrt(rho * math.log(1 / delta))  # Bun and Steinke 2016, Proposition 1.3
    assert epsilon_of_gaussian(rho, delta) <= epsilon <= textbook


def test_limits() -> None:
    for convert in (epsilon_of_gaussian, epsilon_of_any):
        assert convert(0.0, 1e-6) == 0
        assert convert(math.inf, 1e-6) == math.inf
        assert convert(1e-12, 0.1) == 0
    assert gaussian_rho(0.0) == math.inf
    assert gaussian_rho(0.0, 0) == 0
    assert gaussian_rho(7.0, 47) == pytest.approx(47 / 98)
