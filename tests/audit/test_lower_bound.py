"""The lower bound: its tail against a slow sum, its promise on mechanisms whose epsilon is known, exactly."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import stats

from tacit.audit.lower_bound import SHARES, largest_refuted, lower_bound, probability_bound, strongest
from tacit.errors import AuditError


def slow_chance(m: int, r: int, v: int, epsilon: float, delta: float) -> float:
    """Theorem 5.2 as it is printed."""
    p = math.exp(epsilon) / (1 + math.exp(epsilon))
    mass = [math.comb(r, k) * p**k * (1 - p) ** (r - k) for k in range(r + 1)]
    alpha = max(2 / i * sum(mass[k] for k in range(r + 1) if v - i <= k < v) for i in range(1, m + 1))
    return min(1.0, sum(mass[v:]) + alpha * m * delta)


@pytest.mark.parametrize(("m", "r", "v"), [(1, 1, 1), (2, 2, 0), (9, 6, 4), (12, 12, 12), (12, 5, 1)])
@pytest.mark.parametrize("delta", [0.0, 1e-3, 0.02])
def test_the_tail_is_that_of_the_theorem(m: int, r: int, v: int, delta: float) -> None:
    for epsilon in (0.0, 0.3, 2.0, 7.0):
        assert probability_bound(m, r, v, epsilon, delta) == pytest.approx(
            slow_chance(m, r, v, epsilon, delta), rel=1e-10
        )


def test_all_right_is_refuted_where_the_coin_would_be() -> None:
    """p^r = failure, solved by hand."""
    p = 0.001 ** (1 / 100)
    assert largest_refuted(100, 100, 100, delta=0.0, failure=0.001) == pytest.approx(math.log(p / (1 - p)), abs=1e-9)
    assert largest_refuted(100, 100, 100, delta=1e-6, failure=0.001) < math.log(p / (1 - p))
    assert largest_refuted(100, 100, 50, delta=0.0, failure=0.001) == 0.0
    assert largest_refuted(100, 100, 100, delta=0.01, failure=0.001) == 0.0  # a delta that large excuses everything


@pytest.mark.parametrize("epsilon", [0.1, 0.5, 1.0, 3.0])
@pytest.mark.parametrize("delta", [0.0, 1e-5, 1e-4])
def test_the_bound_holds_for_mechanisms_that_use_up_their_budget(epsilon: float, delta: float) -> None:
    """Each answers every coin by randomised response, and with probability delta gives one, or all, away. Exact sums."""
    m, failure = 300, 0.001
    bounds = np.array([largest_refuted(m, m, v, delta=delta, failure=failure) for v in range(m + 1)])
    too_high = bounds > epsilon
    p = 1 / (1 + math.exp(-epsilon))
    answers = np.arange(m + 1)
    each_on_its_own = stats.binom(m, delta + (1 - delta) * p).pmf(answers)
    all_at_once = (1 - delta) * stats.binom(m, p).pmf(answers) + delta * (answers == m)
    for law in (each_on_its_own, all_at_once):
        assert law[too_high].sum() <= failure
    if delta == 0:  # and it is no weaker than it has to be: one right guess less would already be accepted
        first = int(np.argmax(too_high))
        assert stats.binom(m, p).sf(first - 2) > failure


def test_many_canaries_come_close_to_randomised_response() -> None:
    rng = np.random.default_rng(0)
    found = {}
    for m in (200, 20_000):
        is_in = rng.random(m) < 0.5
        honest = rng.random(m) < 1 / (1 + math.exp(-1.0))
        found[m] = lower_bound(np.where(honest, is_in, ~is_in), is_in, delta=0.0).epsilon
    assert 0 < found[200] < 1
    assert 0.9 < found[20_000] < 1


def test_scores_that_know_nothing_refute_nothing() -> None:
    """At most one attack on nothing in a thousand may find something."""
    rng = np.random.default_rng(1)
    coins = rng.random((2_000, 64)) < 0.5
    alarms = sum(lower_bound(rng.random(64), each, delta=1e-6).epsilon > 0 for each in coins)
    assert stats.binom(2_000, 0.001).sf(alarms - 1) > 1e-6


def test_surer_guesses_alone_count_where_only_they_are_right() -> None:
    """An attacker who sees through a few users and guesses blindly at the rest."""
    m = 400
    is_in = np.arange(m) % 2 == 0
    scores = np.zeros(m)
    scores[:60] = np.where(is_in[:60], 1.0, -1.0)
    found = lower_bound(scores, is_in, delta=1e-6)
    assert found.guesses < m
    assert found.right > 0.9 * found.guesses
    assert found.epsilon > 1


def test_the_order_of_scores_is_all_that_counts_and_its_sign() -> None:
    rng = np.random.default_rng(2)
    is_in = rng.random(200) < 0.5
    scores = is_in + rng.normal(size=200) * 0.3
    found = lower_bound(scores, is_in, delta=1e-6)
    assert found == lower_bound(np.exp(3 * scores), is_in, delta=1e-6)
    assert 0 < found.epsilon <= found.strongest
    assert lower_bound(-scores, is_in, delta=1e-6).epsilon == 0


def test_what_so_many_canaries_can_show_at_best() -> None:
    assert strongest(300, delta=1e-9) == pytest.approx(
        largest_refuted(300, 300, 300, delta=1e-9, failure=0.001 / len(SHARES)), abs=1e-9
    )
    assert strongest(300, delta=1e-9) < 8  # a few hundred cannot reach it
    assert strongest(40, delta=1e-9) < strongest(300, delta=1e-9)
    is_in = np.arange(300) % 2 == 0
    assert lower_bound(is_in, is_in, delta=1e-9).epsilon == strongest(300, delta=1e-9)


def test_what_cannot_be_ordered_is_refused() -> None:
    with pytest.raises(AuditError, match="not a finite number"):
        lower_bound([0.0, math.nan, 1.0], np.array([True, False, True]), delta=0.0)
    with pytest.raises(AuditError, match="at least 2"):
        lower_bound([0.0], np.array([True]), delta=0.0)
