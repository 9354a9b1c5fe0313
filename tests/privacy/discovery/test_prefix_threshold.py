"""The threshold of words by letters: it is as low as its promise allows, and planted words of one user alone stay hidden."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.stats import binom, norm

from tacit.errors import PrivacyError
from tacit.learning.prefix_tree import grown, prefixes_of, seedling, words_of
from tacit.privacy.discovery.prefix_threshold import ROOM, prefix_threshold, shown_probability
from tests.support.spelled_people import ALPHABET, SHAPE

ROUNDS, NOISE = 3, 0.5
COORDINATES = ROUNDS * SHAPE.coordinates


def test_the_threshold_is_the_normal_quantile_above_one_share() -> None:
    found = prefix_threshold(1e-7, NOISE, COORDINATES)
    assert found == pytest.approx(1 + NOISE * norm.isf(1e-7 / COORDINATES), abs=2 * ROOM)
    assert shown_probability(found, NOISE, COORDINATES) <= 1e-7
    assert shown_probability(found - 0.01, NOISE, COORDINATES) > 1e-7


def test_it_grows_with_noise_coordinates_and_margin() -> None:
    least = prefix_threshold(1e-6, 1.0, 1000)
    assert prefix_threshold(1e-6, 2.0, 1000) > least
    assert prefix_threshold(1e-6, 1.0, 2000) > least
    assert prefix_threshold(1e-6, 1.0, 1000, margin=0.5) == pytest.approx(least + 0.5, abs=1e-6)


@pytest.mark.parametrize("delta", [0.0, 1.0, math.nan])
def test_a_probability_that_is_none(delta: float) -> None:
    with pytest.raises(PrivacyError, match="shown_delta"):
        prefix_threshold(delta, 1.0, 10)


def test_nothing_is_promised_without_numbers() -> None:
    assert shown_probability(math.inf, math.nan, 10) == 1.0
    assert shown_probability(1.0, 0.0, 10) == 1.0
    assert shown_probability(1.1, 0.0, 10) == 0.0


def shown(threshold: float, runs: int) -> int:
    """In how many seeded runs something is shown though nobody shares a word with anybody else.

    The worst case: whatever prefixes live, every coordinate has the whole contribution of a user of its own.
    """
    draw, count = np.random.default_rng(7), 0
    for _ in range(runs):
        model, something = seedling(SHAPE, ROUNDS), False
        for round in range(ROUNDS):
            totals = (1.0 + NOISE * draw.standard_normal(SHAPE.coordinates)).astype(np.float32)
            model = grown(SHAPE, model, totals, threshold, ROUNDS - 1 - round)
            something |= bool(words_of(model, ALPHABET) or prefixes_of(model, ALPHABET))
        count += something
    return count


def test_what_one_user_alone_has_is_shown_as_rarely_as_promised() -> None:
    delta, runs = 0.05, 400
    most = binom.isf(1e-6, runs, delta)
    assert 0 < shown(prefix_threshold(delta, NOISE, COORDINATES), runs) <= most
    # The test can fail: without the margin for the user's own share, it is shown far too often.
    assert shown(prefix_threshold(delta, NOISE, COORDINATES) - 1.0, runs) > most
