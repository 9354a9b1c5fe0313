"""Mechanisms side by side: the figures per unit of noise, and the noise a target needs, never a hair too little."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tacit.privacy.accounting import tree
from tacit.privacy.accounting.sampled_gaussian import SampledRounds, epsilon
from tacit.privacy.accounting.zcdp import epsilon_of_gaussian, gaussian_rho
from tacit.privacy.participation.limits import Gap
from tacit.privacy.planning.costs import (
    MECHANISMS,
    independent_prefix_rmse,
    noise_for_rho,
    poisson_epsilon,
    poisson_noise,
    rho_of_epsilon,
)


def test_fresh_noise_piles_up_in_running_sums() -> None:
    running_sums = np.tril(np.ones((13, 13)))  # each row holds the rounds so far
    assert independent_prefix_rmse(13) == pytest.approx(math.sqrt((running_sums**2).sum(axis=1).mean()))
    assert independent_prefix_rmse(1) == 1


def test_every_mechanism_knows_its_sensitivity_and_error() -> None:
    gap = Gap(49)
    costs = {name: find(200, gap, 4) for name, find in MECHANISMS.items()}
    assert costs["tree"].sensitivity_squared == tree.sensitivity_squared(200, gap, 4)
    assert (costs["gaussian"].sensitivity_squared, costs["gaussian"].prefix_rmse) == (4, math.sqrt(100.5))
    # At equal rho the error is the product of both: fitted strategies beat the tree, the tree beats fresh noise.
    errors = {name: cost.prefix_rmse * math.sqrt(cost.sensitivity_squared) for name, cost in costs.items()}
    assert 1.5 * errors["banded"] < 1.5 * errors["blt"] * 1.02 < errors["tree"] < errors["gaussian"]


@settings(max_examples=40)
@given(st.floats(1e-2, 100), st.floats(1e-12, 1e-3))
def test_rho_of_an_epsilon_is_the_largest_that_stays_within(target: float, delta: float) -> None:
    rho = rho_of_epsilon(target, delta)
    assert epsilon_of_gaussian(rho, delta) <= target < epsilon_of_gaussian(rho * (1 + 1e-6), delta)


@given(st.floats(1e-6, 1e3), st.integers(1, 10**6))
def test_noise_for_a_rho_never_exceeds_it(rho: float, squared: int) -> None:
    z = noise_for_rho(rho, squared)
    assert gaussian_rho(z, squared) <= rho < gaussian_rho(z * (1 - 1e-9), squared)


@pytest.mark.parametrize(
    ("probability", "z", "rounds"), [(0.0015, 0.8, 1000), (0.02, 1.0, 500), (0.01, 5.0, 2000), (1.0, 50.0, 100)]
)
def test_quick_epsilon_of_sampled_rounds_is_a_little_above_the_fine_one(
    probability: float, z: float, rounds: int
) -> None:
    fine = epsilon([SampledRounds({"kind": "poisson", "probability": probability}, z, rounds)], 1e-8, "pld")
    assert fine * 0.9995 <= poisson_epsilon(probability, z, rounds, 1e-8) <= 1.01 * fine + 0.03


def test_hardly_any_noise_is_quick_too_and_less_private() -> None:
    found = [poisson_epsilon(0.001, z, 1000, 1e-8) for z in (1e-4, 0.01, 0.05, 0.2)]
    assert found == sorted(found, reverse=True)
    assert found[-1] > 30
    assert math.isfinite(found[0])


@pytest.mark.parametrize(("probability", "target"), [(0.0015, 2.0), (0.05, 8.0)])
def test_noise_of_sampled_rounds_is_the_least_that_meets_the_target(probability: float, target: float) -> None:
    z = poisson_noise(probability, 500, target, 1e-8)
    assert poisson_epsilon(probability, z, 500, 1e-8) <= target < poisson_epsilon(probability, z * 0.99, 500, 1e-8)
