"""The papers' conventions beyond their printed numbers, which `tests/cli/test_account.py` asks the commands for."""

from __future__ import annotations

import math

import pytest

from tacit.privacy.accounting import tree
from tacit.privacy.accounting.conventions import (
    CONVENTIONS,
    moments_epsilon,
    rounded_rho_epsilon,
    without_replacement_epsilon,
)
from tacit.privacy.accounting.sampled_gaussian import SampledRounds, epsilon
from tacit.privacy.participation.limits import Gap


def test_everybody_in_every_round_is_the_plain_gaussian() -> None:
    by_hand = min((100 * order * (order + 1) / 2 / 30**2 + math.log(1e6)) / order for order in range(1, 33))
    assert moments_epsilon(1.0, 30.0, 100, 1e-6) == pytest.approx(by_hand)
    assert without_replacement_epsilon(50, 50, 30.0, 100, 1e-6) == pytest.approx(by_hand)


def test_the_moments_accountant_is_a_bound_and_the_others_are_not_ours() -> None:
    poisson = [SampledRounds({"kind": "poisson", "probability": 0.01}, 1.0, 1_000)]
    assert moments_epsilon(0.01, 1.0, 1_000, 1e-6) >= epsilon(poisson, 1e-6, "rdp")
    fixed = [SampledRounds({"kind": "fixed", "size": 100, "population": 10_000}, 1.0, 1_000)]
    assert without_replacement_epsilon(10_000, 100, 1.0, 1_000, 1e-6) < epsilon(fixed, 1e-6, "rdp")


@pytest.mark.parametrize(
    ("rounds", "min_separation", "max_participation", "printed"),
    [(1170, 206, 5, 9.01), (1300, 290, 4, 7.31), (870, 327, 3, 5.13), (430, 54, 7, 9.56)],
)
def test_gboards_table_2_to_the_last_digit(
    rounds: int, min_separation: int, max_participation: int, printed: float
) -> None:
    squared = tree.sensitivity_squared(rounds, Gap(min_separation), max_participation, [])
    assert round(rounded_rho_epsilon(squared / (2 * 7.0**2), 1e-10), 2) == printed


def test_a_rho_that_would_round_to_nothing_is_taken_as_it_is() -> None:
    assert rounded_rho_epsilon(0.004, 1e-10) > 0
    assert rounded_rho_epsilon(math.inf, 1e-10) == math.inf


def test_each_says_how_it_differs() -> None:
    assert list(CONVENTIONS) == [
        "dp-fedavg-2018",
        "production-2020",
        "debugging-2020",
        "memorization-2020",
        "gboard-2023",
    ]
    for name, each in CONVENTIONS.items():
        assert each.name == name
        assert each.differs
        assert not each.differs.endswith(".")
