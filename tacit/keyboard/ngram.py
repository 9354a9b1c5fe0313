"""A Katz back-off n-gram model, the language model of keyboards before neural ones.

Slava Katz, "Estimation of probabilities from sparse data for the language model component of a speech recognizer" (1987);
the baseline of Production, section III. With h a context, h' the same without its oldest word, c the counts of the text:

    P(w | h) = d(c(hw)) · c(hw) / c(h·)      if hw was counted and kept
             = α(h) · P(w | h')              otherwise; α(h) makes the sum over w one

down to single words, which back off to the uniform distribution over all that can be guessed (every id but padding and
bos). The discounts of an order come from its counts of counts n_r (Good-Turing as in
Katz; counts above k = 5 are not discounted):

    d(r) = (r*/r - A) / (1 - A),   r* = (r + 1) n_{r+1} / n_r,   A = (k + 1) n_{k+1} / n_1,   r ≤ k;   d(r) = 1 beyond.

The formula leaves three cases open:

- too few counts: an order where some n_r (r = 1 … k + 1) is 0, or some d(r) is not strictly between 0 and 1, takes the absolute
  discount d(r) = (r - D) / r for every r, with D = n₁ / (n₁ + 2 n₂), or 1/2 where that is not strictly between 0 and 1;
- a context without probability left for other words (all its counts above k, none dropped) has one added to its c(h·);
- a context that was followed by every possible word does not back off: its probabilities are scaled to sum to one.
"""

from __future__ import annotations

import json
import zipfile
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tacit.errors import DataError
from tacit.keyboard.ngram_counts import MOST_COUNTED, NgramTable, count_ngrams

TRUSTED_ABOVE = 5
_NOTHING = 1e-9  # a smaller share of a context's mass is rounding
_FORMAT = "tacit-katz-1"

State = tuple[NDArray[Any], ...]


@dataclass(frozen=True)
class Katz:
    """The model. Entry i of the arrays of order k is one n-gram; the arrays of order 1 have one entry per id.

    A reader's state holds, for each row, the indices of the n-grams of its last 1, 2, … words, -1 for unseen ones.
    `provenance` says whose text was counted; unless `is_public`, the model has no privacy guarantee.
    """

    vocabulary: int
    keys: tuple[NDArray[np.int64], ...]  # by order, from 2
    log_probabilities_kept: tuple[NDArray[np.float64], ...]  # by order, from 1: log P(last word | the words before)
    log_backoff: tuple[NDArray[np.float64], ...]  # by length of context, from 1: log α
    provenance: str
    is_public: bool
    fingerprint: str = ""  # of the vocabulary its ids belong to

    @property
    def order(self) -> int:
        """The number of words of the longest n-gram."""
        return len(self.log_probabilities_kept)

    @property
    def size(self) -> int:
        """The number of n-grams, single words included."""
        return sum(map(len, self.log_probabilities_kept))

    def begin(self, batch: int) -> State:
        """The state of rows that have read nothing."""
        return (np.full((batch, self.order - 1), -1, np.int64),)

    def read(self, state: State, tokens: NDArray[np.integer]) -> State:
        """The state after one more token per row; a bos clears the context before it."""
        (before,) = state
        after = np.full(before.shape, -1, np.int64)
        if self.order > 1:
            after[:, 0] = tokens
        for k in range(1, self.order - 1):
            after[:, k] = self._find(k - 1, before[:, k - 1], tokens)
        return (after,)

    def log_probabilities(self, state: State) -> NDArray[np.float32]:
        """log P(w | what each row has read): [rows, vocabulary]; padding and bos are never next (-inf)."""
        (contexts,) = state
        beyond = np.zeros(len(contexts))  # log α of all longer contexts of each row
        pieces = []
        for k in range(self.order - 2, -1, -1):
            if not len(self.log_backoff[k]):  # no sentence has so many words
                continue
            context = contexts[:, k]
            known = context >= 0
            pieces.append((k, np.where(known, context, 0), known, beyond))
            beyond = beyond + np.where(known, self.log_backoff[k][context], 0.0)
        rows: NDArray[np.float32] = beyond.astype(np.float32)[:, None] + self._singles
        for k, context, known, longer in reversed(pieces):  # the longer context overrides the shorter one
            starts, ends = self._children[k][context], self._children[k][context + 1]
            lengths = np.where(known, ends - starts, 0)
            row = np.repeat(np.arange(len(rows)), lengths)
            place = np.repeat(starts - (np.cumsum(lengths) - lengths), lengths) + np.arange(len(row))
            rows[row, self._last_words[k][place]] = self.log_probabilities_kept[k + 1][place] + longer[row]
        return rows

    def log_probability(self, state: State, tokens: NDArray[np.integer]) -> NDArray[np.float64]:
        """log P(token | what each row has read), one token per row; equal to its entry of `log_probabilities`."""
        (contexts,) = state
        found = self.log_probabilities_kept[0][tokens]
        for k in range(self.order - 1):
            if not len(self.log_backoff[k]):
                continue
            context = contexts[:, k]
            found = found + np.where(context >= 0, self.log_backoff[k][context], 0.0)
            if len(self.keys[k]):
                place = self._find(k, context, tokens)
                found = np.where(place >= 0, self.log_probabilities_kept[k + 1][place], found)
        return found

    def save(self, path: Path) -> None:
        """Write the model as a NumPy archive (.npz)."""
        about = {
            "format": _FORMAT,
            "vocabulary": self.vocabulary,
            "order": self.order,
            "provenance": self.provenance,
            "is_public": self.is_public,
            "fingerprint": self.fingerprint,
        }
        arrays: dict[str, Any] = {"about": np.array(json.dumps(about))}
        for name in ("keys", "log_probabilities_kept", "log_backoff"):
            arrays |= {f"{name}.{i}": array for i, array in enumerate(getattr(self, name))}
        try:
            with open(path, "wb") as file:
                np.savez_compressed(file, **arrays)
        except OSError as error:
            raise DataError(f"Cannot write the n-gram model {path} ({error.strerror}).") from None

    # Derived once from the fields, and needed at every step.

    @cached_property
    def _children(self) -> tuple[NDArray[np.int64], ...]:
        """Where each context's n-grams begin among those of the next order, and where the last one's end."""
        return tuple(
            np.searchsorted(keys, np.arange(len(contexts) + 1) * self.vocabulary)
            for keys, contexts in zip(self.keys, self.log_probabilities_kept, strict=False)
        )

    @cached_property
    def _last_words(self) -> tuple[NDArray[np.int32], ...]:
        return tuple((keys % self.vocabulary).astype(np.int32) for keys in self.keys)

    @cached_property
    def _singles(self) -> NDArray[np.float32]:
        return self.log_probabilities_kept[0].astype(np.float32)

    def _find(self, k: int, contexts: NDArray[np.int64], tokens: NDArray[np.integer]) -> NDArray[np.int64]:
        """The index of each context with its token among the n-grams of order k + 2, -1 if it was not kept."""
        keys = self.keys[k]
        if not len(keys):
            return np.full(len(contexts), -1, np.int64)
        wanted = contexts * self.vocabulary + tokens
        place = np.minimum(np.searchsorted(keys, wanted), len(keys) - 1)
        return np.where((contexts >= 0) & (keys[place] == wanted), place, -1)


def train_katz(
    words: NDArray[Any],
    sentence_offsets: NDArray[np.int64],
    *,
    order: int,
    vocabulary: int,
    bos: int,
    eos: int,
    never: Sequence[int],
    provenance: str,
    is_public: bool,
    least_counts: Sequence[int] | None = None,
    fingerprint: str = "",
) -> Katz:
    """Count and smooth these sentences; `never` are ids that are never predicted (padding, bos). See also `count_ngrams`."""
    levels = count_ngrams(
        words, sentence_offsets, order=order, vocabulary=vocabulary, bos=bos, eos=eos, least_counts=least_counts
    )
    guessable = vocabulary - len(set(never))
    seen = levels[0].counts > 0
    singles, backoff = _estimate(levels[0], np.zeros(int(seen.sum()), np.int64), seen, None, guessable)
    probabilities = np.full(vocabulary, backoff[0] / guessable)
    probabilities[seen] = singles
    probabilities[list(never)] = 0.0
    kept, backoffs = [probabilities], []
    for level in levels[1:]:
        found, backoff = _estimate(level, level.keys // vocabulary, ..., kept[-1], guessable)
        kept.append(found)
        backoffs.append(backoff)
    with np.errstate(divide="ignore"):
        return Katz(
            vocabulary,
            tuple(level.keys for level in levels[1:]),
            tuple(np.log(each) for each in kept),
            tuple(np.log(each) for each in backoffs),
            provenance,
            is_public,
            fingerprint,
        )


def _estimate(
    level: NgramTable, context: NDArray[np.int64], some: Any, below: NDArray[np.float64] | None, guessable: int
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """P of the n-grams in `some`, and α of every context; `below` is P of the order below, None for the uniform one."""
    counts, totals = level.counts[some], level.totals.astype(np.float64)
    mass = discounts(level.counts_of_counts)(counts) * counts
    kept_mass = np.bincount(context, mass, len(totals))
    totals = totals + (totals - kept_mass <= _NOTHING * totals)
    shorter = np.full(len(counts), 1 / guessable) if below is None else below[level.suffix[some]]
    followers = np.bincount(context, minlength=len(totals))
    is_complete = followers == guessable
    totals = np.where(is_complete, kept_mass, totals)
    left = np.where(is_complete, 0.0, 1.0 - kept_mass / totals)
    left_below = np.where(is_complete, 1.0, 1.0 - np.bincount(context, shorter, len(totals)))
    never_followed = followers == 0  # its n-grams were all dropped, or it always ended a sentence
    return mass / totals[context], np.where(never_followed, 1.0, left / np.maximum(left_below, _NOTHING**2))


def discounts(counts_of_counts: NDArray[np.int64]) -> Any:
    """The function r ↦ d(r) for an order with these counts of counts (see the module docstring)."""
    n = counts_of_counts.astype(np.float64)
    r = np.arange(1, TRUSTED_ABOVE + 1)
    if np.all(n[1 : MOST_COUNTED + 1] > 0):
        beyond = (TRUSTED_ABOVE + 1) * n[TRUSTED_ABOVE + 1] / n[1]
        turing = (r + 1) * n[r + 1] / (n[r] * r)
        if beyond < 1:
            found = (turing - beyond) / (1 - beyond)
            if np.all((found > 0) & (found < 1)):
                table = np.concatenate([[0.0], found, [1.0]])
                return lambda counts: table[np.minimum(counts, TRUSTED_ABOVE + 1)]
    share = n[1] / (n[1] + 2 * n[2]) if n[1] > 0 and n[2] > 0 else 0.5
    return lambda counts: (counts - share) / counts


def load_katz(path: Path) -> Katz:
    """Read a model that `Katz.save` wrote."""
    try:
        with open(path, "rb") as file, np.load(file, allow_pickle=False) as archive:
            about = json.loads(str(archive["about"]))
            if about["format"] != _FORMAT:
                raise ValueError
            order = int(about["order"])

            def arrays(name: str, count: int) -> tuple[Any, ...]:
                return tuple(archive[f"{name}.{i}"] for i in range(count))

            return Katz(
                int(about["vocabulary"]),
                arrays("keys", order - 1),
                arrays("log_probabilities_kept", order),
                arrays("log_backoff", order - 1),
                str(about["provenance"]),
                bool(about["is_public"]),
                str(about["fingerprint"]),
            )
    except FileNotFoundError:
        raise DataError(f"There is no n-gram model {path}.") from None
    except (KeyError, ValueError, TypeError, OSError, EOFError, zipfile.BadZipFile):
        raise DataError(f"The file {path} is not an n-gram model of Tacit, or it is damaged.") from None
