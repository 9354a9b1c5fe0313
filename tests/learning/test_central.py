"""Central training: the batches are those of the order, the steps those of the optimizer, and nothing beyond them."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from tacit.errors import DivergedError
from tacit.learning import central
from tacit.learning.central import Descent, first_steps, shuffled, train_central, user_by_user
from tacit.learning.next_word import NextWord
from tacit.learning.server import build_optimizer
from tacit.models.word_lm import WordLMConfig, build, loss_sum

OFFSETS = np.array([0, 3, 3, 4, 9])


@pytest.fixture
def short_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Several compiled calls where there would be one."""
    monkeypatch.setattr(central, "BLOCK_STEPS", 3)


@pytest.fixture(scope="module")
def model() -> Any:
    return build(WordLMConfig(vocabulary=30, embedding=4, units=5, projection=4), key=jax.random.key(0))


@pytest.fixture(scope="module")
def rows() -> np.ndarray:
    return np.random.default_rng(0).integers(4, 30, (23, 6)).astype(np.int32)


def one_by_one(model: Any, batches: list[np.ndarray], optimizer: optax.GradientTransformation) -> Any:
    """The same in a plain loop with plain autodiff."""
    state = optimizer.init(model)

    @jax.jit
    @jax.grad
    def gradient_of(model: Any, tokens: jax.Array) -> jax.Array:
        mask = jnp.ones((len(tokens), tokens.shape[1] - 1), jnp.float32)
        loss, count = loss_sum(model, {"tokens": tokens, "mask": mask})
        return loss / count

    for tokens in batches:
        gradient = gradient_of(model, tokens)
        with jax.numpy_dtype_promotion("standard"):
            updates, state = optimizer.update(gradient, state, model)
        model = optax.apply_updates(model, updates)
    return model


@pytest.mark.usefixtures("short_blocks")
@pytest.mark.parametrize(
    ("optimizer", "rate"),
    [
        ("sgd", 0.5),
        pytest.param("momentum", 0.2, marks=pytest.mark.slow),
        pytest.param("nesterov", 0.2, marks=pytest.mark.slow),
        ("adam", 0.01),
    ],
)
def test_compiled_blocks_equal_a_plain_loop(model, rows, optimizer, rate):
    """23 records in batches of 5: a block of 3 steps, then one of 2 whose last batch holds 3 records."""
    passes = list(shuffled(len(rows), epochs=2, seed=3))
    batches = [rows[each[start : start + 5]] for each in passes for start in range(0, len(rows), 5)]
    expected = one_by_one(model, batches, build_optimizer(optimizer, rate, 0.9))
    trained = train_central(model, rows, passes, Descent(NextWord(), optimizer, rate), batch_size=5)
    for one, other in zip(jax.tree.leaves(trained), jax.tree.leaves(expected), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-4, atol=1e-5)


def test_the_order_is_the_callers(model, rows):
    descent = Descent(NextWord(), "sgd", 0.5)
    forwards, backwards = np.arange(len(rows)), np.arange(len(rows))[::-1]
    one, other = (train_central(model, rows, [order], descent, batch_size=4) for order in (forwards, backwards))
    again = train_central(model, rows[::-1], [forwards], descent, batch_size=4)
    assert not np.allclose(one.embedding, other.embedding, atol=1e-4)
    np.testing.assert_array_equal(other.embedding, again.embedding)


def test_an_order_without_records_leaves_the_model_alone(model, rows):
    trained = train_central(model, rows, [np.empty(0, np.int64)], Descent(NextWord(), "adam", 0.1), batch_size=4)
    np.testing.assert_array_equal(trained.embedding, model.embedding)


@pytest.mark.usefixtures("short_blocks")
def test_progress_counts_steps_and_shows_a_falling_loss(model):
    told: list[tuple[int, float]] = []
    rows = np.tile(np.arange(4, 10, dtype=np.int32), (32, 1))
    train_central(
        model,
        rows,
        shuffled(len(rows), epochs=10, seed=1),
        Descent(NextWord(), "adam", 0.05),
        batch_size=8,
        on_progress=lambda done, loss: told.append((done, loss)),
    )
    assert [done for done, _ in told] == [done for epoch in range(10) for done in (4 * epoch + 3, 4 * epoch + 4)]
    assert told[-1][1] < 0.5 * told[0][1]


def test_a_model_that_is_not_finite_any_more_is_not_returned(model, rows):
    with pytest.raises(DivergedError, match="Central training diverged by step"):
        train_central(
            model, rows, shuffled(len(rows), epochs=3, seed=1), Descent(NextWord(), "sgd", 1e38), batch_size=4
        )


def test_a_shuffle_takes_every_record_once_an_epoch_and_differs_from_epoch_to_epoch():
    first, second = shuffled(50, epochs=2, seed=1)
    assert sorted(first) == sorted(second) == list(range(50))
    assert first.tolist() != second.tolist()
    assert next(shuffled(50, epochs=1, seed=1)).tolist() == first.tolist()
    assert next(shuffled(50, epochs=1, seed=2)).tolist() != first.tolist()


def test_user_by_user_keeps_a_users_records_together():
    owner = np.repeat(np.arange(4), np.diff(OFFSETS))
    seen = set()
    for records in user_by_user(OFFSETS, epochs=60, seed=1):
        assert sorted(records) == list(range(9))
        runs = [int(user) for i, user in enumerate(owner[records]) if i == 0 or owner[records][i - 1] != user]
        assert len(runs) == 3  # one stretch a user; user 1 has nothing
        for user in runs:
            assert records[owner[records] == user].tolist() == list(range(OFFSETS[user], OFFSETS[user + 1]))
        seen.add(tuple(runs))
    assert len(seen) == 6  # users come in every order


@pytest.mark.parametrize(("steps", "sizes"), [(2, [8]), (3, [10]), (4, [10, 4]), (6, [10, 10]), (9, [10, 10])])
def test_the_first_steps_of_an_order(steps, sizes):
    order = [np.arange(10), np.arange(10)]
    assert [len(each) for each in first_steps(order, steps, batch_size=4)] == sizes
