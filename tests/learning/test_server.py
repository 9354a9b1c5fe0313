"""The two estimators, what their sensitivity needs, and the server optimizers."""

from __future__ import annotations

from itertools import pairwise

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tacit.learning.server import ScheduleName, Server, build_optimizer, mean_update, rate_schedule

FLOOR = 2.0  # q W_min
BOUND = 1.0  # S


def clipped_mean(updates: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """f_c without noise, from sums as they cross the gate."""
    release = {"update": jnp.asarray(weights @ updates, jnp.float32), "weight": jnp.asarray(weights.sum(), jnp.float32)}
    return np.asarray(mean_update(release, FLOOR))


def moved_by_one_more(updates: np.ndarray, weights: np.ndarray, update: np.ndarray, weight: float) -> float:
    with_user = clipped_mean(np.vstack([updates, update]), np.append(weights, weight))
    return float(np.linalg.norm(with_user - clipped_mean(updates, weights)))


@settings(max_examples=200)
@given(data=st.data(), users=st.integers(1, 8))
def test_clipping_the_update_itself_bounds_the_clipped_mean(data, users):
    """‖Δ_k‖ ≤ S and w in [0, 1]: one user moves f_c by at most 2S/(qW_min)."""
    draw = lambda low, high, n: np.array(data.draw(st.lists(st.floats(low, high), min_size=n, max_size=n)))  # noqa: E731
    updates = draw(-1, 1, users * 2).reshape(users, 2)
    updates *= BOUND / np.maximum(np.linalg.norm(updates, axis=1, keepdims=True), BOUND)
    angle = data.draw(st.floats(0, 6.3))
    moved = moved_by_one_more(updates, draw(0, 1, users), np.array([[np.cos(angle), np.sin(angle)]]), draw(0, 1, 1)[0])
    assert moved <= 2 * BOUND / FLOOR + 1e-5


def test_bounding_only_the_weighted_update_is_not_enough():
    """Lemma 1 asks for ‖w_k Δ_k‖ ≤ S alone. Many light users with large Δ obey that and break its conclusion."""
    weight, users = 0.01, 400
    updates = np.tile([BOUND / weight, 0.0], (users, 1))  # each w_k Δ_k has norm S
    weights = np.full(users, weight)
    heavy_but_still = np.zeros((1, 2))  # Δ = 0 with weight 1
    assert moved_by_one_more(updates, weights, heavy_but_still, 1.0) > 10 * 2 * BOUND / FLOOR


def test_the_fixed_estimator_divides_by_a_public_constant():
    release = {"update": {"a": jnp.array([2.0, 4.0])}}
    np.testing.assert_allclose(mean_update(release, 8.0)["a"], [0.25, 0.5])


def test_the_clipped_estimator_never_divides_by_less_than_its_floor():
    for weight, divisor in ((-3.0, 4.0), (1.0, 4.0), (10.0, 10.0)):
        release = {"update": jnp.array([1.0]), "weight": jnp.asarray(weight, jnp.float32)}
        np.testing.assert_allclose(mean_update(release, 4.0), [1 / divisor])


def server_steps(name: str, steps: int) -> np.ndarray:
    server = Server.build(build_optimizer(name, 0.5, 0.9), denominator=2.0)
    model = jnp.zeros(1)
    state = server.init(model)
    for _ in range(steps):
        model, state, finite = server.step(model, state, {"update": jnp.array([2.0])})
        assert bool(finite)
    return np.asarray(model)


def test_optimizers_step_along_the_mean():
    assert server_steps("sgd", 2) == pytest.approx(1.0)
    assert server_steps("momentum", 2) == pytest.approx(0.5 * (1 + 1.9))
    assert server_steps("nesterov", 2) == pytest.approx(0.5 * (1.9 + 0.9 * 1.9 + 1))
    with jax.numpy_dtype_promotion("standard"):  # optax's Adam mixes ints and floats
        assert server_steps("adam", 1) == pytest.approx(0.5, rel=1e-4)


@pytest.mark.parametrize("schedule", ["linear", "cosine"])
def test_the_rate_falls_from_the_first_round_to_the_last_and_stays_there(schedule: ScheduleName) -> None:
    rate = rate_schedule(4.0, schedule, 9, final=0.25)
    rates = [float(rate(number)) for number in range(12)]
    assert rates[0] == 4.0
    assert rates[4] == pytest.approx(2.5)
    assert rates[8:] == pytest.approx([1.0] * 4)
    assert all(later <= earlier for earlier, later in pairwise(rates))


def test_the_rate_rises_first_if_it_is_told_to() -> None:
    rate = rate_schedule(4.0, "constant", 9, warmup=4)
    assert [float(rate(number)) for number in range(6)] == pytest.approx([1.0, 2.0, 3.0, 4.0, 4.0, 4.0])
    assert rate_schedule(4.0, "constant", 9) == 4.0


def test_a_scheduled_step_is_that_of_its_round() -> None:
    optimizer = build_optimizer("sgd", rate_schedule(1.0, "linear", 3), 0.0)
    server = Server.build(optimizer, 1.0)
    model, state = {"w": jnp.zeros(1)}, server.init({"w": jnp.zeros(1)})
    seen = []
    for _ in range(3):
        model, state, _ = server.step(model, state, {"update": {"w": jnp.ones(1)}})
        seen.append(float(model["w"][0]))
    assert seen == pytest.approx([1.0, 1.5, 1.5])
