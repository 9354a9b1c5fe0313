"""The handwriting world: whole, repeatable, balanced, legible to a simple classifier, and different from writer to writer."""

from __future__ import annotations

import numpy as np
import pytest

from tacit.data.worlds import HandwritingWorld
from tacit.data.worlds.glyphs import CHARACTERS, PATHS, trace
from tacit.errors import RecipeError


@pytest.fixture(scope="module")
def world() -> HandwritingWorld:
    return HandwritingWorld(seed=5, writers=10_000)


def test_every_character_has_strokes_inside_the_writing_area() -> None:
    assert len(CHARACTERS) == 62
    assert set(PATHS) == set(CHARACTERS)
    for path in (path for forms in PATHS.values() for path in forms):
        points = trace(path, 0.05)
        assert np.abs(points[:, 0]).max() < 0.45
        assert points[:, 1].min() >= 0
        assert points[:, 1].max() < 1.4


def test_shapes_and_types(world: HandwritingWorld) -> None:
    examples = world.gather(np.array([3, 9_999, 3]))
    total = examples.user_offsets[-1]
    assert len(world) == 10_000
    assert examples.items.shape == (total, 28, 28)
    assert examples.items.dtype == np.uint8
    assert examples.labels is not None
    assert examples.labels.dtype == np.int32
    np.testing.assert_array_equal(examples.example_offsets, np.arange(total + 1))
    assert (np.diff(examples.user_offsets) >= 1).all()


def test_a_writer_does_not_depend_on_who_else_is_asked_for(world: HandwritingWorld) -> None:
    together = world.gather(np.array([7, 123, 7]))
    alone = world.gather(np.array([123]))
    start, stop = together.user_offsets[1:3]
    np.testing.assert_array_equal(together.items[start:stop], alone.items)
    assert together.labels is not None
    np.testing.assert_array_equal(together.labels[start:stop], alone.labels)
    np.testing.assert_array_equal(together.items[:start], together.items[stop:])


def test_the_seed_changes_the_writers() -> None:
    first, second = (HandwritingWorld(seed, 10).gather(np.array([0])) for seed in (1, 2))
    assert first.items.shape != second.items.shape or (first.items != second.items).any()


def test_nobody_and_bad_values(world: HandwritingWorld) -> None:
    nobody = world.gather(np.array([], dtype=np.int64))
    assert nobody.items.shape == (0, 28, 28)
    np.testing.assert_array_equal(nobody.user_offsets, [0])
    with pytest.raises(RecipeError, match=r"writers ≥ 1.*got 0"):
        HandwritingWorld(1, 0)
    with pytest.raises(RecipeError, match=r"glyphs_per_writer > 0"):
        HandwritingWorld(1, 1, glyphs_per_writer=0)


def test_ink_is_bright_on_a_dark_ground_and_stays_on_the_page(world: HandwritingWorld) -> None:
    images = world.gather(np.arange(100)).items.astype(np.float64)
    assert np.median(images) == 0
    assert images.max(axis=(1, 2)).min() > 120
    edge = np.concatenate([images[:, 0], images[:, -1], images[:, :, 0], images[:, :, -1]], axis=1)
    assert edge.sum() < 0.005 * images.sum()


def test_classes_are_balanced_and_sizes_average_out(world: HandwritingWorld) -> None:
    examples = HandwritingWorld(5, 10_000, glyphs_per_writer=12.0).gather(np.arange(600))
    counts = np.bincount(examples.labels, minlength=62)
    expected = counts.sum() / 62
    # Chi-square with 61 degrees of freedom: above 110 about once in ten thousand.
    assert ((counts - expected) ** 2 / expected).sum() < 110
    assert abs(np.diff(examples.user_offsets).mean() - 12.0) < 0.7


def _sheets(world: HandwritingWorld, writers: int, copies: int) -> np.ndarray:
    rows = [world.sheet(writer, copies).reshape(copies, 28, 62, 28) for writer in range(writers)]
    return np.stack(rows).transpose(0, 1, 3, 2, 4).astype(np.float64)  # [writers, copies, classes, 28, 28]


def test_writers_differ_more_from_each_other_than_from_themselves(world: HandwritingWorld) -> None:
    sheets = _sheets(world, writers=12, copies=3)
    within = sheets.var(axis=1, ddof=1).mean()
    between = sheets[:, 0].var(axis=0, ddof=1).mean()
    assert within > 0
    assert between > 2.1 * within


def test_a_nearest_mean_classifier_reads_writers_it_never_saw(world: HandwritingWorld) -> None:
    def features(writers: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        examples = world.gather(writers)
        # Pairs of pixels averaged: a little tolerance for position.
        pooled = examples.items.reshape(-1, 14, 2, 14, 2).mean(axis=(2, 4)).reshape(-1, 196)
        assert examples.labels is not None
        return pooled / np.linalg.norm(pooled, axis=1, keepdims=True), examples.labels

    seen, labels = features(np.arange(100))
    means = np.stack([seen[labels == label].mean(axis=0) for label in range(62)])
    unseen, truth = features(np.arange(5_000, 5_040))
    accuracy = ((unseen @ means.T - (means**2).sum(axis=1) / 2).argmax(axis=1) == truth).mean()
    assert 0.5 < accuracy < 0.99
