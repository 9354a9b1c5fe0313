"""Count every sequence of up to n words of a text with NumPy sorts.

An n-gram is identified by (index of its first n - 1 words in the table of that order, last word), packed into one integer; one
sort per order finds the distinct ones. A sentence is read as bos w₁ … wₘ eos, and an n-gram lies inside one sentence: bos
comes only first, eos only last. The n-grams form a tree by prefixes, and every n-gram also points to the shorter one without
its first word, which a back-off model backs off to.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tacit.errors import DataError

MOST_ORDER = 5
# Counts of counts are kept from 1 to this one: Good-Turing discounts of counts up to 5 need them.
MOST_COUNTED = 6


@dataclass(frozen=True)
class NgramTable:
    """The n-grams of one order, sorted by key = prefix · vocabulary + last word.

    Order 1 holds every id of the vocabulary, words that never occur included, so that index and id are the same.
    """

    keys: NDArray[np.int64]
    counts: NDArray[np.int64]
    suffix: NDArray[np.int64]  # the index, one order below, of the n-gram without its first word
    # How often each n-gram of the order below was followed by any token, dropped n-grams included.
    totals: NDArray[np.int64]
    # How many n-grams occur exactly r times, r = 0 … MOST_COUNTED, before any is dropped.
    counts_of_counts: NDArray[np.int64]


def count_ngrams(
    words: NDArray[Any],
    sentence_offsets: NDArray[np.int64],
    *,
    order: int,
    vocabulary: int,
    bos: int,
    eos: int,
    least_counts: Sequence[int] | None = None,
) -> list[NgramTable]:
    """The tables of orders 1 to `order` for these sentences (``words[sentence_offsets[i]:sentence_offsets[i + 1]]``).

    N-grams of order k that occur fewer than `least_counts[k - 1]` times are dropped. The first must be 1 and later ones must
    not be smaller, so that the prefix and the suffix of a kept n-gram are kept too.
    """
    cutoffs = _checked(order, least_counts)
    if len(sentence_offsets) < 2:
        raise DataError("There are no sentences to count n-grams on.")
    stream, age = _stream(words, sentence_offsets, bos, eos)
    places = stream  # at each position, the index of the n-gram that ends there
    seen = np.bincount(stream, minlength=vocabulary)
    seen[bos] = 0  # it is given, never predicted
    if len(seen) > vocabulary:
        raise DataError(f"Expected word ids below the vocabulary of {vocabulary}, got {len(seen) - 1}.")
    root = np.zeros(vocabulary, np.int64)
    totals = np.array([int(seen.sum())])
    levels = [NgramTable(np.arange(vocabulary, dtype=np.int64), seen, root, totals, _counts_of_counts(seen))]
    kept_before = np.arange(vocabulary, dtype=np.int64)  # from old index to new one, of the order below
    below = vocabulary
    for k in range(2, order + 1):
        at = np.flatnonzero(age >= k - 1)
        packed = places[at - 1] * vocabulary + stream[at]
        by_key = np.argsort(packed, kind="stable")
        packed = packed[by_key]
        is_first = np.ones(len(packed), bool)
        np.not_equal(packed[1:], packed[:-1], out=is_first[1:])
        first = np.flatnonzero(is_first)
        counts = np.diff(np.append(first, len(packed)))
        keys, suffix = packed[first], places[at[by_key[first]]]
        if k < order:
            places = np.full(len(stream), -1, np.int64)
            places[at[by_key]] = np.cumsum(is_first) - 1
        totals = np.bincount(keys // vocabulary, weights=counts, minlength=below).astype(np.int64)[kept_before >= 0]
        kept = counts >= cutoffs[k - 1]
        keys, suffix = keys[kept], kept_before[suffix[kept]]
        keys = kept_before[keys // vocabulary] * vocabulary + keys % vocabulary
        levels.append(NgramTable(keys, counts[kept], suffix, totals, _counts_of_counts(counts)))
        below, kept_before = len(counts), np.where(kept, np.cumsum(kept) - 1, -1)
    return levels


def _stream(
    words: NDArray[Any], offsets: NDArray[np.int64], bos: int, eos: int
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """All sentences in one array, each between bos and eos; and the distance of each token from its bos."""
    lengths = np.diff(offsets)
    starts = offsets[:-1] - offsets[0] + 2 * np.arange(len(lengths))
    stream = np.empty(int(lengths.sum()) + 2 * len(lengths), np.int64)
    is_word = np.ones(len(stream), bool)
    is_word[starts] = is_word[starts + lengths + 1] = False
    stream[starts], stream[starts + lengths + 1] = bos, eos
    stream[is_word] = words[offsets[0] : offsets[-1]]
    return stream, np.arange(len(stream)) - np.repeat(starts, lengths + 2)


def _counts_of_counts(counts: NDArray[np.int64]) -> NDArray[np.int64]:
    few = counts[counts <= MOST_COUNTED]
    return np.bincount(few, minlength=MOST_COUNTED + 1)


def _checked(order: int, least_counts: Sequence[int] | None) -> tuple[int, ...]:
    if not 1 <= order <= MOST_ORDER:
        raise DataError(f"Expected an n-gram order from 1 to {MOST_ORDER}, got {order}.")
    cutoffs = (1,) * order if least_counts is None else tuple(least_counts)
    if len(cutoffs) != order or cutoffs[0] != 1 or list(cutoffs) != sorted(cutoffs):
        raise DataError(
            f"Expected {order} least counts, one per order, the first of them 1 and none below the one before it, "
            f"got {list(cutoffs)}."
        )
    return cutoffs
