"""Work on one user where numbers end: what pads a user must not decide whether the user counts."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np

from tacit.learning.work import FedAvg, FedSGD
from tacit.models.classifier import Classify, build, preset
from tacit.privacy.gate.rounding import LARGEST_NORM
from tests.helpers import stretched


class ThereAndBack:
    """Goes far away in one epoch and comes back in the next; an empty batch multiplies by zero, as real models do."""

    def sgd_step(self, model: jax.Array, batch: jax.Array, learning_rate: float) -> jax.Array:
        real = jnp.where(model == 0, 1e30, 0.0 * model)
        return jnp.where(batch > 0, real, model + 0.0 * jnp.square(model)).astype(jnp.float32)

    def loss_sum(self, model: jax.Array, batch: jax.Array) -> tuple[jax.Array, jax.Array]:
        raise NotImplementedError


def test_who_was_too_far_away_between_epochs_counts_as_nothing_however_padded() -> None:
    work, clip = jax.jit(FedAvg(ThereAndBack(), epochs=2, learning_rate=1.0)), np.float32(1.0)
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
    update = jax.jit(FedSGD(Classify(), learning_rate=1.0))(huge, nothing, np.int32(1), np.float32(1.0))
    assert not any(np.asarray(leaf).any() for leaf in jax.tree.leaves(update))
