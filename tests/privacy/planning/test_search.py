"""The largest setting within a target: on the right side of it, close to it, and found in few steps."""

from __future__ import annotations

import math
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tacit.privacy.planning.search import TOLERANCE, largest_within


class Counted:
    def __init__(self, cost: Callable[[float], float]) -> None:
        self.cost, self.asked = cost, list[float]()

    def __call__(self, x: float) -> float:
        self.asked.append(x)
        return self.cost(x)


@given(st.floats(0.3, 3), st.floats(-3, 3), st.one_of(st.none(), st.floats(1e-3, 1e3)))
def test_a_power_of_x(power: float, log_target: float, start: float | None) -> None:
    target = 10**log_target
    root = target ** (1 / power)
    cost = Counted(lambda x: x**power)
    found = largest_within(cost, target, 1e-12, 1e12, start=start)
    assert found is not None
    assert cost.cost(found) <= target
    assert root * (1 - 1.1 * TOLERANCE) <= found <= root * (1 + 1e-12)
    assert len(cost.asked) <= 25
    assert all(1e-12 <= x <= 1e12 for x in cost.asked)


@given(st.integers(1, 5000), st.floats(0.3, 3))
def test_whole_numbers_are_found_exactly(root: int, power: float) -> None:
    cost = Counted(lambda x: x**power)
    assert largest_within(cost, (root + 0.5) ** power, 1, 10**8, whole=True) == root
    assert all(x == int(x) for x in cost.asked)


def test_stairs_and_infinities() -> None:
    assert largest_within(lambda x: math.floor(x / 100), 7, 1, 10**6, whole=True) == 799
    found = largest_within(lambda x: math.inf if x > 3 else 0.0, 1.0, 1e-3, 1e3)
    assert found == pytest.approx(3, rel=2 * TOLERANCE)
    assert found <= 3


def test_ends() -> None:
    assert largest_within(lambda x: x, 0.5, 1, 100) is None
    assert largest_within(lambda x: x, 1e9, 1, 100) == 100
    assert largest_within(lambda x: x, 1.0, 1, 100, whole=True) == 1
    assert largest_within(lambda x: x, 1.5, 1, 1) == 1
