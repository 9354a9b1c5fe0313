"""The classifier: its size, its loss, what it learns, and what it refuses."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from tacit.data.worlds.handwriting import HandwritingWorld
from tacit.errors import DataError, RecipeError
from tacit.learning.central import Descent
from tacit.models.classifier import Classify, ImageBatch, build, predict, preset
from tacit.privacy.gate.rounding import LARGEST_NORM
from tests.support.diverged import stretched


@pytest.mark.parametrize(
    ("name", "classes", "count"),
    [("paper", 62, 1_206_590), ("paper", 10, 1_199_882), ("small", 62, 112_942), ("small", 10, 109_562)],
)
def test_presets_have_the_documented_sizes(name: str, classes: int, count: int) -> None:
    shapes = jax.eval_shape(lambda key: build(preset(name, classes), key=key), jax.random.key(0))
    assert sum(leaf.size for leaf in jax.tree.leaves(shapes)) == count
    assert shapes.classes == classes


def test_the_papers_layers_give_classes() -> None:
    def logits(key: jax.Array) -> jax.Array:
        return build(preset("paper", 62), key=key)(jnp.zeros((28, 28), jnp.uint8))

    assert jax.eval_shape(logits, jax.random.key(0)).shape == (62,)


def test_wrong_settings_and_images_are_one_sentence() -> None:
    with pytest.raises(RecipeError, match="among paper, small, got 'big'"):
        preset("big", 10)
    with pytest.raises(RecipeError, match="at least 2 classes, got 1"):
        preset("small", 1)
    with pytest.raises(DataError, match="images of 28×28 for the classifier, got 32×32"):
        predict(build(preset("small", 10), key=jax.random.key(0)), np.zeros((3, 32, 32), np.uint8))


def batch_of(images: np.ndarray, labels: np.ndarray, mask: np.ndarray) -> ImageBatch:
    return {"images": jnp.asarray(images), "labels": jnp.asarray(labels), "mask": jnp.asarray(mask, jnp.float32)}


def test_padding_is_not_learned_from() -> None:
    model, task = build(preset("small", 10), key=jax.random.key(0)), Classify()
    step = jax.jit(task.sgd_step)
    images = np.random.default_rng(0).integers(0, 256, (4, 28, 28), dtype=np.uint8)
    labels = np.array([1, 2, 3, 4], np.int32)
    half = step(model, batch_of(images, labels, np.array([1, 1, 0, 0])), 0.1)
    alone = step(model, batch_of(images[:2], labels[:2], np.ones(2)), 0.1)
    nothing = step(model, batch_of(images, labels, np.zeros(4)), 0.1)
    huge = stretched(model, 2 * LARGEST_NORM)
    still = step(huge, batch_of(images, labels, np.zeros(4)), 0.1)
    for a, b, c, d, e, f in zip(*map(jax.tree.leaves, (half, alone, nothing, model, still, huge)), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-6)
        np.testing.assert_array_equal(c, d)
        np.testing.assert_array_equal(e, f)
    assert float(jax.jit(task.loss_sum)(model, batch_of(images, labels, np.zeros(4)))[1]) == 0


def test_it_learns_handwriting() -> None:
    world = HandwritingWorld(0, 60, glyphs_per_writer=60)
    examples = world.gather(np.arange(60))
    assert examples.labels is not None
    digits = examples.labels < 10
    images, labels = examples.items[digits], examples.labels[digits]
    model, descent = build(preset("small", 10), key=jax.random.key(0)), Descent(Classify(), "adam", 2e-3)
    state, step = descent.init(model), jax.jit(descent.step)
    held_out = len(images) // 4
    order = np.random.default_rng(0)
    for _ in range(150):
        chosen = order.integers(held_out, len(images), 32)
        model, state = step(model, state, batch_of(images[chosen], labels[chosen], np.ones(32)))
    # Single images give what a padded chunk gives.
    np.testing.assert_array_equal(predict(model, images[:1]), predict(model, images[:held_out])[:1])
    assert (predict(model, images[:held_out]) == labels[:held_out]).mean() > 0.8
    inverted = (predict(model, 255 - images[:held_out]) == labels[:held_out]).mean()
    assert inverted < 0.5
