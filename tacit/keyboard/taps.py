"""Simulate typing on a touch screen: noisy taps, and the keyboard's decoder that infers the word.

The layout is a telephone's QWERTY: three rows of letters, the second half a key to the right of the first, the third one
and a half; keys are one unit wide and `KEY_HEIGHT` high. A tap for a letter lands around the centre of its key, normally
distributed and independent in both directions (standard deviations `spread` · width and `spread` · height).

A word is typed by its letters: users leave accents and apostrophes to the keyboard, so "it's" and "its" are the same taps.
Words with any other character (digits, punctuation, other scripts) are not typed here and not counted.

On-the-fly rescoring: candidates are the words of the lexicon with as many letters as there were taps (taps are
misplaced, never missing or repeated) whose log p(taps | word) is at most `reach` below the best one's. The candidate with the
highest

    log p(taps | word) + language_weight · log P(word | the words before)

is committed.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from tacit.data.users import FIRST_WORD

ROWS = (("qwertyuiop", 0.0), ("asdfghjkl", 0.5), ("zxcvbnm", 1.5))
KEY_HEIGHT = 1.4
LETTERS = "abcdefghijklmnopqrstuvwxyz"
_BLOCK = 4096  # words scored against the lexicon at a time, in some tens of megabytes


def _centres() -> NDArray[np.float64]:
    places = {
        letter: (shift + column + 0.5, KEY_HEIGHT * (row + 0.5))
        for row, (letters, shift) in enumerate(ROWS)
        for column, letter in enumerate(letters)
    }
    return np.array([places[letter] for letter in LETTERS])


CENTRES = _centres()  # [26, 2]: x and y, in key widths
_SCALE = np.array([1.0, KEY_HEIGHT])
_KEYS = (CENTRES / _SCALE).astype(np.float32)  # in widths and heights, where a tap's spread is the same both ways


@dataclass(frozen=True)
class Typist:
    """How users type and how long it takes them; words per minute follow from this.

    A word of n letters costs n + 1 taps (the space too). A wrongly committed word also costs the time to
    notice, n deletions, and n + 1 taps to type it again without a mistake.
    """

    spread: float = 0.35
    reach: float = 15.0
    language_weight: float = 1.0
    tap_seconds: float = 0.28
    delete_seconds: float = 0.12
    notice_seconds: float = 0.8

    def seconds(self, letters: NDArray[np.int64], is_wrong: NDArray[np.bool_]) -> NDArray[np.float64]:
        """The time to type words with these numbers of letters."""
        taps = (letters + 1) * self.tap_seconds
        again = self.notice_seconds + letters * self.delete_seconds + taps
        return np.asarray(taps + is_wrong * again, np.float64)


@dataclass(frozen=True)
class Keyboard:
    """A lexicon, by the keys of its words. `length[id]` is the number of letters of a word, 0 if it cannot be typed."""

    typist: Typist
    length: NDArray[np.int64]  # [vocabulary]
    letters: NDArray[np.int64]  # [vocabulary, longest]: which letter, 0 beyond the word's end
    by_length: dict[int, tuple[NDArray[np.int64], NDArray[np.float32]]] = field(repr=False)

    @classmethod
    def of(cls, words: Sequence[str], typist: Typist | None = None) -> Keyboard:
        """The keyboard of a vocabulary, its reserved entries included: word i has the id i."""
        spelled = [""] * FIRST_WORD + [letters_of(word) for word in words[FIRST_WORD:]]
        length = np.array([len(each) for each in spelled], np.int64)
        letters = np.zeros((len(words), max(1, int(length.max(initial=0)))), np.int64)
        for i, each in enumerate(spelled):
            letters[i, : len(each)] = [LETTERS.index(letter) for letter in each]
        by_length = {}
        for n in np.unique(length[length > 0]).tolist():
            ids = np.flatnonzero(length == n)
            # Column j picks, for each tap, the score of the letter that word j has there: rows are (tap, letter).
            picks = np.zeros((n, len(LETTERS), len(ids)), np.float32)
            picks[np.arange(n)[:, None], letters[ids, :n].T, np.arange(len(ids))] = 1.0
            by_length[n] = (ids, picks.reshape(n * len(LETTERS), len(ids)))
        return cls(typist or Typist(), length, letters, by_length)

    def candidates(self, words: NDArray[np.integer], generator: np.random.Generator) -> Candidates:
        """Draw taps for these words and find the candidates of each; every word must be one that can be typed."""
        noise = generator.standard_normal((len(words), self.letters.shape[1], 2))
        away = (CENTRES[self.letters[words]] / _SCALE + self.typist.spread * noise).astype(np.float32)
        row, ids, spatial = [np.empty(0, np.int64)], [np.empty(0, np.int64)], [np.empty(0, np.float32)]
        for n, (lexicon, picks) in self.by_length.items():
            typed = np.flatnonzero(self.length[words] == n)
            for start in range(0, len(typed), _BLOCK):
                block = typed[start : start + _BLOCK]
                distance = (away[block, :n, None] - _KEYS) ** 2  # [rows, tap, letter, direction]
                scores = distance.sum(axis=-1).reshape(len(block), -1) @ picks
                scores *= -0.5 / self.typist.spread**2
                near, which = np.nonzero(scores >= scores.max(axis=1, keepdims=True) - self.typist.reach)
                row.append(block[near])
                ids.append(lexicon[which])
                spatial.append(scores[near, which])
        rows = np.concatenate(row)
        order = np.argsort(rows, kind="stable")
        offsets = np.concatenate([[0], np.cumsum(np.bincount(rows, minlength=len(words)))])
        return Candidates(offsets, np.concatenate(ids)[order], np.concatenate(spatial)[order])


@dataclass(frozen=True)
class Candidates:
    """The candidates of typed word i: entries offsets[i] to offsets[i + 1] of `ids`, and log p(taps | word) of each."""

    offsets: NDArray[np.int64]
    ids: NDArray[np.int64]
    spatial: NDArray[np.float32]

    def commit(
        self, first: int, log_probabilities: NDArray[np.float32], language_weight: float = 1.0
    ) -> NDArray[np.int64]:
        """The word committed for each of the words from `first` on, one a row of `log_probabilities` [rows, vocabulary].

        Among equal scores the smaller id wins. If the model's scores are nan, -1 is committed, which is never right.
        """
        starts = self.offsets[first : first + len(log_probabilities)]
        stop = self.offsets[first + len(log_probabilities)]
        ids = self.ids[starts[0] : stop]
        row = np.repeat(np.arange(len(starts)), np.diff(np.append(starts, stop)))
        scores = self.spatial[starts[0] : stop] + np.float32(language_weight) * log_probabilities[row, ids]
        best = np.flatnonzero(scores == np.maximum.reduceat(scores, starts - starts[0])[row])
        committed = np.full(len(starts), -1, np.int64)
        committed[row[best[::-1]]] = ids[best[::-1]]
        return committed


def letters_of(word: str) -> str:
    """The letters that type a word; empty if it has a character without a key."""
    plain = "".join(c for c in unicodedata.normalize("NFD", word) if not unicodedata.combining(c)).replace("'", "")
    return plain if plain and all(c in LETTERS for c in plain) else ""
