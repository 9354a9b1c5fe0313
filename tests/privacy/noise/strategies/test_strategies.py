"""Strategies: sensitivity and error by definition on small runs, descriptions that come back exactly, restarts, bad input."""

from __future__ import annotations

import json
import random
import subprocess
import sys

import numpy as np
import pytest

from tacit.errors import PrivacyError
from tacit.privacy.noise.strategies import BandedToeplitz, BufferedToeplitz, Strategy, Tree, from_description, stretches
from tacit.privacy.participation.limits import Gap
from tacit.testing.strategy import by_definition

BLT = BufferedToeplitz((0.2, 0.9), (0.35, 0.2), 40)
BAND = BandedToeplitz((1.0, 0.5, 0.3, 0.1), 40)
BUMPY = BandedToeplitz((1.0, 0.2, -0.5, 0.4), 40)
EVERY = [Tree(), BLT, BAND, BUMPY]


@pytest.mark.parametrize("strategy", [BLT, BAND, BUMPY], ids=lambda each: each.name)
def test_sensitivity_is_the_largest_change_or_a_bound_that_says_so(strategy: Strategy):
    for rounds, between, most in ((1, 0, 1), (7, 0, 3), (9, 1, 4), (10, 3, 2), (10, 5, 9)):
        for restarts in {(), tuple({rounds // 2} - {0}), (1, 4) if rounds > 4 else ()}:
            gap = Gap(between)
            found = strategy.sensitivity(rounds, gap, most, restarts)
            largest = by_definition(strategy, rounds, gap, most, restarts)
            assert found.squared >= largest * (1 - 1e-12)
            if found.exact:
                assert found.squared == pytest.approx(largest, rel=1e-9)
            else:
                assert restarts or strategy is BUMPY
                assert found.squared <= 2.6 * largest


def test_a_band_no_wider_than_the_gap_is_exact_whatever_its_coefficients():
    assert BUMPY.sensitivity(10, Gap(3), 3).exact
    wider = BUMPY.sensitivity(10, Gap(2), 3)
    assert not wider.exact
    assert wider.how == "non-increasing Toeplitz above the coefficients"


def test_a_single_participation_is_exact_across_restarts():
    found = BLT.sensitivity(12, Gap(2), 1, (4, 7))
    assert found.exact
    assert found.squared == pytest.approx(by_definition(BLT, 12, Gap(2), 1, (4, 7)))


def test_a_restart_forgets_in_accounting_so_that_few_participations_cost_less():
    for strategy in (Tree(), BLT):
        assert strategy.sensitivity(32, Gap(3), 8, (16,)).squared < strategy.sensitivity(32, Gap(3), 8).squared


@pytest.mark.parametrize("strategy", EVERY, ids=lambda each: each.name)
@pytest.mark.parametrize(("rounds", "restarts"), [(1, ()), (2, ()), (13, ()), (16, (5,)), (30, (1, 8, 23))])
def test_prefix_error_is_that_of_the_explicit_matrix(strategy: Strategy, rounds: int, restarts: tuple[int, ...]):
    left = np.cumsum(strategy.noise_matrix(rounds, restarts), axis=0)
    assert strategy.prefix_rmse(rounds, restarts) == pytest.approx(np.sqrt((left**2).sum(axis=1).mean()), rel=1e-10)


@pytest.mark.parametrize("strategy", [BLT, BAND, BUMPY], ids=lambda each: each.name)
def test_the_inverse_column_inverts(strategy: BufferedToeplitz | BandedToeplitz):
    product = np.convolve(strategy.column(40), strategy.inverse_column(40))[:40]
    np.testing.assert_allclose(product, np.eye(40)[0], atol=1e-12)


def test_a_trees_estimate_is_the_best_unbiased_one_from_its_noisy_nodes():
    """Honaker's estimate against generalised least squares on every node of a complete tree."""
    rounds = 8
    nodes = [range(a, a + size) for size in (1, 2, 4, 8) for a in range(0, rounds, size)]
    counts = np.array([[t in node for t in range(rounds)] for node in nodes], np.float64)
    best = np.linalg.inv(counts.T @ counts)  # the covariance of the least squares estimate of each round
    noise = Tree().noise_matrix(rounds)
    assert np.cumsum(noise, axis=0)[-1] @ np.cumsum(noise, axis=0)[-1] == pytest.approx(best.sum())
    assert noise.shape == (8, 15)


def test_a_trees_release_is_a_function_of_its_noisy_nodes():
    """Sum plus noise must be a combination of noisy nodes in which the nodes' sums add up to the round's: no leak."""
    rounds = 11
    noise = Tree().noise_matrix(rounds)
    completed = []
    for t in range(1, rounds + 1):
        size = 1
        while t % size == 0:
            completed.append([t - size <= each < t for each in range(rounds)])
            size *= 2
    np.testing.assert_allclose(noise @ np.array(completed, np.float64), np.eye(rounds), atol=1e-12)


def test_descriptions_come_back_to_the_last_bit():
    choose = random.Random(3)
    odd = BufferedToeplitz(tuple(choose.random() for _ in range(3)), tuple(choose.random() / 3 for _ in range(3)), 77)
    for strategy in (*EVERY, odd):
        assert from_description(json.loads(json.dumps(strategy.describe()))) == strategy


@pytest.mark.parametrize(
    "description",
    [
        {},
        {"strategy": "helix"},
        {"strategy": "blt", "theta": [0.5], "omega": [0.5]},
        {"strategy": "blt", "theta": [0.5], "omega": [0.5], "horizon": 0},
        {"strategy": "blt", "theta": [0.5, 0.1], "omega": [0.5], "horizon": 5},
        {"strategy": "blt", "theta": [1.0], "omega": [0.5], "horizon": 5},
        {"strategy": "blt", "theta": [0.5], "omega": [-0.1], "horizon": 5},
        {"strategy": "blt", "theta": [0.5, 0.5], "omega": [0.6, 0.6], "horizon": 5},
        {"strategy": "blt", "theta": ["0.5"], "omega": [0.5], "horizon": 5},
        {"strategy": "blt", "theta": [float("nan")], "omega": [0.5], "horizon": 5},
        {"strategy": "banded", "coefficients": [0.9, 0.1], "horizon": 5},
        {"strategy": "banded", "coefficients": [], "horizon": 5},
        {"strategy": "banded", "coefficients": [1.0, float("inf")], "horizon": 5},
    ],
)
def test_a_description_of_nothing_is_refused_in_a_sentence(description: dict[str, object]):
    with pytest.raises(PrivacyError, match=r"Expected|noise strategy"):
        from_description(description)


def test_more_rounds_than_it_was_optimised_for_are_refused_unless_a_restart_divides_them():
    with pytest.raises(PrivacyError, match=r"at most 40 rounds without a restart.* got 41"):
        BLT.sensitivity(41, Gap(3), 2)
    with pytest.raises(PrivacyError, match="at most 40 rounds"):
        BAND.prefix_rmse(50, (5,))
    assert BLT.prefix_rmse(50, (20,)) > 0


@pytest.mark.parametrize("restarts", [(0,), (10,), (11,), (4, 4), (5, 2), (-1,)])
def test_restarts_out_of_place_are_refused(restarts: tuple[int, ...]):
    with pytest.raises(PrivacyError, match="within rounds 1 to 9"):
        stretches(10, restarts)
    with pytest.raises(PrivacyError, match="within rounds 1 to 9"):
        Tree().sensitivity(10, Gap(1), 2, restarts)


@pytest.mark.process
def test_strategies_answer_without_jax():
    """`tacit account` prices a run where no accelerator library is loaded."""
    check = "import sys, tacit.privacy.noise.strategies; sys.exit('jax' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", check], check=False).returncode == 0
