"""Word language models of the papers: an embedding, one recurrent layer, a softmax over the vocabulary.

DP-FedAvg (appendix B) scores an output embedding of 96 against its input embeddings (tied); Production and Gboard use
a coupled-gate cell (CIFG) of 670 units. `preset` names each of them. The vocabulary size V counts every row of the
table, reserved entries included.

| preset       | parameters | the paper says | how it is counted                                                         |
|--------------|------------|----------------|---------------------------------------------------------------------------|
| dp-fedavg    | 1,346,144  | 1.35M          | state of 256 fed back, a dense layer to 96 on top, no output bias; its 4 kernels, 4 biases, embedding, projection and projection bias are the paper's 11 parameter vectors. Feeding back the 96 gives 1.18M, an output bias 1.36M. |
| production   | 1,412,250  | 1.3M           | projection of 96 fed back. Without feedback it would be 2.57M; leaving the projection's own 64,320 out of the count gives 1.35M, the nearest reading. |
| gboard-10k   | 2,372,250  | 2.4M           | as production, with a second table for the output                         |
| gboard-20k   | 4,292,250  | 4.4M           | the paper's three figures are met exactly if K means 1,024: 2.42M, 4.38M, 6.35M |
| gboard-30k   | 6,212,250  | 6.4M           | likewise                                                                  |
| benchmark    | 1,142,800  |                | CIFG of 256 units, projection of 96 fed back, tied, output bias           |
| tiny         | 51,152     |                | for two cores and a short wait                                            |
"""  # noqa: E501

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TypedDict

import equinox as eqx
import jax
import jax.numpy as jnp
from jax import Array

from tacit.errors import RecipeError
from tacit.models.layers.cells import Cell, Kind, State, build_cell, initial_state, run
from tacit.models.layers.cross_entropy import cross_entropies
from tacit.models.layers.precision import Precision, product
from tacit.models.layers.unit_norm import unit


@dataclass(frozen=True)
class WordLMConfig:
    """The shape of a word model. `projection` is the width of the output embedding, None for the cell's own units."""

    vocabulary: int = 10_000
    embedding: int = 96
    units: int = 256
    projection: int | None = 96
    cell: Kind = "cifg"
    fed_back: bool = True
    tied: bool = True
    output_bias: bool = False
    unit_norm: bool = False


class Batch(TypedDict):
    """Sequences cut to one length: position t of `mask` is 1 where tokens[t + 1] is to be predicted, 0 at padding."""

    tokens: Array  # int32 [B, L + 1]
    mask: Array  # float32 [B, L]


class WordLM(eqx.Module):
    """A next-word model: `model(tokens)` are the logits after each token of one sequence."""

    embedding: Array  # [V, E]
    cell: Cell
    output: Array | None  # [V, P]; None: tied to the embedding
    output_bias: Array | None  # [V]
    unit_norm: bool = eqx.field(static=True)

    def __call__(self, tokens: Array, *, precision: Precision = "float32") -> Array:
        """The logits [L, V] of the word after each of tokens [L]."""
        outputs = outputs_of(self, tokens[:, None], precision)
        return self._logits(outputs[:, 0], precision)

    def initial_state(self) -> State:
        """The state before the first word."""
        return initial_state(self.cell)

    def step(self, state: State, token: Array, *, precision: Precision = "float32") -> tuple[State, Array]:
        """Reads one token: the next state, and the logits [V] of the word after it."""
        x = self.rows(token)[None, None]
        last, outputs, _ = run(self.cell, x, jax.tree.map(lambda a: a[None], state), precision)
        return jax.tree.map(lambda a: a[0], last), self._logits(outputs[0], precision)[0]

    def rows(self, tokens: Array) -> Array:
        """The embeddings of these tokens."""
        rows = self.embedding[tokens]
        return unit(rows) if self.unit_norm else rows

    def output_table(self) -> Array:
        """The table [V, P] that outputs are scored against."""
        table = self.embedding if self.output is None else self.output
        return unit(table) if self.unit_norm else table

    def _logits(self, outputs: Array, precision: Precision) -> Array:
        logits = product(outputs, self.output_table(), precision, contract=(1, 1))
        return logits if self.output_bias is None else logits + self.output_bias


def build(config: WordLMConfig, *, key: Array) -> WordLM:
    """A freshly initialised model of this shape, in float32."""
    _validate(config)
    embedding_key, cell_key, output_key = jax.random.split(key, 3)
    width = config.units if config.projection is None else config.projection

    def table(key: Array, columns: int) -> Array:
        return jax.random.normal(key, (config.vocabulary, columns), jnp.float32) / jnp.float32(columns**0.5)

    return WordLM(
        embedding=table(embedding_key, config.embedding),
        cell=build_cell(config.cell, config.embedding, config.units, config.projection, config.fed_back, key=cell_key),
        output=None if config.tied else table(output_key, width),
        output_bias=jnp.zeros((config.vocabulary,), jnp.float32) if config.output_bias else None,
        unit_norm=config.unit_norm,
    )


_GBOARD = WordLMConfig(units=670, tied=False)
PRESETS: dict[str, WordLMConfig] = {
    "dp-fedavg": WordLMConfig(cell="lstm", fed_back=False),
    "production": WordLMConfig(units=670),
    "gboard-10k": _GBOARD,
    "gboard-20k": replace(_GBOARD, vocabulary=20_000),
    "gboard-30k": replace(_GBOARD, vocabulary=30_000),
    "benchmark": WordLMConfig(output_bias=True),
    "tiny": WordLMConfig(vocabulary=2_000, embedding=20, units=64, projection=20, output_bias=True),
}


def preset(name: str) -> WordLMConfig:
    """The named shape; `dataclasses.replace` changes its vocabulary."""
    if name not in PRESETS:
        raise RecipeError(f"Expected model.preset among {', '.join(PRESETS)}, got {name!r}.")
    return PRESETS[name]


def parameter_count(model: WordLM) -> int:
    """The number of parameters."""
    return sum(leaf.size for leaf in jax.tree.leaves(eqx.filter(model, eqx.is_array)))


def loss_sum(model: WordLM, batch: Batch, *, precision: Precision = "float32") -> tuple[Array, Array]:
    """The sum of the cross-entropies of a batch's predictions, and how many there are."""
    tokens, mask = batch["tokens"].T, batch["mask"].T  # time first
    outputs = outputs_of(model, tokens[:-1], precision)
    losses = cross_entropies(
        model.output_table(),
        model.output_bias,
        outputs.reshape(-1, outputs.shape[-1]),
        tokens[1:].reshape(-1),
        precision,
    )
    return jnp.sum(losses * mask.reshape(-1)), jnp.sum(mask)


def outputs_of(model: WordLM, tokens: Array, precision: Precision) -> Array:
    """The output embeddings [L, B, P] after each of tokens [L, B], time first."""
    _, outputs, _ = run(model.cell, model.rows(tokens), initial_state(model.cell, tokens.shape[1:]), precision)
    return outputs


def _validate(config: WordLMConfig) -> None:
    for field in ("vocabulary", "embedding", "units", "projection"):
        value = getattr(config, field)
        if value is not None and value < 1:
            raise RecipeError(f"Expected model.{field} >= 1, got {value}.")
    width = config.units if config.projection is None else config.projection
    if config.tied and width != config.embedding:
        raise RecipeError(
            f"Expected an output width of {config.embedding} (model.embedding) for tied embeddings, got {width}.",
            hint="Set model.projection to model.embedding, or model.tied to false.",
        )
