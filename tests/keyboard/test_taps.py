"""Taps: the layout is QWERTY, errors have the stated size, and candidates and committed words follow the definition."""

from __future__ import annotations

import numpy as np
import pytest

from tacit.keyboard.taps import CENTRES, KEY_HEIGHT, LETTERS, Keyboard, Typist, letters_of

RESERVED = ["<pad>", "<bos>", "<eos>", "<oov>"]
WORDS = [*RESERVED, "hit", "hot", "it's", "its", "a", "s", "don't", ",", "b2b", "niño", "quays"]


def number(word: str) -> int:
    return WORDS.index(word)


def test_neighbours_on_the_layout() -> None:
    def distance(a: str, b: str) -> float:
        return float(np.linalg.norm(CENTRES[LETTERS.index(a)] - CENTRES[LETTERS.index(b)]))

    assert distance("q", "w") == distance("a", "s") == distance("n", "m") == pytest.approx(1)
    assert distance("q", "a") == pytest.approx(np.hypot(0.5, KEY_HEIGHT))
    nearest = min((c for c in LETTERS if c != "g"), key=lambda c: distance("g", c))
    assert nearest in "fh"
    assert distance("q", "p") == pytest.approx(9)


def test_what_can_be_typed() -> None:
    assert [letters_of(word) for word in ("it's", "niño", ",", "b2b", "да", "'")] == ["its", "nino", "", "", "", ""]
    keyboard = Keyboard.of(WORDS)
    assert keyboard.length[:4].tolist() == [0, 0, 0, 0]
    assert keyboard.length[[number("it's"), number(","), number("b2b"), number("quays")]].tolist() == [3, 0, 0, 5]


def test_candidates_and_their_scores_are_the_density_of_the_taps() -> None:
    typist = Typist(spread=0.4, reach=9.0)
    keyboard = Keyboard.of(WORDS, typist)
    words = np.array([number(word) for word in ("hit", "a", "quays", "its")] * 30)
    found = keyboard.candidates(words, np.random.default_rng(4))
    noise = np.random.default_rng(4).standard_normal((len(words), keyboard.letters.shape[1], 2))
    scale = 0.4 * np.array([1.0, KEY_HEIGHT])
    for i, word in enumerate(words):
        n = int(keyboard.length[word])
        taps = CENTRES[keyboard.letters[word, :n]] + scale * noise[i, :n]
        scores = {
            w: float(-0.5 * (((taps - CENTRES[keyboard.letters[w, :n]]) / scale) ** 2).sum())
            for w in range(len(WORDS))
            if keyboard.length[w] == n
        }
        near = {w: score for w, score in scores.items() if score >= max(scores.values()) - 9.0}
        entries = slice(found.offsets[i], found.offsets[i + 1])
        assert found.ids[entries].tolist() == sorted(near)
        np.testing.assert_allclose(found.spatial[entries], [near[w] for w in sorted(near)], rtol=1e-3, atol=1e-3)


def test_the_language_model_decides_what_the_taps_leave_open() -> None:
    keyboard = Keyboard.of(WORDS, Typist(spread=0.01))
    typed = np.array([number("its"), number("it's"), number("hit")])
    candidates = keyboard.candidates(typed, np.random.default_rng(0))
    guesses = np.full((3, len(WORDS)), -5.0, np.float32)
    guesses[:, number("it's")] = -1.0
    assert candidates.commit(0, guesses).tolist() == [number("it's"), number("it's"), number("hit")]
    assert candidates.commit(1, guesses[1:]).tolist() == [number("it's"), number("hit")]
    assert candidates.commit(0, np.full_like(guesses, -5.0)).tolist() == [number("it's"), number("it's"), number("hit")]
    assert candidates.commit(0, np.full_like(guesses, np.nan)).tolist() == [-1, -1, -1]


def test_fingers_miss_as_often_as_stated() -> None:
    """One-letter words "a" and "s", keys side by side: a tap errs when it crosses the middle, P = Φ(-0.5 / spread)."""
    keyboard = Keyboard.of(WORDS, Typist(spread=0.35))
    words = np.full(40_000, number("a"))
    candidates = keyboard.candidates(words, np.random.default_rng(1))
    wrong = float((candidates.commit(0, np.zeros((len(words), len(WORDS)), np.float32)) != number("a")).mean())
    expected = 0.07656  # Φ(-0.5 / 0.35)
    assert wrong == pytest.approx(expected, abs=4 * np.sqrt(expected * (1 - expected) / len(words)))


def test_the_timing_model() -> None:
    typist = Typist(tap_seconds=0.5, delete_seconds=0.25, notice_seconds=2.0)
    assert typist.seconds(np.array([3, 3]), np.array([False, True])).tolist() == [2.0, 2.0 + 2.0 + 0.75 + 2.0]
