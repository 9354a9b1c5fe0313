"""A protocol for models that read word by word, as a keyboard does, so that all are evaluated in the same way.

An n-gram model (`tacit.keyboard.ngram.Katz`), one with a user's history (`tacit.keyboard.history.WithHistory`) and a neural
model (`Neural`, here) all have it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray

from tacit.data.users import BOS
from tacit.models.layers.cells import run
from tacit.models.layers.precision import product
from tacit.models.word_lm import WordLM

# A model's state after reading several rows; the first axis of every array is the row.
State = tuple[NDArray[Any], ...]


class Stepwise(Protocol):
    """A next-word model that reads several texts side by side, one token at a time.

    A bos begins a new sentence: what came before it in the row is another sentence of the same user.
    """

    @property
    def vocabulary(self) -> int:
        """How many ids there are."""
        ...

    def begin(self, batch: int) -> State:
        """The state of so many users who have typed nothing."""
        ...

    def read(self, state: State, tokens: NDArray[np.integer]) -> State:
        """The state after one more token a row; tokens [rows]."""
        ...

    def log_probabilities(self, state: State) -> NDArray[np.float32]:
        """The log probability of every id as the next token: [rows, vocabulary]."""
        ...


def select(state: State, rows: Any) -> State:
    """The state of these rows alone, in this order; a row may be taken more than once."""
    return tuple(array[rows] for array in state)


@dataclass(frozen=True)
class Neural:
    """A word model as a `Stepwise`; each sentence is read from an empty state."""

    model: WordLM

    @property
    def vocabulary(self) -> int:
        """How many ids there are."""
        return len(self.model.embedding)

    def begin(self, batch: int) -> State:
        """The empty state, and as output what will be overwritten by the first bos."""
        leaves = jax.tree.leaves(self.model.initial_state())
        width = self.model.output_table().shape[1]
        empty = [np.broadcast_to(np.asarray(leaf), (batch, *leaf.shape)) for leaf in leaves]
        return (*empty, np.zeros((batch, width), np.float32))

    def read(self, state: State, tokens: NDArray[np.integer]) -> State:
        """The state after one more token a row."""
        *cell, _ = _padded(state, len(tokens))
        (padded,) = _padded((tokens.astype(np.int32),), len(tokens))
        return tuple(np.asarray(leaf)[: len(tokens)] for leaf in _read(self.model, tuple(cell), padded))

    def log_probabilities(self, state: State) -> NDArray[np.float32]:
        """Log softmax of the logits."""
        outputs = state[-1]
        return np.asarray(_log_probabilities(self.model, _padded((outputs,), len(outputs))[0]))[: len(outputs)]

    def logits(self, state: State) -> NDArray[np.float32]:
        """The score of every id as the next token: [rows, vocabulary]."""
        outputs = state[-1]
        return np.asarray(_logits(self.model, _padded((outputs,), len(outputs))[0]))[: len(outputs)]


@eqx.filter_jit
def _read(model: WordLM, cell: tuple[Any, ...], tokens: Any) -> tuple[jax.Array, ...]:
    empty = model.initial_state()
    begins = (tokens == BOS)[:, None]
    leaves = [jnp.where(begins, start, now) for start, now in zip(jax.tree.leaves(empty), cell, strict=True)]
    state = jax.tree.unflatten(jax.tree.structure(empty), leaves)
    last, outputs, _ = run(model.cell, model.rows(tokens)[None], state, "float32")
    return (*jax.tree.leaves(last), outputs[0])


@eqx.filter_jit
def _log_probabilities(model: WordLM, outputs: Any) -> jax.Array:
    return jax.nn.log_softmax(_logits(model, outputs))


@eqx.filter_jit
def _logits(model: WordLM, outputs: Any) -> jax.Array:
    logits = product(outputs, model.output_table(), "float32", contract=(1, 1))
    return logits if model.output_bias is None else logits + model.output_bias


def _padded(state: State, rows: int) -> State:
    """Rows up to the next power of two, at least 16, so that few shapes are compiled."""
    wanted = max(16, 1 << (rows - 1).bit_length())
    return tuple(np.pad(array, [(0, wanted - rows)] + [(0, 0)] * (array.ndim - 1)) for array in state)
