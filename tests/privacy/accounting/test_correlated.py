"""Correlated noise: exact where it says so, above every user where it does not."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from tacit.privacy.accounting import gaussian, tree
from tacit.privacy.accounting.correlated import matrix_sensitivity, toeplitz_sensitivity
from tacit.privacy.participation.limits import Gap
from tests.support.tree_nodes import nodes, patterns


def toeplitz(coefficients: list[float], rounds: int) -> np.ndarray:
    return sum(c * np.eye(rounds, k=-i) for i, c in enumerate(coefficients[:rounds]))  # type: ignore[return-value]


def worst_user(strategy: np.ndarray, between: int, most: int) -> float:
    """The largest squared change over all patterns of participation and all signs of a one-dimensional update."""
    rounds = strategy.shape[1]
    return max(
        float(np.sum((strategy[:, pattern] @ np.array(signs)) ** 2))
        for pattern in map(list, patterns(rounds, between, most))
        for signs in itertools.product((1.0, -1.0), repeat=len(pattern))
    )


@pytest.mark.parametrize("coefficients", [[1.0], [1.0, 1.0], [1.0, 0.5, 0.375, 0.3125, 0.1], [2.0, 0.7, 0.7, 0.0]])
@pytest.mark.parametrize(("rounds", "between", "most"), [(9, 0, 3), (9, 2, 9), (10, 3, 2), (8, 7, 4), (3, 0, 1)])
def test_falling_toeplitz_is_exact(coefficients: list[float], rounds: int, between: int, most: int) -> None:
    found = toeplitz_sensitivity(coefficients, rounds, Gap(between), most)
    assert found.exact
    assert found.squared == pytest.approx(worst_user(toeplitz(coefficients, rounds), between, most), rel=1e-11)


@pytest.mark.parametrize("seed", range(6))
def test_bands_no_wider_than_the_gap_are_exact_and_wider_ones_are_bounded(seed: int) -> None:
    """A band of four entries reaches three rounds ahead: exact with three rounds between, not with two."""
    draws = np.random.default_rng(seed)
    strategy = draws.normal(size=(10, 10)) * (np.tri(10) - np.tri(10, k=-4))
    narrow, wide = (matrix_sensitivity(strategy, Gap(between), 3) for between in (3, 2))
    assert narrow.exact
    assert narrow.squared == pytest.approx(worst_user(strategy, 3, 3), rel=1e-11)
    assert not wide.exact
    assert "upper bound" in wide.how
    assert worst_user(strategy, 2, 3) <= wide.squared <= 3 * worst_user(strategy, 2, 3)


def test_rising_or_negative_toeplitz_is_no_more_than_bounded() -> None:
    for coefficients in ([1.0, -0.5, -0.1, -0.1], [0.5, 1.0, 0.2, 0.1]):
        found = toeplitz_sensitivity(coefficients, 9, Gap(1), 3)
        assert not found.exact
        assert found.squared >= worst_user(toeplitz(coefficients, 9), 1, 3)
        once = toeplitz_sensitivity(coefficients, 9, Gap(1), 1)
        assert once.exact
        assert once.squared == pytest.approx(sum(c * c for c in coefficients))


def test_independent_noise_and_trees_are_strategies_too() -> None:
    independent = matrix_sensitivity(np.eye(20), Gap(2), 5)
    assert independent.squared == pytest.approx(gaussian.sensitivity_squared(20, Gap(2), 5), rel=1e-11)
    as_matrix = np.array([[round in node for round in range(13)] for node in nodes(13, ())], float)
    for between, most in ((0, 3), (2, 4), (5, 2)):
        exact = tree.sensitivity_squared(13, Gap(between), most)
        assert exact <= matrix_sensitivity(as_matrix, Gap(between), most).squared <= 2 * exact


def test_thousands_of_rounds_are_within_reach() -> None:
    falling = 1 / np.sqrt(np.arange(1, 4_001))
    assert toeplitz_sensitivity(list(falling), 4_000, Gap(200), 8).exact
    assert not toeplitz_sensitivity([1.0, -0.3, *[-0.01] * 300], 1_000, Gap(200), 4).exact
