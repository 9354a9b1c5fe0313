"""The output layer's SGD step as two GPU kernels that never write a logit to memory.

`cross_entropy.output_derivatives` stores the logits and their derivatives, V × N numbers that pass through memory six times.
These kernels read a tile of the table T, form its logits on the chip, and use them at once:

    expected   for each token the normaliser Σ_v exp s_v and the mean row Σ_v p_v T_v, with a running maximum: attention whose
               keys and values are the table. Then D o = w (Σ_v p_v T_v - T_y).
    update     the tile's logits again, their derivatives G = w (p - one-hot), and T + G' O in place

so a step reads the table twice and writes it once. Tokens are held some at a time, a group: `expected` has programs for each
group, and `update` goes through all groups at each tile, so that the table is still written once. Tensor cores need sizes that
are powers of two: 80 tokens are split into 64 and 16, a width of 96 into 64 and 32.

With unit norm the logits are those of u = T / |T|, and a tile's derivatives D u become (D u - (u · D u) u) / |T| by its rows.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
from jax import Array, lax
from jax.experimental import pallas as pl
from jax.experimental.pallas import triton

from tacit.models.layers.precision import Precision, product, round_operand
from tacit.models.layers.unit_norm import through_unit_in_pieces, unit, unit_in_pieces

# Programs that share one user's table, rows of it a tile holds; warps and pipeline stages of a program. Measured on an H200:
# other tiles (32, 128), 8 splits, 8 warps and 1 or 3 stages were no faster.
SPLITS, TILE, WARPS, STAGES = 4, 64, 4, 2
# The most tokens that a program holds in registers. More go in groups of at most `GROUP`: on an H200, 160 tokens were faster so
# than in two groups of 80, and 1,000 as fast as in groups of 128.
MOST, GROUP = 128, 64
# Stands for minus infinity where a tile reaches past the table, without making NaN of differences.
_LOWEST = -1e30


def available() -> bool:
    """Whether JAX computes on an NVIDIA GPU with bf16 matrix units (Ampere or later)."""
    if jax.default_backend() != "gpu":
        return False
    capability = getattr(jax.devices()[0], "compute_capability", "")
    return capability.replace(".", "", 1).isdigit() and float(capability) >= 8.0


def supported(width: int, precision: Precision) -> bool:
    """Whether the kernels support outputs of this width (a program holds their rows in registers) and this precision."""
    return width <= 128 and width % 16 == 0 and precision == "bf16"


def output_update(
    table: Array,
    bias: Array | None,
    outputs: Array,
    targets: Array,
    weights: Array,
    precision: Precision,
    *,
    unit_norm: bool = False,
    interpret: bool = False,
) -> tuple[Array, Array | None, Array]:
    """Table and bias with the derivatives of Σ_n weights_n · cross-entropy_n added, and the derivatives by outputs [N, P]."""
    tokens, width = outputs.shape
    shape = _Shape(table.shape[0], tokens, width, precision, unit_norm)
    padding = shape.padded - tokens
    rounded = round_operand(jnp.pad(outputs, ((0, padding), (0, 0))), precision)
    # Without the barrier XLA may read the rows after the update, and copies the whole table for that.
    table, at_target = lax.optimization_barrier((table, table[targets]))
    biases = [] if bias is None else [bias]

    partials = [jax.ShapeDtypeStruct((SPLITS, shape.padded, n), jnp.float32) for n in (1, 1, width)]
    highest, sums, means = pl.pallas_call(
        partial(_expected, shape), out_shape=partials, name="expected", **_launch((SPLITS, shape.groups), interpret)
    )(rounded, table, *biases)
    top = jnp.max(highest, axis=0)
    share = jnp.exp(highest - top)
    normalizer = jnp.sum(sums * share, axis=0)  # [padded, 1]
    expected = (jnp.sum(means * share, axis=0) / normalizer)[:tokens]
    d_outputs = weights[:, None] * (expected - (unit(at_target) if unit_norm else at_target))

    new = pl.pallas_call(
        partial(_update, shape),
        out_shape=[jax.ShapeDtypeStruct(a.shape, jnp.float32) for a in (table, *biases)],
        input_output_aliases={4 + i: i for i in range(1 + len(biases))},
        name="update",
        **_launch((SPLITS,), interpret),
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
    """Compile-time constants of both kernels: groups of tokens, how they and the width are split, and tiles per program."""

    def __init__(self, vocabulary: int, tokens: int, width: int, precision: Precision, unit_norm: bool) -> None:
        self.vocabulary, self.precision, self.unit_norm = vocabulary, precision, unit_norm
        self.groups = 1 if tokens <= MOST else pl.cdiv(tokens, GROUP)
        self.group = 16 * pl.cdiv(tokens, 16 * self.groups)
        self.padded = self.groups * self.group
        self.tokens, self.width = _pieces(self.group), _pieces(width)
        self.tiles = pl.cdiv(pl.cdiv(vocabulary, TILE), SPLITS)

    def place(self, split: Array, step: Array) -> tuple[Any, Array, Array]:
        """Where a program's tile lies in the table, its rows' numbers, and which of them exist."""
        first = (split * self.tiles + step) * TILE
        rows = first + jnp.arange(TILE, dtype=jnp.int32)
        return pl.ds(first, TILE), rows, rows < self.vocabulary

    def tile(self, table: Any, at: Any, exists: Array) -> list[Array]:
        """The rows of a tile, in pieces by width; zeros past the table."""
        return [
            triton.load(table.at[at, pl.ds(p, span)], mask=_beside(exists, span), other=0.0) for p, span in self.width
        ]

    def outputs(self, ref: Any, group: Array | int) -> list[list[Array]]:
        """The outputs of a group in pieces [tokens][width]."""
        first = group * self.group
        return [[ref[pl.ds(first + n, size), pl.ds(p, span)] for p, span in self.width] for n, size in self.tokens]

    def per_token(self, refs: tuple[Any, ...], group: Array | int) -> list[tuple[Array, ...]]:
        """What each array holds of a group's tokens, by pieces."""
        first = group * self.group
        return [tuple(ref[pl.ds(first + n, size)] for ref in refs) for n, size in self.tokens]

    def scores(self, a: list[Array], b: list[Array]) -> Array:
        """The product of a and the transpose of b, both in pieces by width."""
        total = product(a[0], b[0], self.precision, contract=(1, 1))
        for x, y in zip(a[1:], b[1:], strict=True):
            total = total + product(x, y, self.precision, contract=(1, 1))
        return total

    def nothing(self) -> list[tuple[Array, Array, list[Array]]]:
        """Maximum, normaliser and mean row of each piece of the tokens before the first tile."""
        return [
            (
                jnp.full((size,), _LOWEST, jnp.float32),
                jnp.zeros((size,), jnp.float32),
                [jnp.zeros((size, span), jnp.float32) for _, span in self.width],
            )
            for _, size in self.tokens
        ]


def _expected(shape: _Shape, outputs_ref: Any, table_ref: Any, *refs: Any) -> None:
    *bias_ref, highest_ref, sums_ref, means_ref = refs
    split, group = pl.program_id(0), pl.program_id(1)
    outputs = shape.outputs(outputs_ref, group)

    def step(t: Array, carry: list[Any]) -> list[Any]:
        at, _, exists = shape.place(split, t)
        tile = shape.tile(table_ref, at, exists)
        tile = [round_operand(piece, shape.precision) for piece in (unit_in_pieces(tile) if shape.unit_norm else tile)]
        offset = jnp.where(exists, 0.0, _LOWEST)
        if bias_ref:
            offset = offset + triton.load(bias_ref[0].at[at], mask=exists, other=0.0)
        after = []
        for (highest, total, means), o in zip(carry, outputs, strict=True):
            logits = shape.scores(o, tile) + offset[None, :]
            higher = jnp.maximum(highest, jnp.max(logits, axis=1))
            fading, e = jnp.exp(highest - higher), jnp.exp(logits - higher[:, None])
            means = [
                m * fading[:, None] + product(e, rows, shape.precision) for m, rows in zip(means, tile, strict=True)
            ]
            after.append((higher, total * fading + jnp.sum(e, axis=1), means))
        return after

    found = lax.fori_loop(0, shape.tiles, step, shape.nothing())
    for (n, size), (highest, total, means) in zip(shape.tokens, found, strict=True):
        at = pl.ds(group * shape.group + n, size)
        highest_ref[split, at, 0] = highest
        sums_ref[split, at, 0] = total
        for (p, span), mean in zip(shape.width, means, strict=True):
            means_ref[split, at, pl.ds(p, span)] = mean


def _update(
    shape: _Shape, outputs_ref: Any, targets_ref: Any, weights_ref: Any, normalizer_ref: Any, table_ref: Any, *refs: Any
) -> None:
    bias_ref, new_table_ref, new_bias_ref = refs if len(refs) == 3 else (None, refs[0], refs[0])
    split = pl.program_id(0)

    def of_group(group: Array | int) -> tuple[Any, Any]:
        return (
            shape.outputs(outputs_ref, group),
            shape.per_token((targets_ref, weights_ref, normalizer_ref), group),
        )

    only = of_group(0) if shape.groups == 1 else None  # held in registers over all tiles

    def step(t: Array, done: Array) -> Array:
        at, rows, exists = shape.place(split, t)
        tile = shape.tile(table_ref, at, exists)
        read = unit_in_pieces(tile) if shape.unit_norm else tile
        bias = None if bias_ref is None else triton.load(bias_ref.at[at], mask=exists, other=0.0)

        def add(group: Array | int, carry: tuple[list[Array], Array]) -> tuple[list[Array], Array]:
            sums, sum_of_bias = carry
            outputs, per_token = only or of_group(group)
            for o, (y, w, normalizer) in zip(outputs, per_token, strict=True):
                logits = shape.scores(read, o) - normalizer[None, :]
                if bias is not None:
                    logits = logits + bias[:, None]
                hit = (rows[:, None] == y[None, :]).astype(jnp.float32)
                d = (jnp.exp(logits) - hit) * w[None, :]
                sums = [each + product(d, piece, shape.precision) for each, piece in zip(sums, o, strict=True)]
                sum_of_bias = sum_of_bias + jnp.sum(d, axis=1)
            return sums, sum_of_bias

        begin = [jnp.zeros_like(piece) for piece in tile] if shape.unit_norm else tile
        begin_bias = jnp.zeros((TILE,), jnp.float32) if bias is None else bias
        new, new_bias = (
            add(0, (begin, begin_bias)) if only else lax.fori_loop(0, shape.groups, add, (begin, begin_bias))
        )
        if shape.unit_norm:
            new = [piece + d for piece, d in zip(tile, through_unit_in_pieces(tile, new), strict=True)]
        for (p, span), piece in zip(shape.width, new, strict=True):
            triton.store(new_table_ref.at[at, pl.ds(p, span)], piece, mask=_beside(exists, span))
        if bias is not None:
            triton.store(new_bias_ref.at[at], new_bias, mask=exists)
        return done

    lax.fori_loop(0, shape.tiles, step, jnp.int32(0))


def _pieces(n: int) -> list[tuple[int, int]]:
    """Where each power of two in the sum that makes n begins, and its size, largest first."""
    found, start = [], 0
    while start < n:
        size = 1 << ((n - start).bit_length() - 1)
        found.append((start, size))
        start += size
    return found


def _beside(rows: Array, width: int) -> Array:
    """A mask of rows [n], repeated over `width` columns."""
    return jnp.broadcast_to(rows[:, None], (rows.shape[0], width))


def _launch(grid: tuple[int, ...], interpret: bool) -> dict[str, Any]:
    """The arguments of `pallas_call` that say how a kernel runs; interpreted, it runs anywhere, slowly."""
    if interpret:
        return {"grid": grid, "interpret": True}
    return {"grid": grid, "compiler_params": triton.CompilerParams(num_warps=WARPS, num_stages=STAGES)}
