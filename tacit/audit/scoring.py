"""The log-perplexities of very many phrases after one prefix, in a few large matrix products.

Phrases with a common beginning share its computation. Sorted, they form a tree: the words of level k are children of the
beginnings of length k - 1, and each beginning is read once. A chunk is a run of sorted phrases that fits into the device's
memory; in it, level by level,

    score(word)      = score(beginning) + logsumexp(T o + b) - (T_word · o + b_word)      o: the output after the beginning
    state, o (word)  = cell(state(beginning), word)                                       but at the last level

so the [beginnings, V] product is only needed for its logsumexp and is freed with the chunk. For two million phrases of three
words out of ten thousand, the first two levels cost almost nothing, because there are few distinct beginnings.

A secret is scored by the same sums as the phrases it is compared with. (The last bit of a product may differ between chunks.)
On an accelerator products are in TF32 by default, for secrets and other phrases alike, so that all scores are values of one
function of the model. `benchmarks/audit.py` measures the effect on ranks.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from numpy.typing import NDArray

from tacit.data.users import BOS
from tacit.errors import AuditError
from tacit.models.layers.cells import State, run
from tacit.models.layers.precision import Precision, product
from tacit.models.word_lm import WordLM

# Phrases per chunk: on an accelerator some gigabytes of logits at 10,000 words, on a CPU few enough for its caches.
_CHUNK = {"cpu": 512}
_CHUNK_ELSEWHERE = 65_536
# A CPU always multiplies in float32.
USUAL: Precision = "tf32"


@dataclass(frozen=True)
class Beginnings:
    """A model after each of several prefixes: its state, its output, and the logsumexp of its logits."""

    state: State  # [prefixes, ...]
    outputs: Array  # [prefixes, P]
    normaliser: Array  # [prefixes]


jax.tree_util.register_dataclass(Beginnings, ["state", "outputs", "normaliser"], [])


@dataclass(frozen=True)
class Forest:
    """Phrases as one tree per chunk, on the device. A level holds each node's parent in the level above, and its word."""

    levels: list[tuple[Array, Array]]  # each a pair of [chunks, nodes]
    # The phrase of each leaf, sorted; the last phrase is repeated to fill the last chunk.
    order: NDArray[np.int64]
    same: NDArray[np.int64]  # leaves of equal phrases have equal numbers, ascending
    phrases: int


def build_forest(phrases: NDArray[np.int32], *, chunk: int | None = None) -> Forest:
    """The trees of phrases [N, length], to be scored after any number of prefixes."""
    count, length = phrases.shape
    size = min(chunk or _CHUNK.get(jax.default_backend(), _CHUNK_ELSEWHERE), count)
    order = _sorted(phrases)
    order = np.concatenate([order, np.repeat(order[-1:], -count % size)])
    rows = phrases[order].reshape(-1, size, length)
    fresh = np.ones(
        rows.shape[:2], bool
    )  # whether a row's beginning of this length differs from that of the row before
    fresh[:, 1:] = False
    above = np.zeros(rows.shape[:2], np.int64)  # the node of each row's beginning
    levels = []
    for level in range(length - 1):
        fresh = fresh.copy()
        fresh[:, 1:] |= rows[:, 1:, level] != rows[:, :-1, level]
        node = np.cumsum(fresh, axis=1) - 1
        chunks, columns = np.nonzero(fresh)
        parent = np.zeros((len(rows), int(node.max()) + 1), np.int32)
        word = np.zeros_like(parent)
        parent[chunks, node[fresh]] = above[chunks, columns]
        word[chunks, node[fresh]] = rows[chunks, columns, level]
        levels.append((parent, word))
        above = node
    levels.append((above.astype(np.int32), rows[:, :, -1]))
    flat = rows.reshape(-1, length)
    same = np.cumsum(np.concatenate([[False], (flat[1:] != flat[:-1]).any(axis=1)]))
    return Forest(jax.device_put(levels), order, same, count)


def _sorted(phrases: NDArray[np.int32]) -> NDArray[np.int64]:
    """The order that sorts phrases word by word, in one pass if a phrase fits into 62 bits."""
    bits = int(phrases.max(initial=0)).bit_length()
    if bits * phrases.shape[1] > 62:
        return np.lexsort(phrases.T[::-1])
    number = np.zeros(len(phrases), np.int64)
    for column in phrases.T:
        number = (number << bits) | column
    return np.argsort(number, kind="stable")


def read_prefixes(model: WordLM, prefixes: NDArray[np.int32], *, precision: Precision = USUAL) -> Beginnings:
    """The model after bos and each of prefixes [C, length]; the length may be 0."""
    bos = np.full((len(prefixes), 1), BOS, np.int32)
    return _read(model, np.concatenate([bos, prefixes], axis=1), precision)


def leaf_scores(
    model: WordLM, beginnings: Beginnings, which: int, forest: Forest, *, precision: Precision = USUAL
) -> Array:
    """Σ -log Pr(word | prefix, words before it) of the phrase at every leaf, after prefix number `which`; on the device.

    AuditError if a score is not finite: comparisons with nan would report a secret where there is none.
    """
    scores, finite = _score(model, beginnings, np.int32(which), forest.levels, precision)
    if not bool(finite):
        raise AuditError("The model has diverged: its probabilities are not finite numbers.")
    return scores


def log_perplexities(model: WordLM, beginnings: Beginnings, which: int, forest: Forest) -> NDArray[np.float32]:
    """The same for every phrase, in the order that the forest was built from."""
    scores = np.empty(forest.phrases, np.float32)
    scores[forest.order] = np.asarray(leaf_scores(model, beginnings, which, forest))
    return scores


def logits_of(model: WordLM, outputs: Array, precision: Precision = USUAL) -> Array:
    """The logits [N, V] of outputs [N, P]."""
    logits = product(outputs, model.output_table(), precision, contract=(1, 1))
    return logits if model.output_bias is None else logits + model.output_bias


def step(model: WordLM, state: State, words: Array, precision: Precision = USUAL) -> tuple[State, Array]:
    """Read one word [N] from each state; returns the next states and the outputs [N, P]."""
    state, outputs, _ = run(model.cell, model.rows(words)[None], state, precision)
    return state, outputs[0]


@partial(jax.jit, static_argnames="precision")
def _read(model: WordLM, tokens: Array, precision: Precision) -> Beginnings:
    start = jax.tree.map(lambda a: jnp.broadcast_to(a, (len(tokens), *a.shape)), model.initial_state())
    state, outputs, _ = run(model.cell, model.rows(tokens.T), start, precision)
    return Beginnings(state, outputs[-1], _normaliser(model, outputs[-1], precision))


@partial(jax.jit, static_argnames="precision")
def _score(
    model: WordLM, beginnings: Beginnings, which: Array, levels: list[tuple[Array, Array]], precision: Precision
) -> tuple[Array, Array]:
    table = model.output_table()
    root = jax.tree.map(lambda a: jax.lax.dynamic_slice_in_dim(a, which, 1), beginnings)

    def one_chunk(levels: list[tuple[Array, Array]]) -> Array:
        now, scores = root, jnp.zeros((1,), jnp.float32)
        for level, (parent, word) in enumerate(levels):
            logit = jnp.sum(now.outputs[parent] * table[word], axis=1)
            logit = logit if model.output_bias is None else logit + model.output_bias[word]
            scores = scores[parent] + (now.normaliser[parent] - logit)
            if level < len(levels) - 1:
                state, outputs = step(model, jax.tree.map(lambda a, p=parent: a[p], now.state), word, precision)
                now = Beginnings(state, outputs, _normaliser(model, outputs, precision))
        return scores

    scores = jax.lax.map(one_chunk, levels).reshape(-1)
    return scores, jnp.isfinite(scores).all()


def _normaliser(model: WordLM, outputs: Array, precision: Precision) -> Array:
    return jax.nn.logsumexp(logits_of(model, outputs, precision), axis=1)
