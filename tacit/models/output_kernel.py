"""The output layer's SGD step as two GPU kernels that never write a logit to memory.

`cross_entropy.output_step` stores the logits and their derivatives, V × N numbers that pass through memory six times. These
kernels read a tile of the table T, form its logits on the chip, and use them at once:

    expected   for each token the normaliser Σ_v exp s_v and the mean row Σ_v p_v T_v, with a running maximum: attention whose
               keys and values are the table. Then D o = w (Σ_v p_v T_v - T_y).
    update     the tile's logits again, their derivatives G = w (p - one-hot), and T + G' O in place

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

from tacit.models.precision import Precision, pieces, round_operand

# Programs that share one user's table.
SPLITS = 4
# Rows of the table a tile holds, and warps a program has, for each kernel.
EXPECTED_TILE, EXPECTED_WARPS = 64, 4
UPDATE_TILE, UPDATE_WARPS = 64, 4
STAGES1, STAGES2, RELOAD, PADN = 2, 2, False, False
# Stands for minus infinity where a tile reaches past the table, without making NaN of differences.
_LOWEST = -1e30


def supported(width: int, precision: Precision) -> bool:
    """Whether the kernels serve a table of this width at this precision."""
    return width % 16 == 0 and width <= 128 and precision == "bf16"


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
    """Table and bias with the derivatives of Σ_n weights_n · cross-entropy_n added, and the derivatives by outputs [N, P]."""
    tokens, width = outputs.shape
    padding = (pl.next_power_of_2(tokens) - tokens) if PADN else -tokens % 16
    padded = tokens + padding
    rounded = round_operand(jnp.pad(outputs, ((0, padding), (0, 0))), precision)
    shape = _Shape(table.shape[0], padded, width, precision)
    biases = [] if bias is None else [bias]

    partials = [jax.ShapeDtypeStruct((SPLITS, padded, n), jnp.float32) for n in (1, 1, width)]
    highest, sums, means = pl.pallas_call(
        partial(_expected, shape), out_shape=partials, name="expected", **_options(EXPECTED_WARPS, interpret, STAGES1)
    )(rounded, table, *biases)
    top = jnp.max(highest, axis=0)
    share = jnp.exp(highest - top)
    normalizer = jnp.sum(sums * share, axis=0)  # [padded, 1]
    expected = (jnp.sum(means * share, axis=0) / normalizer)[:tokens]
    d_outputs = weights[:, None] * (expected - table[targets])

    new = pl.pallas_call(
        partial(_update, shape),
        out_shape=[jax.ShapeDtypeStruct(a.shape, jnp.float32) for a in (table, *biases)],
        input_output_aliases={4 + i: i for i in range(1 + len(biases))},
        name="update",
        **_options(UPDATE_WARPS, interpret, STAGES2),
    )(
        rounded,
        jnp.pad(targets, (0, padding)),
        jnp.pad(weights, (0, padding)),
        (top + jnp.log(normalizer))[:, 0],
        table,
        *biases,
    )
    return new[0], (None if bias is None else new[1]), d_outputs


class _Shape:
    """What both kernels know at compile time."""

    def __init__(self, vocabulary: int, tokens: int, width: int, precision: Precision) -> None:
        self.vocabulary, self.precision = vocabulary, precision
        self.tokens, self.width = pieces(tokens), pieces(width)

    def tiles(self, tile: int) -> int:
        """How many tiles a program walks over."""
        return pl.cdiv(pl.cdiv(self.vocabulary, tile), SPLITS)

    def product(self, a: Array, b: Array, contract: tuple[int, int]) -> Array:
        dimensions = (((contract[0],), (contract[1],)), ((), ()))
        a, b = round_operand(a, self.precision), round_operand(b, self.precision)
        return lax.dot_general(a, b, dimensions, preferred_element_type=jnp.float32)

    def scores(self, a: list[Array], b: list[Array]) -> Array:
        """The product of a and the transpose of b, both in pieces by width."""
        total = self.product(a[0], b[0], (1, 1))
        for x, y in zip(a[1:], b[1:], strict=True):
            total = total + self.product(x, y, (1, 1))
        return total

    def outputs(self, ref: Any) -> list[list[Array]]:
        """The outputs in pieces [tokens][width]."""
        return [[ref[pl.ds(n, size), pl.ds(p, span)] for p, span in self.width] for n, size in self.tokens]

    def tile(self, ref: Any, first: Array, exists: Array) -> list[Array]:
        """The rows of a tile, in pieces by width; rows past the table are zeros."""
        rows = pl.ds(first, exists.shape[0])
        return [
            triton.load(ref.at[rows, pl.ds(p, span)], mask=_columns(exists, span), other=0.0) for p, span in self.width
        ]


def _expected(shape: _Shape, outputs_ref: Any, table_ref: Any, *refs: Any) -> None:
    *bias_ref, highest_ref, sums_ref, means_ref = refs
    split, tiles = pl.program_id(0), shape.tiles(EXPECTED_TILE)
    outputs = shape.outputs(outputs_ref)

    def step(t: Array, carry: list[Any]) -> list[Any]:
        rows = (split * tiles + t) * EXPECTED_TILE + jnp.arange(EXPECTED_TILE, dtype=jnp.int32)
        first, exists = (split * tiles + t) * EXPECTED_TILE, rows < shape.vocabulary
        tile = [round_operand(piece, shape.precision) for piece in shape.tile(table_ref, first, exists)]
        offset = jnp.where(exists, 0.0, _LOWEST)
        if bias_ref:
            offset = offset + triton.load(bias_ref[0].at[pl.ds(first, EXPECTED_TILE)], mask=exists, other=0.0)
        after = []
        for (highest, total, means), o in zip(carry, outputs, strict=True):
            logits = shape.scores(o, tile) + offset[None, :]
            higher = jnp.maximum(highest, jnp.max(logits, axis=1))
            fading, e = jnp.exp(highest - higher), jnp.exp(logits - higher[:, None])
            means = [m * fading[:, None] + shape.product(e, piece, (1, 0)) for m, piece in zip(means, tile, strict=True)]
            after.append((higher, total * fading + jnp.sum(e, axis=1), means))
        return after

    nothing = [
        (jnp.full((n,), _LOWEST, jnp.float32), jnp.zeros((n,), jnp.float32), [jnp.zeros((n, s), jnp.float32) for _, s in shape.width])
        for _, n in shape.tokens
    ]
    found = lax.fori_loop(0, tiles, step, nothing)
    for (n, size), (highest, total, means) in zip(shape.tokens, found, strict=True):
        highest_ref[split, pl.ds(n, size), 0] = highest
        sums_ref[split, pl.ds(n, size), 0] = total
        for (p, span), mean in zip(shape.width, means, strict=True):
            means_ref[split, pl.ds(n, size), pl.ds(p, span)] = mean


def _update(
    shape: _Shape, outputs_ref: Any, targets_ref: Any, weights_ref: Any, normalizer_ref: Any, table_ref: Any, *refs: Any
) -> None:
    bias_ref, new_table_ref, new_bias_ref = refs if len(refs) == 3 else (None, refs[0], None)
    split, tiles = pl.program_id(0), shape.tiles(UPDATE_TILE)
    outputs = shape.outputs(outputs_ref)
    per_token = [
        tuple(ref[pl.ds(n, size)] for ref in (targets_ref, weights_ref, normalizer_ref)) for n, size in shape.tokens
    ]

    def step(t: Array, done: Array) -> Array:
        rows = (split * tiles + t) * UPDATE_TILE + jnp.arange(UPDATE_TILE, dtype=jnp.int32)
        first, exists = (split * tiles + t) * UPDATE_TILE, rows < shape.vocabulary
        tile = shape.tile(table_ref, first, exists)
        bias = None
        if bias_ref is not None:
            bias = triton.load(bias_ref.at[pl.ds(first, UPDATE_TILE)], mask=exists, other=0.0)
        d_logits = []
        for o, (y, w, normalizer) in zip(outputs, per_token, strict=True):
            logits = shape.scores(tile, o) - normalizer[None, :]
            if bias is not None:
                logits = logits + bias[:, None]
            hit = (rows[:, None] == y[None, :]).astype(jnp.float32)
            d_logits.append((jnp.exp(logits) - hit) * w[None, :])
        old = shape.tile(table_ref, first, exists) if RELOAD else tile
        for j, (p, span) in enumerate(shape.width):
            new = sum((shape.product(d, o[j], (1, 0)) for d, o in zip(d_logits, outputs, strict=True)), old[j])
            triton.store(new_table_ref.at[pl.ds(first, UPDATE_TILE), pl.ds(p, span)], new, mask=_columns(exists, span))
        if bias is not None:
            new = sum((jnp.sum(d, axis=1) for d in d_logits), bias)
            triton.store(new_bias_ref.at[pl.ds(first, UPDATE_TILE)], new, mask=exists)
        return done

    lax.fori_loop(0, tiles, step, jnp.int32(0))


def _columns(mask: Array, width: int) -> Array:
    return jnp.broadcast_to(mask[:, None], (mask.shape[0], width))


def _options(warps: int, interpret: bool, stages: int = 2) -> dict[str, Any]:
    options: dict[str, Any] = {"grid": (SPLITS,), "interpret": interpret}
    if not interpret:
        options["compiler_params"] = triton.CompilerParams(num_warps=warps, num_stages=stages)
    return options
