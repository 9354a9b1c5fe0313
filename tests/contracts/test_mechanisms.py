"""No mechanism, strategy or recurrence of noise is without its suite.

The suites are `tacit.testing.MechanismContract` and `StrategyContract`. The tests that inherit them lie beside what they test
(tests/privacy/noise), and are found here by their source.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from tacit.privacy.noise.kinds.registry import training_names
from tacit.privacy.noise.mechanisms import Mechanism
from tacit.privacy.noise.mechanisms.recurrences import Recurrence
from tacit.privacy.noise.strategies import STRATEGIES, BandedToeplitz, BufferedToeplitz, MatrixStrategy, Strategy, Tree
from tests.support.implementations import implementations

NOISE = Path(__file__).parents[1] / "privacy" / "noise"


def suites(contract: str) -> Iterator[dict[str, ast.expr]]:
    """What each class that inherits this contract sets."""
    for path in sorted(NOISE.rglob("test_*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ClassDef) and contract in map(ast.unparse, node.bases):
                sets = [each for each in node.body if isinstance(each, ast.Assign)]
                yield {ast.unparse(each.targets[0]): each.value for each in sets}


def strategies() -> set[str]:
    """The classes of the strategies that have a suite."""
    called = [sets["strategy"] for sets in suites("StrategyContract")]
    return {ast.unparse(each.func) for each in called if isinstance(each, ast.Call)}


def test_every_mechanism_that_a_plan_can_name_has_a_suite() -> None:
    named = {ast.literal_eval(sets["mechanism"]) for sets in suites("MechanismContract")}
    by_class = {kind.__name__: name for name, kind in STRATEGIES.own.items()}
    assert named | {by_class[each] for each in strategies() if each in by_class} == set(training_names())


def test_every_strategy_has_a_suite() -> None:
    assert implementations(Strategy) <= strategies()
    assert strategies() - implementations(Strategy) == {
        "AsMatrix"
    }  # a MatrixStrategy as somebody outside would write it


def test_every_mechanism_draws_the_noise_of_a_kind() -> None:
    wrapper = {"AuditedGate"}  # whose releases are those of the mechanism inside (tests/simulation/test_gate_audit.py)
    assert implementations(Mechanism, other_than=wrapper) == {"Gaussian", "NoNoise", "Discrete", "Correlated"}


def test_every_recurrence_belongs_to_a_strategy() -> None:
    class Uncorrelated(MatrixStrategy):
        fitted = None  # type: ignore[assignment]

        def matrix(self, rounds: int) -> np.ndarray:
            return np.eye(rounds)

    each = (Tree(), BufferedToeplitz((0.3,), (0.3,), 8), BandedToeplitz((1.0, 0.5), 8), Uncorrelated())
    assert {type(strategy.recurrence(8)).__name__ for strategy in each} == implementations(Recurrence)
