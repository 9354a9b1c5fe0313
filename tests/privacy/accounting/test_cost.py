"""A cost gives epsilon in each of its forms, and nothing finite where it is not a number."""

from __future__ import annotations

import math

import dp_accounting
import pytest

from tacit.privacy.accounting.composition import Concentrated, Sampled
from tacit.privacy.accounting.cost import Cost
from tacit.privacy.accounting.sampled_gaussian import SampledRounds, epsilon
from tacit.privacy.accounting.zcdp import epsilon_of_any, epsilon_of_gaussian

ROUNDS = SampledRounds({"kind": "poisson", "probability": 0.01}, 1.0, 50)
DELTA = 1e-6


def test_a_rho_is_converted_by_the_curve_that_holds_for_it():
    assert Cost.of_rho(0.3).epsilon(DELTA) == (epsilon_of_any(0.3, DELTA), "zCDP through RDP (alpha times rho)")
    assert Cost.of_rho(0.3, gaussian=True).epsilon(DELTA) == (
        epsilon_of_gaussian(0.3, DELTA),
        "zCDP, exact Gaussian curve",
    )
    assert Cost.of_rho(0.3).parts("zero out one user") == (Concentrated(0.3, "zero out one user", gaussian=False),)


def test_sampled_rounds_are_a_coarser_bound_when_it_has_to_be_quick():
    cost = Cost.of_rounds([ROUNDS])
    assert cost.epsilon(DELTA) == (epsilon([ROUNDS], DELTA, "pld"), "pld")
    assert cost.epsilon(DELTA, quick=True)[0] >= cost.epsilon(DELTA)[0]
    assert cost.parts("add or remove one user") == (Sampled(ROUNDS),)


@pytest.mark.parametrize(("adjacency", "sampled"), [("add or remove one user", True), ("replace one user", False)])
def test_an_event_is_accounted_for_its_own_neighbours(adjacency: str, sampled: bool):
    noise = dp_accounting.GaussianDpEvent(1.0)
    once = (
        dp_accounting.PoissonSampledDpEvent(0.01, noise)
        if sampled
        else dp_accounting.SampledWithoutReplacementDpEvent(1000, 10, noise)
    )
    found, accountant = Cost.of_event(dp_accounting.SelfComposedDpEvent(once, 50), adjacency).epsilon(DELTA)
    law = ROUNDS if sampled else SampledRounds({"kind": "fixed", "size": 10, "population": 1000}, 2.0, 50)
    assert (found, accountant) == (epsilon([law], DELTA, "rdp"), "rdp")


def test_an_event_that_the_library_cannot_account_for_is_unknown():
    of_others = dp_accounting.SampledWithoutReplacementDpEvent(1000, 10, dp_accounting.GaussianDpEvent(1.0))
    cost = Cost.of_event(of_others, "add or remove one user")
    assert cost.objection is not None
    assert cost.epsilon(DELTA)[0] == math.inf


@pytest.mark.parametrize(
    "cost",
    [
        Cost.of_rho(math.nan),
        Cost.of_rho(-1.0),
        Cost.of_rho(math.inf),
        Cost.of_curve(lambda delta: math.nan, "x"),
        Cost.of_curve(lambda delta: -1.0, "x"),
        Cost.unknown("nobody knows"),
    ],
)
def test_what_is_no_cost_is_infinite(cost: Cost):
    assert cost.epsilon(DELTA)[0] == math.inf


def test_a_curve_does_not_compose():
    cost = Cost.of_curve(lambda delta: 0.5, "by hand")
    assert cost.epsilon(DELTA) == (0.5, "by hand")
    assert cost.parts("zero out one user") is None
