"""A group of users."""

from __future__ import annotations

import math

import pytest

from tacit.privacy.accounting.group import group_epsilon_delta, group_rho


def test_one_user_is_a_group() -> None:
    assert group_epsilon_delta(1.3, 1e-6, 1) == pytest.approx((1.3, 1e-6))
    assert group_rho(0.4, 1) == 0.4


def test_delta_is_the_sum_of_the_steps() -> None:
    epsilon, delta, size = 0.7, 1e-9, 5
    steps = sum(delta * math.exp(i * epsilon) for i in range(size))
    assert group_epsilon_delta(epsilon, delta, size) == pytest.approx((3.5, steps), rel=1e-12)
    assert group_epsilon_delta(0.0, 1e-6, 5) == pytest.approx((0.0, 5e-6))
    assert group_epsilon_delta(2.0, 0.0, 5_000) == (10_000.0, 0.0)


def test_a_delta_of_one_promises_nothing() -> None:
    assert group_epsilon_delta(1.0, 1e-8, 60) == (math.inf, 1.0)
    assert group_epsilon_delta(0.0, 0.4, 3) == (math.inf, 1.0)
    assert group_epsilon_delta(1e6, 1e-300, 1000) == (math.inf, 1.0)
    assert group_epsilon_delta(math.inf, 0.0, 2) == (math.inf, 1.0)


def test_rho_grows_with_the_square() -> None:
    assert group_rho(0.25, 4) == 4.0


def test_large_groups_of_large_epsilons_stay_in_range() -> None:
    epsilon, delta = group_epsilon_delta(300.0, 1e-300, 3)
    assert epsilon == 900.0
    assert delta == pytest.approx(1e-300 * math.exp(600))
