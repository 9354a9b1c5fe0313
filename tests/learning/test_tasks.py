"""A loss function is a task: its step is plain SGD on the mean loss, whatever the model is made of."""

from __future__ import annotations

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from tacit.errors import RecipeError
from tacit.learning.next_word import NextWord, evaluate
from tacit.learning.tasks import LossTask, as_task, mean_metrics
from tacit.models.word_lm import WordLMConfig, build

MODEL = {"slope": np.float32([2.0, -1.0]), "name": "line", "shape": np.int32([2]), "activation": jnp.tanh}
BATCH = {
    "x": np.float32([[1.0, 2.0], [3.0, 0.0], [9.0, 9.0]]),
    "y": np.float32([1.0, 0.0, 7.0]),
    "mask": np.float32([1, 1, 0]),
}
EMPTY = {**BATCH, "mask": np.zeros(3, np.float32)}


def squares(model: Any, batch: Any) -> tuple[jax.Array, jax.Array]:
    """Not a number where nothing is masked in, as a careless loss is."""
    error = (batch["x"] @ model["slope"] - batch["y"]) * batch["mask"]
    mean = jnp.sum(error**2) / jnp.sum(batch["mask"])
    return mean * jnp.sum(batch["mask"]), jnp.sum(batch["mask"]).astype(jnp.int32)


def test_a_step_goes_down_the_mean_loss_and_keeps_everything_that_is_not_a_parameter() -> None:
    moved = as_task(squares).sgd_step(MODEL, BATCH, 0.1)
    # Errors 0 - 1 and 6 - 0; the gradient of their mean square is x' error.
    np.testing.assert_allclose(moved["slope"], MODEL["slope"] - 0.1 * np.array([-1 + 18, -2.0]), rtol=1e-6)
    assert (moved["name"], moved["activation"]) == ("line", jnp.tanh)
    assert moved["shape"] is MODEL["shape"]


def test_a_batch_without_predictions_changes_nothing_even_where_its_gradient_is_not_a_number() -> None:
    moved = as_task(squares).sgd_step(MODEL, EMPTY, 0.1)
    np.testing.assert_array_equal(moved["slope"], MODEL["slope"])


def test_a_tasks_own_step_stays_and_an_object_with_a_loss_alone_gets_one() -> None:
    assert as_task(NextWord()) == NextWord()

    class OnlyLoss:
        def loss_sum(self, model: Any, batch: Any) -> tuple[jax.Array, jax.Array]:
            return squares(model, batch)

        def scores(self, model: Any, tokens: Any) -> jax.Array:
            return tokens

    task = as_task(OnlyLoss())
    assert isinstance(task, LossTask)
    assert task.scores is not None
    assert task.metrics is None
    np.testing.assert_array_equal(
        task.sgd_step(MODEL, BATCH, 0.1)["slope"], as_task(squares).sgd_step(MODEL, BATCH, 0.1)["slope"]
    )


@pytest.mark.parametrize("given", [3, NextWord, None])
def test_what_is_no_task_is_refused(given: Any) -> None:
    with pytest.raises(RecipeError, match="Expected a task: a function"):
        as_task(given)


def test_metrics_are_means_over_all_batches() -> None:
    model = build(WordLMConfig(vocabulary=9, embedding=3, units=4, projection=3), key=jax.random.key(1))
    rows = np.random.default_rng(0).integers(2, 9, (6, 5)).astype(np.int32)
    rows[4:, 2:] = 0
    found, expected = mean_metrics(NextWord(), model, [rows[None, :3], rows[None, 3:]]), evaluate(model, rows)
    shares = {"top1", "top3", "in_vocabulary_top1", "papers_top1", "papers_top3"}
    assert set(found) == {"loss", *shares}
    for name in shares:
        assert found[name] == pytest.approx(getattr(expected, name))
    assert np.exp(found["loss"]) == pytest.approx(expected.perplexity, rel=1e-5)
    assert mean_metrics(NextWord(), model, [np.zeros((1, 2, 5), np.int32)])["loss"] == 0.0


def test_next_word_reads_any_model_that_gives_logits_as_it_reads_a_word_model() -> None:
    model = build(WordLMConfig(vocabulary=9, embedding=3, units=4, projection=3), key=jax.random.key(1))
    rows, task = np.random.default_rng(0).integers(2, 9, (6, 5)).astype(np.int32), NextWord()
    wrapped = jax.tree_util.Partial(lambda inner, tokens: inner(tokens), model)
    loss_sum, sgd_step = eqx.filter_jit(task.loss_sum), eqx.filter_jit(task.sgd_step)
    np.testing.assert_allclose(loss_sum(wrapped, rows), loss_sum(model, rows), rtol=1e-5)
    fast, plain = sgd_step(model, rows, 0.5), sgd_step(wrapped, rows, 0.5)
    for one, other in zip(jax.tree.leaves(fast), jax.tree.leaves(plain), strict=True):
        np.testing.assert_allclose(one, other, atol=1e-6)
