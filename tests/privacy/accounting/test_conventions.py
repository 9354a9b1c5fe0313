"""The papers' conventions beyond their printed numbers, which `tests/cli/test_account.py` asks the commands for."""

from __future__ import annotations

import math

import pytest

from tacit.privacy.accounting.conventions import CONVENTIONS, moments_epsilon, without_replacement_epsilon
from tacit.privacy.accounting.sampled_gaussian import SampledRounds, epsilon


def test_everybody_in_every_round_is_the_plain_gaussian() -> None:
    by_hand = min((100 * order * (order + 1) / 2 / 30**2 + math.log(1e6)) / order for order in range(1, 33))
    assert moments_epsilon(1.0, 30.0, 100, 1e-6) == pytest.approx(by_hand)
    assert without_replacement_epsilon(50, 50, 30.0, 100, 1e-6) == pytest.approx(by_hand)


def test_the_moments_accountant_is_a_bound_and_the_others_are_not_ours() -> None:
    poisson = [SampledRounds({"kind": "poisson", "probability": 0.01}, 1.0, 1_000)]
    assert moments_epsilon(0.01, 1.0, 1_000, 1e-6) >= epsilon(poisson, 1e-6, "rdp")
    fixed = [SampledRounds({"kind": "fixed", "size": 100, "population": 10_000}, 1.0, 1_000)]
    assert without_replacement_epsilon(10_000, 100, 1.0, 1_000, 1e-6) < epsilon(fixed, 1e-6, "rdp")


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
