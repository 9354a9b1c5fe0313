"""The checker's own sensitivities: against every way to take part, and equal to Tacit's, which are computed in another way."""

from __future__ import annotations

import random
from itertools import pairwise
from typing import Any

import numpy as np
import pytest

from tacit.privacy.accounting.tree import sensitivity_squared
from tacit.privacy.noise.strategies import from_description
from tacit.privacy.participation.limits import Gap, most_participations
from tests.support.checker import checker
from tests.support.tree_nodes import nodes, patterns


def _setting(chance: random.Random, longest: int) -> tuple[int, int, int, list[int]]:
    """Rounds, rounds in between, the most participations, restarts."""
    rounds, between = chance.randint(1, longest), chance.choice([0, 1, 2, 3, 5, 8, 20, 50])
    restarts = sorted(chance.sample(range(1, rounds), min(rounds - 1, chance.choice([0, 0, 1, 3]))))
    return rounds, between, chance.randint(1, 12), restarts


def test_a_tree_costs_what_the_worst_user_takes_from_its_nodes():
    chance = random.Random(1)
    for _ in range(60):
        rounds, between, most, restarts = _setting(chance, 14)
        blocks = [set(node) for node in nodes(rounds, tuple(restarts))]
        worst = max(sum(len(block & set(way)) ** 2 for block in blocks) for way in patterns(rounds, between, most))
        assert checker.tree_squared(rounds, between + 1, most, restarts) == worst


@pytest.mark.parametrize("many", [150, pytest.param(1500, marks=pytest.mark.slow)])
def test_trees_cost_what_tacit_says(many: int):
    chance = random.Random(2)
    for _ in range(many):
        rounds, between, most, restarts = _setting(chance, chance.choice([30, 300, 3000]))
        ours = checker.tree_squared(rounds, between + 1, min(most, -(-rounds // (between + 1))), restarts)
        assert ours == sensitivity_squared(rounds, Gap(between), most, restarts), (rounds, between, most, restarts)


def _column(chance: random.Random, rounds: int, longest: int) -> dict[str, Any]:
    if chance.random() < 0.5:
        weights = [chance.random() / 4 for _ in range(chance.randint(1, 4))]
        return {"strategy": "blt", "theta": [chance.random() for _ in weights], "omega": weights, "horizon": rounds}
    coefficients = [chance.uniform(-0.5, 1.0) for _ in range(chance.randint(0, longest))]
    if chance.random() < 0.5:  # as those that are optimised mostly are
        coefficients = sorted(map(abs, coefficients), reverse=True)
    return {"strategy": "banded", "coefficients": [1.0, *coefficients], "horizon": rounds}


def _squared(description: dict[str, Any], rounds: int, between: int, most: int, restarts: list[int]) -> float:
    lengths = [stop - start for start, stop in pairwise([0, *restarts, rounds])]
    column = checker.column(description, max(lengths))
    return float(checker.toeplitz_squared(column, lengths, between + 1, min(most, -(-rounds // (between + 1)))))


def test_no_way_to_take_part_moves_a_toeplitz_strategy_further():
    chance = random.Random(3)
    for _ in range(80):
        rounds, between, most, restarts = _setting(chance, 11)
        description = _column(chance, rounds, 4)
        matrix = np.linalg.inv(from_description(description).noise_matrix(rounds, restarts))
        gram = np.abs(matrix.T @ matrix)
        worst = max((float(gram[np.ix_(way, way)].sum()) for way in patterns(rounds, between, most)), default=0.0)
        assert _squared(description, rounds, between, most, restarts) >= worst * (1 - 1e-9)


@pytest.mark.parametrize("many", [100, pytest.param(1500, marks=pytest.mark.slow)])
def test_toeplitz_strategies_cost_what_tacit_says(many: int):
    chance = random.Random(4)
    for _ in range(many):
        rounds, between, most, restarts = _setting(chance, chance.choice([20, 200, 2000]))
        description = _column(chance, rounds, 30)
        theirs = from_description(description).sensitivity(rounds, Gap(between), most, restarts).squared
        ours = _squared(description, rounds, between, most_participations(rounds, Gap(between), most), restarts)
        assert ours <= theirs * (1 + 1e-9), (description, rounds, between, most, restarts)
        assert ours >= theirs * (1 - 1e-9) or len(description.get("coefficients", "")) > 1


def test_what_is_too_large_to_be_checked_is_refused_soon():
    with pytest.raises(checker.NotProved, match="too many"):
        checker.tree_squared(2_000_000, 7, 200_000, [])
    with pytest.raises(checker.NotProved, match="too many"):
        checker.toeplitz_squared(np.ones(1_000_000), [1_000_000], 1, 1_000_000)
    with pytest.raises(checker.NotProved, match="too many"):
        checker.coins([1.0] * 1000, 1000, list(range(10_000)), [])
