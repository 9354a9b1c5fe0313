"""The character model of Debugging, appendix B.2: words as UTF-8 bytes, three coupled-gate cells with projection.

It learns the words that a vocabulary does not have, and can generate them: `sample_words` draws from its joint
distribution (equation 1), `likely_words` searches for the words of the highest joint probability (Tables 2 and 8).

Of 258 symbols 256 are bytes, one starts a word and one ends it. Outside the model a symbol's number is one higher, because 0 is
the padding of rows, which is never read and never predicted; start and end then have the numbers of bos and eos, and a word laid
out as a row is a sentence of bytes.

| preset | layers | units | projection | parameters | the paper says                                                           |
|--------|--------|-------|------------|------------|--------------------------------------------------------------------------|
| paper  | 3      | 256   | 128        | 756,738    | no number: 3 layers, 256 units, 128 projected, embedding 128, 258 symbols. Input and output tables apart, an output bias, the projection fed back, no peepholes. |
| small  | 2      | 96    | 48         | 90,114     |                                                                          |
"""  # noqa: E501

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from numpy.typing import NDArray

from tacit.errors import RecipeError
from tacit.models.layers.cells import Cell, State, backward, build_cell, initial_state, run
from tacit.models.layers.cross_entropy import cross_entropies, output_derivatives
from tacit.models.layers.precision import Precision, product
from tacit.models.layers.scatter_add import add_rows

# Numbers of symbols in rows.
PAD, START, END, FIRST_BYTE = 0, 1, 2, 3
SYMBOLS = 258


@dataclass(frozen=True)
class CharLMConfig:
    """The shape of a character model."""

    layers: int = 3
    embedding: int = 128
    units: int = 256
    projection: int = 128


class CharLM(eqx.Module):
    """A next-symbol model: `model(symbols)` are the logits of the symbol after each of one row."""

    embedding: Array  # [258, E]
    cells: tuple[Cell, ...]
    output: Array  # [258, P]
    output_bias: Array  # [258]

    def __call__(self, symbols: Array, *, precision: Precision = "float32") -> Array:
        """The logits [L, 258] after each of symbols [L]; column j is the symbol with number j + 1."""
        outputs = _outputs(self, symbols[:, None], precision)[:, 0]
        return product(outputs, self.output, precision, contract=(1, 1)) + self.output_bias

    def step(self, states: tuple[State, ...], symbols: Array) -> tuple[tuple[State, ...], Array]:
        """Reads one symbol of each of several words [B]: the next states, and the log-probabilities [B, 258]."""
        x, after = self.embedding[_row(symbols)][None], []
        for cell, state in zip(self.cells, states, strict=True):
            state, x, _ = run(cell, x, state, "float32")
            after.append(state)
        logits = product(x[0], self.output, "float32", contract=(1, 1)) + self.output_bias
        return tuple(after), jax.nn.log_softmax(logits)


PRESETS: dict[str, CharLMConfig] = {
    "paper": CharLMConfig(),
    "small": CharLMConfig(layers=2, embedding=48, units=96, projection=48),
}


def preset(name: str) -> CharLMConfig:
    """The named shape."""
    if name not in PRESETS:
        raise RecipeError(f"Expected char_lm.preset among {', '.join(PRESETS)}, got {name!r}.")
    return PRESETS[name]


def build(config: CharLMConfig, *, key: Array) -> CharLM:
    """A freshly initialised model of this shape, in float32."""
    embedding_key, output_key, *cell_keys = jax.random.split(key, 2 + config.layers)
    inputs = [config.embedding] + [config.projection] * (config.layers - 1)

    def table(key: Array, columns: int) -> Array:
        return jax.random.normal(key, (SYMBOLS, columns), jnp.float32) / jnp.float32(columns**0.5)

    return CharLM(
        embedding=table(embedding_key, config.embedding),
        cells=tuple(
            build_cell("cifg", width, config.units, config.projection, True, key=cell_key)
            for width, cell_key in zip(inputs, cell_keys, strict=True)
        ),
        output=table(output_key, config.projection),
        output_bias=jnp.zeros((SYMBOLS,), jnp.float32),
    )


@dataclass(frozen=True)
class NextSymbol:
    """The task of `tacit.learning.tasks`, on batches of rows: int32 [rows, length + 1], padded with 0."""

    precision: Precision = "float32"

    def loss_sum(self, model: CharLM, rows: Array) -> tuple[Array, Array]:
        """The sum of the cross-entropies of a batch's predictions, and how many there are."""
        mask = prediction_mask(rows)
        return jnp.sum(_cross_entropies(model, rows, self.precision) * mask), jnp.sum(mask)

    def sgd_step(self, model: CharLM, rows: Array, learning_rate: float) -> CharLM:
        """One step of SGD on the mean loss, with one result for one input on every device; see `tacit.models.layers.sgd`."""
        symbols = rows.T  # time first
        inputs, targets = _row(symbols[:-1]), _row(symbols[1:]).reshape(-1)
        mask = prediction_mask(rows).T.reshape(-1)
        weights = mask * (-jnp.float32(learning_rate) / jnp.maximum(jnp.sum(mask), 1.0))
        x, saved = model.embedding[inputs], []
        for cell in model.cells:
            _, x, kept = run(cell, x, initial_state(cell, inputs.shape[1:]), self.precision)
            saved.append(kept)
        d_table, d_bias, d_outputs = output_derivatives(
            model.output, model.output_bias, x.reshape(-1, x.shape[-1]), targets, weights, self.precision
        )
        d_x, cells = d_outputs.reshape(x.shape), []
        for cell, kept in zip(reversed(model.cells), reversed(saved), strict=True):
            d_cell, d_x = backward(cell, kept, d_x, self.precision)
            cells.append(jax.tree.map(jnp.add, cell, d_cell))
        assert d_bias is not None
        return CharLM(
            embedding=add_rows(model.embedding, inputs.reshape(-1), d_x.reshape(-1, d_x.shape[-1])),
            cells=tuple(reversed(cells)),
            output=model.output + d_table,
            output_bias=model.output_bias + d_bias,
        )


def prediction_mask(rows: Array) -> Array:
    """1 where the next symbol is to be predicted: [..., length]."""
    targets = rows[..., 1:]
    return ((targets != PAD) & (targets != START)).astype(jnp.float32)


def log_likelihoods(model: CharLM, rows: Array) -> Array:
    """The logarithm of the joint probability of each row's predictions, [rows]."""
    return -jnp.sum(_cross_entropies(model, rows, "float32") * prediction_mask(rows), axis=1)


def sample_words(model: CharLM, count: int, *, longest: int, key: Array) -> list[tuple[str, float]]:
    """Draw `count` words from the model, each with its joint probability; words longer than `longest` bytes are left out."""
    symbols, log_probability, ended = _sample(model, key, count=count, longest=longest)
    words = [_spelled(row) for row in np.asarray(symbols)]
    chance = np.exp(np.asarray(log_probability, np.float64))
    return [(word, float(p)) for word, p, whole in zip(words, chance, np.asarray(ended), strict=True) if whole]


def likely_words(model: CharLM, count: int, *, longest: int, width: int = 256) -> list[tuple[str, float]]:
    """The words of the highest joint probability that a beam of `width` finds, most likely first, at most `count`."""
    states = _fresh(model, width)
    log_probability = np.full(width, -np.inf)
    log_probability[0] = 0.0  # all beams start alike, so only one starts with a finite score
    symbols = np.full((width, 1), START, np.int32)
    found: dict[tuple[int, ...], float] = {}
    for _ in range(longest + 1):
        states, scores = _step(model, states, symbols[:, -1])
        total = log_probability[:, None] + np.asarray(scores, np.float64)
        for beam in np.flatnonzero(np.isfinite(total[:, END - 1])):
            found[tuple(symbols[beam, 1:].tolist())] = float(total[beam, END - 1])
        total[:, : FIRST_BYTE - 1] = -np.inf
        best = np.argsort(-total, axis=None, kind="stable")[:width]
        beams, columns = np.unravel_index(best, total.shape)
        log_probability = total[beams, columns]
        symbols = np.concatenate([symbols[beams], columns[:, None].astype(np.int32) + 1], axis=1)
        states = jax.tree.map(lambda leaf, beams=beams: leaf[beams], states)
        kept = sorted(found.values(), reverse=True)[:count]
        # Probabilities only fall as words grow: nothing still open can enter the list.
        if len(kept) == count and log_probability[0] < kept[-1]:
            break
    ranked = sorted(found.items(), key=lambda entry: -entry[1])[:count]
    return [(_spelled(np.array(word, np.int32)), float(np.exp(score))) for word, score in ranked]


def encode_words(words: Sequence[str], length: int) -> NDArray[np.int32]:
    """Words as rows [words, length + 1]: start, bytes, end; a word of more than length - 1 bytes is cut, unended."""
    rows = np.full((len(words), length + 1), PAD, np.int32)
    for row, word in zip(rows, words, strict=True):
        content = [START, *(byte + FIRST_BYTE for byte in word.encode()), END][: length + 1]
        row[: len(content)] = content
    return rows


def _spelled(symbols: NDArray[np.int32]) -> str:
    """The bytes among these symbols as text; invalid UTF-8 is shown as \\xNN, so that two words never look alike."""
    return bytes((symbols[symbols >= FIRST_BYTE] - FIRST_BYTE).astype(np.uint8)).decode(errors="backslashreplace")


def _row(symbols: Array) -> Array:
    """The tables' rows of these symbols; padding reads the first row, and its result is masked."""
    return jnp.maximum(symbols - 1, 0)


def _outputs(model: CharLM, symbols: Array, precision: Precision) -> Array:
    x = model.embedding[_row(symbols)]  # [L, B, E]
    for cell in model.cells:
        _, x, _ = run(cell, x, initial_state(cell, symbols.shape[1:]), precision)
    return x


def _cross_entropies(model: CharLM, rows: Array, precision: Precision) -> Array:
    symbols = rows.T
    outputs = _outputs(model, symbols[:-1], precision)
    flat, targets = outputs.reshape(-1, outputs.shape[-1]), _row(symbols[1:]).reshape(-1)
    return cross_entropies(model.output, model.output_bias, flat, targets, precision).reshape(symbols[1:].shape).T


def _fresh(model: CharLM, words: int) -> tuple[State, ...]:
    return tuple(initial_state(cell, (words,)) for cell in model.cells)


@jax.jit
def _step(model: CharLM, states: tuple[State, ...], symbols: Array) -> tuple[tuple[State, ...], Array]:
    return model.step(states, symbols)


@eqx.filter_jit
def _sample(model: CharLM, key: Array, *, count: int, longest: int) -> tuple[Array, Array, Array]:
    """Symbols [count, longest + 1], their joint log-probability, and whether the word has ended."""

    def one(carry: tuple[tuple[State, ...], Array, Array, Array], key: Array) -> tuple[tuple, Array]:
        states, symbols, total, ended = carry
        states, scores = model.step(states, symbols)
        scores = scores.at[:, START - 1].set(-jnp.inf)
        drawn = jax.random.categorical(key, scores).astype(jnp.int32)
        own = jnp.take_along_axis(scores, drawn[:, None], axis=1)[:, 0]
        now = jnp.where(ended, PAD, drawn + 1)
        return (states, now, total + jnp.where(ended, 0.0, own), ended | (now == END)), now

    start = jnp.full((count,), START, jnp.int32)
    begin = (_fresh(model, count), start, jnp.zeros((count,), jnp.float32), jnp.zeros((count,), bool))
    (_, _, total, ended), symbols = jax.lax.scan(one, begin, jax.random.split(key, longest + 1))
    return symbols.T, total, ended
