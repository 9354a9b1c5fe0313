"""Composition: joint rather than summed, exact where it can be, and refused across adjacencies."""

from __future__ import annotations

import math
from typing import Any

import pytest

from tacit.errors import PrivacyError
from tacit.privacy.accounting.composition import Concentrated, Part, Sampled, compose
from tacit.privacy.accounting.sampled_gaussian import ADJACENCY, SampledRounds, epsilon, sampled_epsilon
from tacit.privacy.accounting.zcdp import epsilon_of_any, epsilon_of_gaussian, gaussian_rho

ADD, REPLACE, ZERO = ADJACENCY["poisson"], ADJACENCY["fixed"], "zero out one user"
DELTA = 1e-6


def poisson(count: int = 100, z: float = 2.0, q: float = 0.02) -> Sampled:
    return Sampled(SampledRounds({"kind": "poisson", "probability": q}, z, count))


def fixed(count: int = 100, z: float = 4.0) -> Sampled:
    return Sampled(SampledRounds({"kind": "fixed", "size": 10, "population": 1000}, z, count))


def test_two_runs_are_one_longer_run() -> None:
    together = compose([poisson(60), poisson(40)], DELTA)
    assert together.epsilon == compose([poisson(100)], DELTA).epsilon == epsilon([poisson().rounds], DELTA, "pld")
    assert (together.rho, together.accountant) == (None, "pld")
    halves = [compose([poisson(count)], DELTA / 2).epsilon for count in (60, 40)]
    assert together.epsilon < 0.9 * sum(halves)  # the sum of epsilons would be valid too, and far larger


def test_settings_may_differ_between_runs() -> None:
    one, other = poisson(100, 2.0, 0.02), poisson(50, 1.5, 0.03)
    together = compose([one, other], DELTA)
    assert max(compose([each], DELTA).epsilon for each in (one, other)) < together.epsilon
    assert together.epsilon <= epsilon([one.rounds, other.rounds], DELTA, "rdp")


def test_gaussian_rhos_add_up_on_the_exact_curve() -> None:
    parts = [Concentrated(0.2, ZERO), Concentrated(0.3, ZERO)]
    together = compose(parts, DELTA)
    assert together.rho == pytest.approx(0.5)
    assert together.epsilon == epsilon_of_gaussian(0.5, DELTA)
    anything = compose([parts[0], Concentrated(0.3, ZERO, gaussian=False)], DELTA)
    assert anything.epsilon == epsilon_of_any(0.5, DELTA) > together.epsilon


def test_a_gaussian_release_beside_sampled_rounds() -> None:
    """With q = 1 a sampled round is a plain Gaussian: then the whole is one Gaussian curve, known exactly."""
    parts = [Sampled(SampledRounds({"kind": "poisson", "probability": 1.0}, 10.0, 20)), Concentrated(0.05, ADD)]
    exact = epsilon_of_gaussian(20 * gaussian_rho(10.0) + 0.05, DELTA)
    together = compose(parts, DELTA)
    assert together.accountant == "pld"
    assert exact <= together.epsilon <= exact * 1.001
    by_rdp = compose([parts[0], Concentrated(0.05, ADD, gaussian=False)], DELTA)
    assert by_rdp.accountant == "rdp"
    assert exact < by_rdp.epsilon < exact * 1.3


@pytest.mark.parametrize("sampled", [poisson(), fixed()])
def test_a_rho_of_anything_costs_what_renyi_says(sampled: Sampled) -> None:
    alone = compose([sampled], DELTA).epsilon
    found = [
        compose([sampled, Concentrated(rho, sampled.adjacency, gaussian=False)], DELTA).epsilon
        for rho in (1e-6, 0.01, 0.1)
    ]
    assert alone < found[1] < found[2]
    assert found[1] < compose([sampled], DELTA / 2).epsilon + epsilon_of_any(0.01, DELTA / 2)
    assert found[0] == pytest.approx(epsilon([sampled.rounds], DELTA, "rdp"), rel=1e-3)


@pytest.mark.parametrize(
    "parts",
    [
        [poisson(), fixed()],
        [poisson(), Concentrated(0.1, ZERO)],
        [Concentrated(0.1, ZERO), Concentrated(0.1, REPLACE)],
        [fixed(), Concentrated(0.1, ADD)],
    ],
)
def test_different_adjacencies_are_refused_in_one_sentence(parts: list[Part]) -> None:
    with pytest.raises(PrivacyError, match=r"Expected one adjacency .* and .*\.$"):
        compose(parts, DELTA)


def test_limits() -> None:
    assert compose([], DELTA).epsilon == compose([Concentrated(0.0, ZERO)], DELTA).epsilon == 0
    assert compose([poisson(0)], DELTA).epsilon == 0
    assert compose([poisson(), poisson(1, z=0.0)], DELTA).epsilon == math.inf
    assert compose([poisson(), Concentrated(math.inf, ADD)], DELTA).epsilon == math.inf
    assert compose([Concentrated(math.inf, ZERO)], DELTA).epsilon == math.inf


def test_the_tighter_accountant_that_answers_soon() -> None:
    settings: dict[str, Any] = {"kind": "poisson", "probability": 0.1}
    assert sampled_epsilon([SampledRounds(settings, 1.0, 10)], DELTA)[1] == "pld"
    assert sampled_epsilon([SampledRounds(settings, 0.15, 10)], DELTA)[1] == "rdp"  # would take minutes
    assert sampled_epsilon([SampledRounds(settings, 0.5, 10_000)], DELTA)[1] == "rdp"
    assert sampled_epsilon([fixed().rounds], DELTA)[1] == "pld"
    assert sampled_epsilon([fixed(z=0.3).rounds], DELTA)[1] == "rdp"  # half of it enters


def test_a_gaussian_release_beside_fixed_size_rounds() -> None:
    """With everybody in every round, the rounds are Gaussians of half the noise: the whole is known exactly."""
    rounds = Sampled(SampledRounds({"kind": "fixed", "size": 10, "population": 10}, 20.0, 20))
    exact = epsilon_of_gaussian(20 * gaussian_rho(10.0) + 0.05, DELTA)
    together = compose([rounds, Concentrated(0.05, REPLACE)], DELTA)
    assert together.accountant == "pld"
    assert exact <= together.epsilon <= exact * 1.001
    assert compose([fixed(), fixed(50, z=3.0)], DELTA).epsilon < epsilon(
        [fixed().rounds, fixed(50, z=3.0).rounds], DELTA, "rdp"
    )
