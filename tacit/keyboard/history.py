"""Mix a language model with the history of its user: the user history component of Production's baseline.

The base model P can be any model that reads word by word. c_u are the counts over the last `memory` tokens that the user typed,
N the number of words among them, v the last token, and P_u a bigram model of these counts:

    P_u(w | v) = μ c_u(v w) / c_u(v ·) + (1 - μ) c_u(w) / N      if v was followed by a word before
               = c_u(w) / N                                     otherwise
    P'(w | h)  = (1 - λ_N) P(w | h) + λ_N P_u(w | v),           λ_N = λ N / (N + K)

so a user without history gets P itself, and a long history gets the weight λ. The history is part of the reader's state, which
stays on the device and is never saved with the model.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

State = tuple[NDArray[Any], ...]


class _Base(Protocol):
    """The base model; see `tacit.learning.stepwise`."""

    @property
    def vocabulary(self) -> int: ...
    def begin(self, batch: int) -> State: ...
    def read(self, state: State, tokens: NDArray[np.integer]) -> State: ...
    def log_probabilities(self, state: State) -> NDArray[np.float32]: ...


@dataclass(frozen=True)
class WithHistory:
    """`base` mixed with the user's history; weight, bigram_share, half_way and memory are λ, μ, K and `memory` above."""

    base: _Base
    bos: int
    weight: float = 0.3
    bigram_share: float = 0.5
    half_way: float = 50.0
    memory: int = 512

    @property
    def vocabulary(self) -> int:
        """The number of ids."""
        return self.base.vocabulary

    def begin(self, batch: int) -> State:
        """The state of users who have typed nothing."""
        return (np.full((batch, self.memory), -1, np.int32), *self.base.begin(batch))

    def read(self, state: State, tokens: NDArray[np.integer]) -> State:
        """The state after one more token of each user; a bos begins a sentence and forgets nothing."""
        typed, *rest = state
        after = np.concatenate([typed[:, 1:], tokens[:, None].astype(np.int32)], axis=1)
        return (after, *self.base.read(tuple(rest), tokens))

    def log_probabilities(self, state: State) -> NDArray[np.float32]:
        """log P' of every word, [users, vocabulary]."""
        typed, *rest = state
        mixed = np.array(self.base.log_probabilities(tuple(rest)))
        is_word = (typed >= 0) & (typed != self.bos)
        after_same = np.zeros_like(is_word)
        after_same[:, 1:] = is_word[:, 1:] & (typed[:, :-1] == typed[:, -1:])
        words, pairs = is_word.sum(axis=1), after_same.sum(axis=1)
        weight = self.weight * words / (words + self.half_way)
        mixed += np.log1p(-weight).astype(np.float32)[:, None]
        # Only the few words that the user has typed differ from the base model.
        singles = self._counts(typed, is_word)
        place = np.flatnonzero(singles)
        row = place // self.vocabulary
        share = np.where(pairs > 0, self.bigram_share, 0.0)[row]
        own = share * self._counts(typed, after_same)[place] / np.maximum(pairs, 1)[row]
        own += (1 - share) * singles[place] / words[row]
        flat = mixed.reshape(-1)
        flat[place] = np.logaddexp(flat[place], np.log(weight[row] * own))
        return mixed

    def _counts(self, typed: NDArray[Any], counted: NDArray[np.bool_]) -> NDArray[np.int64]:
        """How often each user typed each id at the `counted` places: flat [users · vocabulary]."""
        row, place = np.nonzero(counted)
        return np.bincount(row * self.vocabulary + typed[row, place], minlength=len(typed) * self.vocabulary)
