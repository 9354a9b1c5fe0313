"""The output layer's SGD step as two GPU kernels that never write a logit to memory.

`cross_entropy.output_step` stores the logits and their derivatives, V × N numbers that pass through memory six times. These
kernels read a tile of the table, form its logits on the chip, and use them at once:

    normalizers   max and Σ exp of each token's logits, over a range of tiles
    update        the tile's logits again, their derivatives G = w (softmax - one-hot); adds G' O to the tile in place and
                  G T to the tokens' derivatives

so a step reads the table twice and writes it once. Tensor cores want sizes that are powers of two: 80 tokens are a piece of 64 and
one of 16, a width of 96 is 64 and 32.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
from jax import Array, lax
from jax.experimental import pallas as pl
from jax.experimental.pallas import triton

from tacit.models.precision import Precision, round_operand

# Rows of the table a tile holds, programs that share one user's table, warps a program has.
TILE, SPLITS, WARPS, STAGES = 64, 4, 4, 2
# Stands for minus infinity where a tile reaches past the table, without making NaN of differences.
_LOWEST = -1e30

Pieces = list[tuple[int, int]]


def supported(width: int, precision: Precision) -> bool:
    """Whether the kernels serve a table of this width at this precision."""
    return width % 16 == 0 and width <= 128 and precision != "float32"


def output_update(
    table: Array,
    bias: Array | None,
    outputs: Array,
    targets: Array,
    weights: Array,
    precision: Precision,
    *,
    interpret: bool = False,
) -> tuple[Array, Array | None, Array]:
    """Table and bias after adding the derivatives of Σ_n weights_n · cross-entropy_n to them, and those by outputs [N, P]."""
    tokens, width = outputs.shape
    vocabulary = table.shape[0]
    padding = -tokens % 16
    padded = tokens + padding
    outputs = round_operand(jnp.pad(outputs, ((0, padding), (0, 0))), precision)
    targets, weights = jnp.pad(targets, (0, padding)), jnp.pad(weights, (0, padding))
    shape = _Shape(vocabulary, _pieces(padded), _pieces(width), precision)
    biases = [] if bias is None else [bias]

    options: dict[str, Any] = {"grid": (SPLITS,), "interpret": interpret}
    if not interpret:
        options["compiler_params"] = triton.CompilerParams(num_warps=WARPS, num_stages=STAGES)
    partials = jax.ShapeDtypeStruct((SPLITS, padded), jnp.float32)
    highest, sums = pl.pallas_call(
        partial(_normalizers, shape), out_shape=(partials, partials), name="normalizers", **options
    )(outputs, table, *biases)
    top = jnp.max(highest, axis=0)
    log_normalizer = top + jnp.log(jnp.sum(sums * jnp.exp(highest - top), axis=0))

    changed = [jax.ShapeDtypeStruct(a.shape, jnp.float32) for a in (table, *biases)]
    *new, d_outputs = pl.pallas_call(
        partial(_update, shape),
        out_shape=(*changed, jax.ShapeDtypeStruct((SPLITS, padded, width), jnp.float32)),
        input_output_aliases={4 + i: i for i in range(len(changed))},
        name="output_update",
        **options,
    )(outputs, targets, weights, log_normalizer, table, *biases)
    return new[0], (None if bias is None else new[1]), jnp.sum(d_outputs, axis=0)[:tokens]


class _Shape:
    """What both kernels know at compile time."""

    def __init__(self, vocabulary: int, tokens: Pieces, width: Pieces, precision: Precision) -> None:
        self.vocabulary, self.tokens, self.width, self.precision = vocabulary, tokens, width, precision
        self.tiles = pl.cdiv(pl.cdiv(vocabulary, TILE), SPLITS)

    def product(self, a: Array, b: Array, contract: tuple[int, int]) -> Array:
        dimensions = (((contract[0],), (contract[1],)), ((), ()))
        a, b = round_operand(a, self.precision), round_operand(b, self.precision)
        return lax.dot_general(a, b, dimensions, preferred_element_type=jnp.float32)

    def outputs(self, ref: Any) -> list[list[Array]]:
        """The outputs in pieces [tokens][width]."""
        return [[ref[pl.ds(n, size), pl.ds(p, span)] for p, span in self.width] for n, size in self.tokens]

    def tile(self, split: Array, step: Array, table: Any) -> tuple[Array, Array, list[Array]]:
        """The first row of a tile, which of its rows exist, and its pieces by width."""
        first = (split * self.tiles + step) * TILE
        exists = first + jnp.arange(TILE, dtype=jnp.int32) < self.vocabulary
        pieces = [
            triton.load(table.at[pl.ds(first, TILE), pl.ds(p, span)], mask=_column(exists, span), other=0.0)
            for p, span in self.width
        ]
        return first, exists, pieces

    def logits(self, first: Array, exists: Array, tile: list[Array], outputs: list[Array], bias: Any) -> Array:
        """The tile's logits [TILE, tokens] for one piece of the tokens."""
        logits = sum((self.product(t, o, (1, 1)) for t, o in zip(tile[1:], outputs[1:], strict=True)),
                     self.product(tile[0], outputs[0], (1, 1)))  # fmt: skip
        if bias is not None:
            logits = logits + triton.load(bias.at[pl.ds(first, TILE)], mask=exists, other=0.0)[:, None]
        return jnp.where(_column(exists, logits.shape[1]), logits, _LOWEST)


def _normalizers(shape: _Shape, outputs_ref: Any, table_ref: Any, *refs: Any) -> None:
    *bias, highest_ref, sums_ref = refs
    split = pl.program_id(0)
    outputs = shape.outputs(outputs_ref)

    def step(t: Array, carry: list[tuple[Array, Array]]) -> list[tuple[Array, Array]]:
        first, exists, tile = shape.tile(split, t, table_ref)
        after = []
        for (highest, total), o in zip(carry, outputs, strict=True):
            logits = shape.logits(first, exists, tile, o, bias[0] if bias else None)
            higher = jnp.maximum(highest, jnp.max(logits, axis=0))
            after.append((higher, total * jnp.exp(highest - higher) + jnp.sum(jnp.exp(logits - higher[None]), axis=0)))
        return after

    nothing = [(jnp.full((n,), _LOWEST, jnp.float32), jnp.zeros((n,), jnp.float32)) for _, n in shape.tokens]
    for (n, size), (highest, total) in zip(shape.tokens, lax.fori_loop(0, shape.tiles, step, nothing), strict=True):
        highest_ref[split, pl.ds(n, size)] = highest
        sums_ref[split, pl.ds(n, size)] = total


def _update(
    shape: _Shape, outputs_ref: Any, targets_ref: Any, weights_ref: Any, normalizer_ref: Any, table_ref: Any, *refs: Any
) -> None:
    has_bias = len(refs) == 4
    split = pl.program_id(0)
    bias_ref, new_table_ref, new_bias_ref = refs[:3] if has_bias else (None, refs[0], None)
    d_outputs_ref = refs[-1]
    outputs = shape.outputs(outputs_ref)
    targets = [targets_ref[pl.ds(n, size)] for n, size in shape.tokens]
    weights = [weights_ref[pl.ds(n, size)] for n, size in shape.tokens]
    normalizer = [normalizer_ref[pl.ds(n, size)] for n, size in shape.tokens]

    def step(t: Array, d_outputs: list[list[Array]]) -> list[list[Array]]:
        first, exists, tile = shape.tile(split, t, table_ref)
        rows = first + jnp.arange(TILE, dtype=jnp.int32)
        d_logits = []
        for o, y, w, lse in zip(outputs, targets, weights, normalizer, strict=True):
            logits = shape.logits(first, exists, tile, o, bias_ref)
            hit = (rows[:, None] == y[None, :]).astype(jnp.float32)
            d_logits.append((jnp.exp(logits - lse[None, :]) - hit) * w[None, :])
        for j, (p, span) in enumerate(shape.width):
            new = tile[j]
            for d, o in zip(d_logits, outputs, strict=True):
                new = new + shape.product(d, o[j], (1, 0))
            triton.store(new_table_ref.at[pl.ds(first, TILE), pl.ds(p, span)], new, mask=_column(exists, span))
        if has_bias:
            new = triton.load(bias_ref.at[pl.ds(first, TILE)], mask=exists, other=0.0)
            for d in d_logits:
                new = new + jnp.sum(d, axis=1)
            triton.store(new_bias_ref.at[pl.ds(first, TILE)], new, mask=exists)
        return [
            [sofar + shape.product(d, piece, (0, 0)) for sofar, piece in zip(row, tile, strict=True)]
            for row, d in zip(d_outputs, d_logits, strict=True)
        ]

    nothing = [[jnp.zeros((size, span), jnp.float32) for _, span in shape.width] for _, size in shape.tokens]
    total = lax.fori_loop(0, shape.tiles, step, nothing)
    for (n, size), row in zip(shape.tokens, total, strict=True):
        for (p, span), d in zip(shape.width, row, strict=True):
            d_outputs_ref[split, pl.ds(n, size), pl.ds(p, span)] = d


def _pieces(n: int) -> Pieces:
    """Where each power of two in the sum that makes n begins, and its size, largest first."""
    pieces, start = [], 0
    while start < n:
        size = 1 << ((n - start).bit_length() - 1)
        pieces.append((start, size))
        start += size
    return pieces


def _column(mask: Array, width: int) -> Array:
    return jnp.broadcast_to(mask[:, None], (mask.shape[0], width))
