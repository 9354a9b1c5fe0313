"""The hand-written SGD step against plain autodiff, in every shape the model can have."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.flatten_util import ravel_pytree

from tacit.models.layers import cells
from tacit.models.layers.sgd import sgd_step
from tacit.models.word_lm import Batch, WordLM, WordLMConfig, build, loss_sum
from tacit.privacy.gate.rounding import LARGEST_NORM
from tests.support.diverged import stretched

RATE = 0.5
step = jax.jit(sgd_step, static_argnames="precision")
# Width of the projection, whether it is fed back, whether the embeddings are tied.
SHAPES = [(5, True, True), (5, False, True), (4, True, False), (4, False, False), (None, False, False)]


def batch_of(key: jax.Array, shape: tuple[int, int] = (3, 3), vocabulary: int = 17) -> Batch:
    tokens = jax.random.randint(key, (shape[0], shape[1] + 1), 0, vocabulary, dtype=jnp.int32)
    return {"tokens": tokens, "mask": jnp.ones(shape, jnp.float32).at[1, 2:].set(0.0)}


@jax.jit
def by_autodiff(model: WordLM, batch: Batch) -> WordLM:
    def mean_loss(model: WordLM) -> jax.Array:
        total, count = loss_sum(model, batch)
        return total / jnp.maximum(count, 1.0)

    return jax.tree.map(lambda p, g: p - RATE * g, model, jax.grad(mean_loss)(model))


def assert_close(found: Any, expected: Any, tolerance: float) -> None:
    assert jax.tree.structure(found) == jax.tree.structure(expected)
    for a, b in zip(jax.tree.leaves(found), jax.tree.leaves(expected), strict=True):
        np.testing.assert_allclose(a, b, rtol=0, atol=tolerance)


@pytest.mark.parametrize("cell", ["lstm", "cifg"])
@pytest.mark.parametrize(
    "shape", [SHAPES[0], SHAPES[3], *(pytest.param(SHAPES[i], marks=pytest.mark.slow) for i in (1, 2, 4))]
)
def test_step_equals_autodiff(cell: Any, shape: tuple[int | None, bool, bool]) -> None:
    projection, fed_back, tied = shape
    batch = batch_of(jax.random.key(1))
    for bias, unit_norm in ((False, False), (True, True)) if cell == "lstm" else ((True, False), (False, True)):
        config = WordLMConfig(17, 5, 9, projection, cell, fed_back, tied, bias, unit_norm)
        model = build(config, key=jax.random.key(2))
        expected = by_autodiff(model, batch)
        moved = max(
            float(jnp.max(jnp.abs(a - b))) for a, b in zip(*map(jax.tree.leaves, (expected, model)), strict=True)
        )
        assert moved > 1e-2
        assert_close(step(model, batch, RATE), expected, 3e-7)


def test_a_loop_that_is_not_unrolled_is_the_same_mathematics(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cells, "UNROLL", 1)
    batch = batch_of(jax.random.key(1))
    model = build(WordLMConfig(17, 5, 9, 5, output_bias=True), key=jax.random.key(2))
    looped = jax.jit(lambda model: sgd_step(model, batch, RATE))(model)
    assert_close(looped, by_autodiff(model, batch), 3e-7)


@pytest.mark.parametrize("cell", ["lstm", "cifg"])
@pytest.mark.parametrize("unit_norm", [False, True])
@pytest.mark.parametrize("precision", ["float32", pytest.param("bf16", marks=pytest.mark.slow)])
def test_a_batch_without_predictions_changes_nothing(cell: Any, unit_norm: bool, precision: Any) -> None:
    config = WordLMConfig(17, 5, 9, 5, cell, output_bias=True, unit_norm=unit_norm)
    batch: Batch = {"tokens": jnp.zeros((3, 7), jnp.int32), "mask": jnp.zeros((3, 6), jnp.float32)}
    small = build(config, key=jax.random.key(2))
    for model in (small, stretched(small, 2 * LARGEST_NORM)):  # a model and an update as long as they may be
        for a, b in zip(*map(jax.tree.leaves, (step(model, batch, RATE, precision=precision), model)), strict=True):
            np.testing.assert_array_equal(a, b)


def test_users_side_by_side_equal_users_one_by_one() -> None:
    model = build(WordLMConfig(17, 5, 9, 5, output_bias=True), key=jax.random.key(2))
    batches = [batch_of(key) for key in jax.random.split(jax.random.key(3), 3)]
    together = jax.vmap(lambda batch: sgd_step(model, batch, RATE))(jax.tree.map(lambda *a: jnp.stack(a), *batches))
    for i, batch in enumerate(batches):
        assert_close(jax.tree.map(lambda a, i=i: a[i], together), step(model, batch, RATE), 3e-7)


@pytest.mark.parametrize("unit_norm", [pytest.param(False, marks=pytest.mark.slow), True])
def test_bf16_stays_near_float32(unit_norm: bool) -> None:
    model = build(WordLMConfig(17, 5, 9, 5, output_bias=True, unit_norm=unit_norm), key=jax.random.key(2))
    batch = batch_of(jax.random.key(1))
    steps = [
        ravel_pytree(jax.tree.map(jnp.subtract, step(model, batch, RATE, precision=p), model))[0]
        for p in ("float32", "bf16")
    ]
    assert 0 < float(jnp.linalg.norm(steps[1] - steps[0]) / jnp.linalg.norm(steps[0])) < 0.02
