"""Which words get a place: the public order where noise dominates, people's own use where it stands out."""

from __future__ import annotations

import numpy as np
import pytest

from tacit.privacy.discovery.ranking import best_words, smoothed
from tacit.privacy.discovery.release import WordTotals


def zipf(size: int) -> np.ndarray:
    return 2000 / (10 + np.arange(size))


def test_smoothing_is_closer_to_the_truth_than_the_noisy_totals() -> None:
    draw = np.random.default_rng(0)
    truth = zipf(5_000) * draw.lognormal(0, 0.8, 5_000)
    noisy = truth + 5 * draw.standard_normal(5_000)
    estimate = smoothed(noisy, 5.0)
    assert np.mean((estimate - truth) ** 2) < 0.5 * np.mean((noisy - truth) ** 2)


def test_pure_noise_moves_no_word_far_from_the_public_order() -> None:
    draw = np.random.default_rng(1)
    values = smoothed(5 * draw.standard_normal(5_000), 5.0)
    assert np.std(values) < 0.15 * 5


def test_a_rare_word_that_stands_out_is_not_smoothed_away() -> None:
    values = np.zeros(5_000)
    values[4_000] = 60.0
    assert smoothed(values, 5.0)[4_000] >= 60 - 3 * 5


def test_without_noise_the_totals_stay_as_they_are() -> None:
    values = np.array([3.0, 9.0, 1.0, 5.0])
    assert smoothed(values, 1e-12) == pytest.approx(values)


def test_a_word_that_people_use_much_more_moves_up_and_found_words_take_part() -> None:
    listed = {f"w{number}": float(value) for number, value in enumerate(zipf(2_000))}
    listed["w1500"] = 180.0
    words = best_words(WordTotals(listed, {"found": 150.0, "rare": 0.001}, 1.0), 100)
    assert "w1500" in words
    assert "found" in words
    assert "rare" not in words
    assert len(words) == 100


def test_fewer_words_than_places() -> None:
    assert best_words(WordTotals({"a": 2.0}, {"b": 3.0}, 1.0), 10) == ("b", "a")
    assert best_words(WordTotals({}, {}, 1.0), 10) == ()
