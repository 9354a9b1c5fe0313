"""Words are the cipher's key stream, and subsets made of them are exactly uniform."""

from __future__ import annotations

import itertools
import math
from collections import Counter

import numpy as np
import pytest
from scipy import stats

from tacit.privacy.random_words import CipherWords, subset, words
from tacit.privacy.randomness import Randomness

KEY = bytes(range(32))


class Given:
    """Words that the test has chosen, one after the other."""

    def __init__(self, *given: int) -> None:
        self._given = list(given)

    def integers(self, low: int, high: int, *, size: int, dtype: type[np.uint64]) -> np.ndarray:
        taken, self._given = self._given[:size], self._given[size:]
        return np.array(taken + [0] * (size - len(taken)), np.uint64)


def test_words_are_the_key_stream_of_chacha20():
    """RFC 8439, appendix A.1, test vectors 1 and 2: a key of zeros, counters 0 and 1."""
    stream = CipherWords(bytes(32))
    first, _ = words(stream, 2), words(stream, 6)
    assert first.astype("<u8").tobytes().hex() == "76b8e0ada0f13d90405d6ae55386bd28"
    assert words(stream, 8)[:2].astype("<u8").tobytes().hex() == "9f07e7be5551387a98ba977c732d080d"


def test_words_are_uniform_in_every_bit():
    bits = np.unpackbits(words(CipherWords(KEY), 100_000).view(np.uint8)).reshape(-1, 64)
    assert np.abs(bits.mean(axis=0) - 0.5).max() < 5 * 0.5 / math.sqrt(100_000)


def test_only_whole_words_are_given_and_no_more_than_the_counter_has():
    with pytest.raises(ValueError, match="whole words of 64 bits to be asked for, got 0 to 10"):
        CipherWords(KEY).integers(0, 10, size=3)
    with pytest.raises(ValueError, match="at most 34359738368 more words"):
        words(CipherWords(KEY), (1 << 35) + 1)


@pytest.mark.parametrize("size", [0, 1, 2, 3, 4, 5])
def test_every_subset_comes_equally_often(size: int):
    source = CipherWords(KEY)
    counts = Counter(tuple(subset(5, size, source).tolist()) for _ in range(6_000))
    assert set(counts) == set(itertools.combinations(range(5), size))
    assert len(counts) == 1 or stats.chisquare(list(counts.values())).pvalue > 1e-4


def test_words_beyond_the_last_whole_multiple_are_thrown_away():
    """2⁶⁴ = 3 · 6148914691236517205 + 1: the last word would make 0 more likely than 1 and 2."""
    assert subset(3, 1, Given(2**64 - 1, 2)).tolist() == [2]
    assert subset(3, 1, Given(2**64 - 2, 1)).tolist() == [2]  # (2⁶⁴ - 2) mod 3 = 2


def test_the_first_different_values_are_taken_and_not_the_smallest():
    assert subset(1000, 3, Given(900, 900, 800, 900, 700, 1, 2, 3)).tolist() == [700, 800, 900]


def test_a_large_subset_is_uniform_over_people():
    chosen = np.zeros(400, np.int64)
    source = CipherWords(KEY)
    for _ in range(2_000):
        chosen[subset(400, 130, source)] += 1
    assert chosen.sum() == 2_000 * 130
    # Given the total, counts vary by (1 - 130/400) of what they would independently.
    statistic = ((chosen - 650) ** 2 / 650 / (1 - 130 / 400) * 399 / 400).sum()
    assert 1e-4 < stats.chi2(399).sf(statistic) < 1 - 1e-4


@pytest.mark.parametrize("size", [-1, 6])
def test_a_size_that_cannot_be_is_one_sentence(size: int):
    with pytest.raises(ValueError, match=f"Expected a size from 0 to 5, got {size}"):
        subset(5, size, CipherWords(KEY))


def test_every_round_and_attempt_draws_words_of_its_own_with_a_key_of_256_bits():
    randomness = Randomness(KEY)
    drawn = [
        words(randomness.sampler(round=round, attempt=attempt), 1)[0]
        for round, attempt in itertools.product(range(10), range(3))
    ]
    assert len(set(drawn)) == 30
    assert words(CipherWords(randomness.derive("sample", round=3, attempt=1, size=32)), 1)[0] == drawn[3 * 3 + 1]
