"""The output layer's SGD step as two GPU kernels that never write a logit to memory.

`cross_entropy.output_derivatives` stores the logits and their derivatives, V × N numbers that pass through memory six times.
These kernels read a tile of the table T, form its logits on the chip, and use them at once:

    expected   for each token the normaliser Σ_v exp s_v and the mean row Σ_v p_v T_v, with a running maximum: attention whose
               keys and values are the table. Then D o = w (Σ_v p_v T_v - T_y).
    update     the tile's logits again, their derivatives G = w (p - one-hot), and T + G' O in place

so a step reads the table twice and writes it once. Tensor cores need sizes that are powers of two: 80 tokens are split
into 64 and 16, a width of 96 into 64 and 32.
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

# Programs that share one user's table, rows of it a tile holds; warps and pipeline stages of a program. Measured on an H200:
# other tiles (32, 128), 8 splits, 8 warps and 1 or 3 stages were no faster.
SPLITS, TILE, WARPS, STAGES = 4, 64, 4, 2
# Stands for minus infinity where a tile reaches past the table, without making NaN of differences.
_LOWEST = -1e30


def available() -> bool:
    """Whether JAX computes on an NVIDIA GPU with bf16 matrix units (Ampere or later)."""
    if jax.default_backend() != "gpu":
        return False
    capability = getattr(jax.devices()[0], "compute_capability", "")
    return capability.replace(".", "", 1).isdigit() and float(capability) >= 8.0


def supported(tokens: int, width: int, precision: Precision) -> bool:
    """Whether the kernels support this number of tokens (a program holds all in registers), width and precision."""
    return tokens <= 128 and width <= 128 and width % 16 == 0 and precision == "bf16"


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
    padding = -tokens % 16
    padded = tokens + padding
    rounded = round_operand(jnp.pad(outputs, ((0, padding), (0, 0))), precision)
    shape = _Shape(table.shape[0], padded, width, precision)
    biases = [] if bias is None else [bias]

    partials = [jax.ShapeDtypeStruct((SPLITS, padded, n), jnp.float32) for n in (1, 1, width)]
    highest, sums, means = pl.pallas_call(
        partial(_expected, shape), out_shape=partials, name="expected", **_launch(SPLITS, WARPS, STAGES, interpret)
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
        **_launch(SPLITS, WARPS, STAGES, interpret),
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
    """Compile-time constants of both kernels: how tokens and width are split, and the number of tiles per program."""

    def __init__(self, vocabulary: int, tokens: int, width: int, precision: Precision) -> None:
        self.vocabulary, self.precision = vocabulary, precision
        self.tokens, self.width = _pieces(tokens), _pieces(width)
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

    def outputs(self, ref: Any) -> list[list[Array]]:
        """The outputs in pieces [tokens][width]."""
        return [[ref[pl.ds(n, size), pl.ds(p, span)] for p, span in self.width] for n, size in self.tokens]

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
    split = pl.program_id(0)
    outputs = shape.outputs(outputs_ref)

    def step(t: Array, carry: list[Any]) -> list[Any]:
        at, _, exists = shape.place(split, t)
        tile = [round_operand(piece, shape.precision) for piece in shape.tile(table_ref, at, exists)]
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
        highest_ref[split, pl.ds(n, size), 0] = highest
        sums_ref[split, pl.ds(n, size), 0] = total
        for (p, span), mean in zip(shape.width, means, strict=True):
            means_ref[split, pl.ds(n, size), pl.ds(p, span)] = mean


def _update(
    shape: _Shape, outputs_ref: Any, targets_ref: Any, weights_ref: Any, normalizer_ref: Any, table_ref: Any, *refs: Any
) -> None:
    bias_ref, new_table_ref, new_bias_ref = refs if len(refs) == 3 else (None, refs[0], refs[0])
    split = pl.program_id(0)
    outputs = shape.outputs(outputs_ref)
    per_token = [
        tuple(ref[pl.ds(n, size)] for ref in (targets_ref, weights_ref, normalizer_ref)) for n, size in shape.tokens
    ]

    def step(t: Array, done: Array) -> Array:
        at, rows, exists = shape.place(split, t)
        tile = shape.tile(table_ref, at, exists)
        bias = None if bias_ref is None else triton.load(bias_ref.at[at], mask=exists, other=0.0)
        d_logits = []
        for o, (y, w, normalizer) in zip(outputs, per_token, strict=True):
            logits = shape.scores(tile, o) - normalizer[None, :]
            if bias is not None:
                logits = logits + bias[:, None]
            hit = (rows[:, None] == y[None, :]).astype(jnp.float32)
            d_logits.append((jnp.exp(logits) - hit) * w[None, :])
        for j, (p, span) in enumerate(shape.width):
            new = tile[j]
            for d, o in zip(d_logits, outputs, strict=True):
                new = new + product(d, o[j], shape.precision)
            triton.store(new_table_ref.at[at, pl.ds(p, span)], new, mask=_beside(exists, span))
        if bias is not None:
            for d in d_logits:
                bias = bias + jnp.sum(d, axis=1)
            triton.store(new_bias_ref.at[at], bias, mask=exists)
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


def _launch(programs: int, warps: int, stages: int, interpret: bool) -> dict[str, Any]:
    """The arguments of `pallas_call` that say how a kernel runs; interpreted, it runs anywhere, slowly."""
    if interpret:
        return {"grid": (programs,), "interpret": True}
    return {"grid": (programs,), "compiler_params": triton.CompilerParams(num_warps=warps, num_stages=stages)}
