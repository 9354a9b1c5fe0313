"""Sentences laid out as rows of equal length, the shape in which a model reads them.

A row of `length` predictions holds length + 1 tokens: token j + 1 is what the model must guess after token j. Two layouts:

- ``windows``: a user's sentences, each as bos w₁ … wₙ eos, are joined into one stream and cut every `length`
  predictions (DP-FedAvg's unroll); nothing is wasted on padding but a sentence may be cut in two.
- ``sentences``: one sentence a row, from its bos, cut off after `length` predictions.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from tacit.data.ragged import offsets_of
from tacit.data.users import BOS, EOS, PAD, Examples

Layout = Literal["windows", "sentences"]


@dataclass(frozen=True)
class Rows:
    """Rows of several users back to back: `tokens` [rows, length + 1]; user u owns user_offsets[u] to user_offsets[u+1]."""

    tokens: NDArray[np.int32]
    user_offsets: NDArray[np.int64]

    def sizes(self) -> NDArray[np.int64]:
        """How many rows each user has."""
        return np.diff(self.user_offsets)

    def predictions(self) -> NDArray[np.int64]:
        """How many predictions each user's rows ask for: n_k of the user weights."""
        targets = self.tokens[:, 1:]
        per_row = ((targets != PAD) & (targets != BOS)).sum(axis=1, dtype=np.int64)
        summed = offsets_of(per_row)
        return summed[self.user_offsets[1:]] - summed[self.user_offsets[:-1]]


def to_rows(examples: Examples, *, layout: Layout, length: int, max_rows: int) -> Rows:
    """Lay out text; a user keeps the first `max_rows` rows."""
    max_rows = min(max_rows, np.iinfo(np.int64).max)
    lengths = np.diff(examples.example_offsets)
    if layout == "windows":
        # Where each sentence starts in the stream of all sentences, each two tokens longer than its words.
        starts = examples.example_offsets[:-1] - examples.example_offsets[0] + 2 * np.arange(len(lengths))
        stream = np.empty(int(lengths.sum()) + 2 * len(lengths), np.int32)
        is_word = np.ones(len(stream), bool)
        is_word[starts] = is_word[starts + lengths + 1] = False
        stream[starts], stream[starts + lengths + 1] = BOS, EOS
        stream[is_word] = examples.items[examples.example_offsets[0] : examples.example_offsets[-1]]
        ends = np.concatenate([starts, [len(stream)]])
        begin, end = ends[examples.user_offsets[:-1]], ends[examples.user_offsets[1:]]
        # A stream of n tokens asks for n - 1 predictions; the next row starts at the last token of this one.
        counts = np.minimum(-(-np.maximum(end - begin - 1, 0) // length), max_rows)
        user_offsets = offsets_of(counts)
        which = np.repeat(np.arange(len(counts)), counts)
        first = begin[which] + (np.arange(len(which)) - user_offsets[which]) * length
        return Rows(_cut(stream, first, end[which], length), user_offsets)
    counts = np.minimum(np.diff(examples.user_offsets), max_rows)
    user_offsets = offsets_of(counts)
    which = np.repeat(np.arange(len(counts)), counts)
    sentence = examples.user_offsets[which] + np.arange(len(which)) - user_offsets[which]
    tokens = np.full((len(sentence), length + 1), PAD, np.int32)
    tokens[:, 0] = BOS
    if examples.items.size:
        words = _cut(
            examples.items, examples.example_offsets[sentence], examples.example_offsets[sentence + 1], length - 1
        )
        tokens[:, 1:] = words
    closed = np.flatnonzero(lengths[sentence] < length)
    tokens[closed, lengths[sentence[closed]] + 1] = EOS
    return Rows(tokens, user_offsets)


def _cut(
    source: NDArray[np.generic], first: NDArray[np.int64], end: NDArray[np.int64], length: int
) -> NDArray[np.int32]:
    """source[first : min(first + length + 1, end)] for each row, padded."""
    index = first[:, None] + np.arange(length + 1)
    inside = index < end[:, None]
    return np.where(inside, source[np.where(inside, index, 0)].astype(np.int32), np.int32(PAD))


def pack(rows: Rows, users: NDArray[np.int64], *, batch_size: int, steps: int) -> NDArray[np.int32]:
    """The rows of these users as batches: [users, steps, batch_size, length + 1], short users padded."""
    slots = steps * batch_size
    index = rows.user_offsets[users][:, None] + np.arange(slots)
    inside = index < rows.user_offsets[users + 1][:, None]
    if not len(rows.tokens):
        return np.full((len(users), steps, batch_size, rows.tokens.shape[1]), PAD, np.int32)
    packed = np.where(inside[..., None], rows.tokens[np.where(inside, index, 0)], np.int32(PAD))
    return packed.reshape(len(users), steps, batch_size, rows.tokens.shape[1])
