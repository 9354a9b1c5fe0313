"""The histogram of accuracies as work behind the gate, and what is read from a released one."""

from __future__ import annotations

from functools import cache
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from tacit.data.worlds.handwriting import HandwritingWorld
from tacit.errors import DataError, PrivacyError
from tacit.inspection.example_scores import image_judge
from tacit.inspection.images.accuracy_histogram import AccuracyWork, percentile, share_beyond
from tacit.learning.batches import image_batches
from tacit.models import classifier
from tacit.models.classifier import Classifier, Classify

BINS = 10
EXAMPLES = HandwritingWorld(3, 12, glyphs_per_writer=7, most_glyphs=16).gather(np.arange(12))
BATCHES = image_batches(EXAMPLES, batch_size=4, steps=4)


@cache
def learned() -> Classifier:
    """A classifier that gets some of these images right."""
    model = classifier.build(classifier.preset("small", 62), key=jax.random.key(0))
    batch: Any = {
        "images": jnp.asarray(EXAMPLES.items),
        "labels": jnp.asarray(EXAMPLES.labels),
        "mask": jnp.ones(len(EXAMPLES.items), jnp.float32),
    }
    for _ in range(8):
        model = jax.jit(Classify().sgd_step)(model, batch, 0.3)
    return model


def places(batches: Any) -> np.ndarray:
    work = jax.vmap(AccuracyWork(learned()), in_axes=(None, 0, None, None))
    return np.asarray(work(jnp.zeros((BINS,), jnp.float32), batches, np.int32(4), np.float32(1.0)))


def test_a_user_stands_in_the_bin_of_his_own_accuracy() -> None:
    marks = image_judge(learned())(EXAMPLES).by_user(EXAMPLES.user_offsets)
    expected = np.minimum(marks.right * BINS // marks.asked, BINS - 1)
    assert len(set(expected.tolist())) > 2  # or the test would say little
    found = places(BATCHES)
    assert found.argmax(axis=1).tolist() == expected.tolist()
    assert (found.sum(axis=1) == 1).all()
    assert (np.linalg.norm(found, axis=1) <= 1).all()


def test_who_has_no_images_stands_nowhere() -> None:
    nobody = {name: np.zeros_like(leaf) for name, leaf in BATCHES.items()}
    assert not places(nobody).any()


def test_percentiles_of_a_release() -> None:
    histogram = np.array([10.0, 0.0, 0.0, 30.0, 60.0])
    assert [percentile(histogram, share, side="low") for share in (0.05, 0.25, 0.75)] == [0.2, 0.8, 1.0]
    assert [percentile(histogram, share, side="high") for share in (0.05, 0.25, 0.75)] == [0.0, 0.6, 0.8]
    assert percentile(np.array([-3.0, 5.0]), 0.1, side="low") == 1.0


def test_the_users_beyond_a_threshold_are_at_least_the_share_asked_for() -> None:
    counts = np.random.default_rng(0).integers(0, 50, 20).astype(float)
    for share in (0.1, 0.25, 0.5, 0.9):
        low, high = (percentile(counts, share, side=side) for side in ("low", "high"))
        assert share_beyond(counts, low, side="low") >= share * counts.sum()
        assert share_beyond(counts, high, side="high") >= (1 - share) * counts.sum()
        assert share_beyond(counts, low, side="low") + share_beyond(counts, low, side="high") == counts.sum()
    assert share_beyond(np.array([1.0, -2.0, 4.0, 8.0]), 0.6, side="low") == 3.0
    assert share_beyond(np.array([1.0, -2.0, 4.0, 8.0]), 0.6, side="high") == 12.0


def test_wrong_use_is_one_sentence() -> None:
    with pytest.raises(DataError, match="between 0 and 1, got 25"):
        percentile(np.ones(3), 25, side="low")
    with pytest.raises(PrivacyError, match="the noise is larger than the counts"):
        percentile(-np.ones(3), 0.5, side="low")
