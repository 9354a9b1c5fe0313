"""An n-gram model as arrays that a reader walks without Tacit: a tree, in which every n-gram lies under its first words.

The n-grams of k + 1 words that go on from the n-gram i of k words are those from starts[i] to starts[i + 1] in the arrays of
order k + 1, ordered by their last words. `Katz` has the formula for their probabilities.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from tacit.keyboard.ngram import Katz


def tree_of(katz: Katz) -> dict[str, NDArray[Any]]:
    """The arrays by name; an order stands behind the dot, and the log of a back-off weight has that of its context."""
    arrays: dict[str, NDArray[Any]] = {"log_probabilities.1": katz.log_probabilities_kept[0].astype(np.float32)}
    for order, keys in enumerate(katz.keys, start=2):
        contexts = len(katz.log_probabilities_kept[order - 2])
        arrays |= {
            f"starts.{order}": np.searchsorted(keys, np.arange(contexts + 1) * katz.vocabulary).astype(np.int32),
            f"last_words.{order}": (keys % katz.vocabulary).astype(np.int32),
            f"log_probabilities.{order}": katz.log_probabilities_kept[order - 1].astype(np.float32),
            f"log_backoff.{order - 1}": katz.log_backoff[order - 2].astype(np.float32),
        }
    return arrays
