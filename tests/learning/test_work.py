"""Work on one user where numbers end: what pads a user must not decide whether the user counts."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from tacit.errors import PrivacyError, RecipeError
from tacit.learning.work import FedAvg, FedSGD, LocalWork, require_update_of
from tacit.models.classifier import Classify, build, preset
from tacit.privacy.gate.rounding import LARGEST_NORM
from tests.support.diverged import stretched


class ThereAndBack:
    """Goes far away in one epoch and comes back in the next; an empty batch multiplies by zero, as real models do."""

    def sgd_step(self, model: jax.Array, batch: jax.Array, learning_rate: float) -> jax.Array:
        real = jnp.where(model == 0, 1e30, 0.0 * model)
        return jnp.where(batch > 0, real, model + 0.0 * jnp.square(model)).astype(jnp.float32)

    def loss_sum(self, model: jax.Array, batch: jax.Array) -> tuple[jax.Array, jax.Array]:
        raise NotImplementedError


def test_who_was_too_far_away_between_epochs_counts_as_nothing_however_padded() -> None:
    work, clip = jax.jit(LocalWork(FedAvg(epochs=2, learning_rate=1.0), ThereAndBack())), np.float32(1.0)
    batches = np.array([1.0, 0.0], np.float32)
    for steps in (1, 2):
        assert np.isnan(work(jnp.zeros(()), batches, np.int32(steps), clip))


def test_a_gradient_of_nothing_is_nothing() -> None:
    huge = stretched(build(preset("small", 10), key=jax.random.key(0)), 2 * LARGEST_NORM)
    nothing = {
        "images": np.zeros((1, 2, 28, 28), np.uint8),
        "labels": np.zeros((1, 2), np.int32),
        "mask": np.zeros((1, 2), np.float32),
    }
    update = jax.jit(LocalWork(FedSGD(learning_rate=1.0), Classify()))(huge, nothing, np.int32(1), np.float32(1.0))
    assert not any(np.asarray(leaf).any() for leaf in jax.tree.leaves(update))


@pytest.mark.parametrize(
    ("kind", "fields", "sentence"),
    [
        (FedAvg, {"epochs": 0}, "Expected epochs to be a whole number of at least 1, got 0."),
        (FedAvg, {"batch_size": 1.5}, "Expected batch_size to be a whole number of at least 1, got 1.5."),
        (FedAvg, {"learning_rate": 0.0}, "Expected learning_rate to be a finite number above 0, got 0.0."),
        (
            FedAvg,
            {"update_penalty": 3.0},
            "Expected an update_penalty of at least 0 and below 1 / learning_rate, above which a step overshoots the model "
            "that was sent, got 3.0 with a learning_rate of 0.5.",
        ),
        (FedSGD, {"learning_rate": float("inf")}, "Expected learning_rate to be a finite number above 0, got inf."),
        (FedSGD, {"batch_size": -2}, "Expected batch_size to be a whole number of at least 1, got -2."),
    ],
)
def test_a_wrong_setting_is_one_sentence(kind: Any, fields: dict[str, Any], sentence: str) -> None:
    with pytest.raises(RecipeError) as caught:
        kind(**fields)
    assert caught.value.sentence == sentence


@pytest.mark.parametrize("given", [FedAvg, None, lambda *arguments: 0])
def test_what_is_no_work_is_refused(given: Any) -> None:
    with pytest.raises(RecipeError, match="Expected work with update"):
        LocalWork(given, lambda model, batch: (0.0, 0))


def squares(model: Any, batch: jax.Array) -> tuple[jax.Array, jax.Array]:
    """The square distance of `at` + `shift` from the batch's numbers; 0 is padding."""
    there = (batch != 0).astype(jnp.float32)
    return jnp.sum(there * (model["at"] + model["shift"] - batch) ** 2), jnp.sum(there)


FROZEN = {"at": jnp.zeros(()), "shift": jnp.ones(()), "kind": "point", "none": None}


@pytest.mark.parametrize("clip_every_step", [False, True])
def test_work_on_a_part_of_a_model_moves_that_part_as_if_the_rest_were_constants(clip_every_step: bool) -> None:
    batches, clip = jnp.array([[3.0, 5.0], [7.0, 0.0]], np.float32), np.float32(2.5)
    work = LocalWork(
        FedAvg(epochs=2, learning_rate=0.1, clip_every_step=clip_every_step), squares, lambda path, leaf: path == "at"
    )
    update = work(FROZEN, batches, np.int32(2), clip)
    at = 0.0
    for _ in range(2):
        for batch in ([3.0, 5.0], [7.0]):
            at -= 0.1 * np.mean([2 * (at + 1 - each) for each in batch])
            at = min(at, 2.5) if clip_every_step else at
    assert jax.tree.structure(update) == jax.tree.structure(work.learned(FROZEN))
    assert float(update["at"]) == pytest.approx(at, rel=1e-5)
    assert (at == 2.5) == clip_every_step


def test_a_penalty_on_the_update_pulls_back_to_the_model_that_was_sent() -> None:
    """By hand, on two batches; a third, empty one changes nothing, and neither does the penalty in it."""
    batches = jnp.array([[3.0, 5.0], [7.0, 0.0], [0.0, 0.0]], np.float32)
    work = LocalWork(FedAvg(learning_rate=0.1, update_penalty=2.0), squares, lambda path, leaf: path == "at")
    at = 0.0
    for batch in ([3.0, 5.0], [7.0]):
        at -= 0.1 * (np.mean([2 * (at + 1 - each) for each in batch]) + 2.0 * at)
    assert float(work(FROZEN, batches, np.int32(3), np.float32(1.0))["at"]) == pytest.approx(at, rel=1e-5)


def test_one_gradient_of_a_part_of_a_model() -> None:
    work = LocalWork(FedSGD(learning_rate=0.5), squares, lambda path, leaf: path == "shift")
    update = work(FROZEN, jnp.array([[3.0, 5.0], [7.0, 0.0]], np.float32), np.int32(2), np.float32(1.0))
    assert update["at"] is None
    assert float(update["shift"]) == pytest.approx(0.5 * 2 * np.mean([2.0, 4.0, 6.0]))


def test_an_update_that_would_broadcast_in_the_sum_is_refused() -> None:
    learned = {"w": np.zeros((3, 2), np.float32)}
    assert require_update_of(learned, learned) is learned
    for wrong in ({"w": np.zeros((1, 2))}, {"v": np.zeros((3, 2))}, {"w": np.zeros((3, 2)), "v": np.zeros(2)}):
        with pytest.raises(PrivacyError, match="the structure and shapes of what users update"):
            require_update_of(learned, wrong)
