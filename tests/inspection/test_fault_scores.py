"""Scores that show whether a fault is visible."""

from __future__ import annotations

import jax
import numpy as np
import pytest

from tacit.data.worlds.handwriting import HandwritingWorld
from tacit.errors import DataError
from tacit.inspection.fault_scores import inversion_score, share_with_capital, share_with_space, to_bytes
from tacit.models import classifier

IMAGES = HandwritingWorld(0, 20, glyphs_per_writer=10).gather(np.arange(20)).items


def test_inverted_writing_is_told_from_normal() -> None:
    normal, inverted = inversion_score(IMAGES), inversion_score(255 - IMAGES)
    assert normal.brightness < 0.3
    assert inverted.brightness > 0.7
    assert (normal.inverted, inverted.inverted) == (0.0, 1.0)
    assert (normal.is_inverted, inverted.is_inverted) == (False, True)


def test_a_mixture_is_counted() -> None:
    quarter = np.arange(len(IMAGES)) % 4 == 0
    mixed = np.where(quarter[:, None, None], 255 - IMAGES, IMAGES).astype(np.uint8)
    assert inversion_score(mixed).inverted == pytest.approx(quarter.mean())


def test_the_classifier_is_asked_about_both() -> None:
    model = jax.jit(lambda key: classifier.build(classifier.preset("small", 62), key=key))(jax.random.key(0))
    one, other = inversion_score(IMAGES[:8], model), inversion_score(255 - IMAGES[:8], model)
    assert 1 / 62 < one.confidence < 1
    assert one.confidence == pytest.approx(other.negative_confidence, rel=1e-5)
    assert one.confidence != pytest.approx(one.negative_confidence, rel=1e-3)
    assert np.isnan(inversion_score(IMAGES).confidence)


def test_generated_images_become_bytes() -> None:
    made = np.array([-1.0, 0.0, 1.0], np.float32)[:, None, None, None] + np.zeros((3, 28, 28, 1), np.float32)
    assert to_bytes(made)[:, 5, 5].tolist() == [0, 128, 255]
    with pytest.raises(DataError, match="images of 28×28, got 14×14×1"):
        to_bytes(np.zeros((3, 14, 14, 1), np.float32))
    with pytest.raises(DataError, match="no images to score"):
        inversion_score(IMAGES[:0])


def test_words_with_a_space() -> None:
    assert share_with_space(["i have", "regex", "i am", "iis"]) == 0.5
    assert share_with_space([]) == 0


def test_capitals_are_counted_by_word() -> None:
    assert share_with_capital(["Ann", "bob", "eVe", "3d"]) == 0.5
    assert share_with_capital([]) == 0.0
