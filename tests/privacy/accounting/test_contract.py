"""Every accountant keeps the contract, the papers' conventions included."""

from __future__ import annotations

import pytest

from tacit.privacy.accounting import gaussian, tree
from tacit.privacy.accounting.conventions import moments_epsilon, without_replacement_epsilon
from tacit.privacy.accounting.sampled_gaussian import SampledRounds, epsilon
from tacit.privacy.accounting.zcdp import composed, epsilon_of_any, epsilon_of_gaussian, gaussian_rho
from tacit.privacy.participation.limits import Gap
from tests.contracts.accountant import AccountantContract, RhoContract

COHORT = 20


class TestPoissonByRdp(AccountantContract):
    def epsilon(self, *, population: int, rounds: int, noise: float, delta: float) -> float:
        return epsilon(
            [SampledRounds({"kind": "poisson", "probability": COHORT / population}, noise, rounds)], delta, "rdp"
        )


class TestPoissonByPld(AccountantContract):
    def epsilon(self, *, population: int, rounds: int, noise: float, delta: float) -> float:
        sampling = {"kind": "poisson", "probability": COHORT / population}
        return epsilon([SampledRounds(sampling, noise, rounds)], delta, "pld", discretization=1e-3)


class TestFixedSize(AccountantContract):
    def epsilon(self, *, population: int, rounds: int, noise: float, delta: float) -> float:
        sampling = {"kind": "fixed", "size": COHORT, "population": population}
        return epsilon([SampledRounds(sampling, noise, rounds)], delta, "rdp")


class TestMomentsAccountant(AccountantContract):
    def epsilon(self, *, population: int, rounds: int, noise: float, delta: float) -> float:
        return moments_epsilon(COHORT / population, noise, rounds, delta)


class TestWithoutReplacementAsThePapersCount(AccountantContract):
    def epsilon(self, *, population: int, rounds: int, noise: float, delta: float) -> float:
        return without_replacement_epsilon(population, COHORT, noise, rounds, delta)


class TestGaussianWithoutSampling(RhoContract):
    convert = staticmethod(epsilon_of_gaussian)

    def rho(self, *, rounds: int, noise: float) -> float:
        return gaussian_rho(noise, gaussian.sensitivity_squared(rounds, Gap(0), rounds))

    def epsilon(self, *, population: int, rounds: int, noise: float, delta: float) -> float:
        return self.convert(gaussian_rho(noise, gaussian.sensitivity_squared(rounds, Gap(3), 6)), delta)


class TestAnyMechanismOfThisRho(TestGaussianWithoutSampling):
    convert = staticmethod(epsilon_of_any)


class TestTree(AccountantContract):
    def epsilon(self, *, population: int, rounds: int, noise: float, delta: float) -> float:
        return epsilon_of_gaussian(gaussian_rho(noise, tree.sensitivity_squared(rounds, Gap(3), 6)), delta)


class TestTreesWithRestarts(RhoContract):
    def rho(self, *, rounds: int, noise: float) -> float:
        """A tree for each 8 rounds, and a user in all of them: the trees are releases that compose."""
        squared = tree.sensitivity_squared(rounds, Gap(0), rounds, range(8, rounds, 8))
        return gaussian_rho(noise, squared)

    def epsilon(self, *, population: int, rounds: int, noise: float, delta: float) -> float:
        squared = tree.sensitivity_squared(rounds, Gap(3), 6, range(16, rounds, 16))
        return epsilon_of_gaussian(gaussian_rho(noise, squared), delta)


def test_rho_composes_and_no_releases_cost_nothing() -> None:
    assert composed() == 0
    assert composed(0.25, 0.5, 1.0) == 1.75
    assert composed(0.1, float("inf")) == float("inf")
    assert composed(*[0.1] * 10) == pytest.approx(1.0, rel=1e-15)
