"""The loop over time of a cell whose projection is fed back, as one GPU kernel a direction.

Each step of `cells.run` multiplies a few rows by weights that are a user's own: launched one by one, the products read the
weights from memory at every step and every gate passes through memory between them. Here one program runs all steps of one
user; state stays in registers and the weights, read again at each step, come from the cache.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
from jax import Array, lax
from jax.experimental import pallas as pl
from jax.experimental.pallas import triton

from tacit.models.precision import Precision, product, round_operand
from tacit.models.tiles import beside, launch, pieces

# Units handled together, and warps a program has.
BLOCK, WARPS, STAGES = 64, 4, 1


def supported(units: int, fed_back: int | None, precision: Precision) -> bool:
    """Whether the kernels serve a cell of this shape (`fed_back`: the width of its recurrent projection, if any)."""
    if fed_back is None:
        return False
    return units % BLOCK == 0 and fed_back % 16 == 0 and fed_back <= 128 and precision == "bf16"


def forward(
    zx: Array, weights: Array, bias: Array, projection: Array, precision: Precision, *, interpret: bool = False
) -> tuple[Array, Array, Array, Array]:
    """From the inputs' share zx [L, B, gates * units] of the gates: r, c, h and the gates after their nonlinearities.

    All are [L, B, ...]; r and h, which are only multiplied from here on, are rounded as operands.
    """
    length, batch, width = zx.shape
    units, fed_back = projection.shape
    rows = length * batch
    operand = round_operand(zx, precision).dtype
    shapes = [
        jax.ShapeDtypeStruct((rows, n), dtype)
        for n, dtype in ((fed_back, operand), (units, jnp.float32), (units, operand), (width, jnp.float32))
    ]
    kernel = partial(_forward, _Shape(length, batch, units, fed_back, width // units, precision))
    found = pl.pallas_call(kernel, out_shape=shapes, name="recurrent_forward", **launch(1, WARPS, STAGES, interpret))(
        zx.reshape(rows, width), weights, bias, projection
    )
    r, c, h, gates = (a.reshape(length, batch, -1) for a in found)
    return r, c, h, gates


def backward(
    d_outputs: Array,
    c: Array,
    gates: Array,
    weights: Array,
    projection: Array,
    precision: Precision,
    *,
    interpret: bool = False,
) -> tuple[Array, Array]:
    """The derivatives by the gates before their nonlinearities and by r, [L, B, ...], rounded as operands."""
    length, batch, width = gates.shape
    units, fed_back = projection.shape
    rows = length * batch
    operand = round_operand(d_outputs, precision).dtype
    shapes = [jax.ShapeDtypeStruct((rows, n), operand) for n in (width, fed_back)]
    kernel = partial(_backward, _Shape(length, batch, units, fed_back, width // units, precision))
    d_z, d_r = pl.pallas_call(
        kernel, out_shape=shapes, name="recurrent_backward", **launch(1, WARPS, STAGES, interpret)
    )(d_outputs.reshape(rows, fed_back), c.reshape(rows, units), gates.reshape(rows, width), weights, projection)
    return d_z.reshape(length, batch, width), d_r.reshape(length, batch, fed_back)


class _Shape:
    """What both kernels know at compile time."""

    def __init__(self, length: int, batch: int, units: int, fed_back: int, gates: int, precision: Precision) -> None:
        self.length, self.batch, self.units, self.gates, self.precision = length, batch, units, gates, precision
        self.padded = max(16, pl.next_power_of_2(batch))
        self.fed_back = pieces(fed_back)
        self.blocks = [(u, BLOCK) for u in range(0, units, BLOCK)]

    def exists(self, width: int) -> Array:
        """Which of the padded rows are the batch's."""
        return beside(jnp.arange(self.padded, dtype=jnp.int32) < self.batch, width)

    def load(self, ref: Any, t: Array, column: int, width: int) -> Array:
        """The batch's rows at step t."""
        rows = pl.ds(t * self.batch, self.padded)
        return triton.load(ref.at[rows, pl.ds(column, width)], mask=self.exists(width), other=0.0)

    def store(self, ref: Any, t: Array, column: int, value: Array) -> None:
        width = value.shape[1]
        rows = pl.ds(t * self.batch, self.padded)
        triton.store(ref.at[rows, pl.ds(column, width)], value.astype(ref.dtype), mask=self.exists(width))

    def zeros(self, spans: list[tuple[int, int]]) -> list[Array]:
        return [jnp.zeros((self.padded, span), jnp.float32) for _, span in spans]


def _forward(
    shape: _Shape,
    zx_ref: Any,
    weights_ref: Any,
    bias_ref: Any,
    projection_ref: Any,
    r_ref: Any,
    c_ref: Any,
    h_ref: Any,
    gates_ref: Any,
) -> None:
    def step(t: Array, state: tuple[list[Array], list[Array]]) -> tuple[list[Array], list[Array]]:
        r, c = state
        operands = [round_operand(a, shape.precision) for a in r]
        next_r, next_c = shape.zeros(shape.fed_back), []
        for (u, span), c_before in zip(shape.blocks, c, strict=True):
            gates = []
            for gate in range(shape.gates):
                column = gate * shape.units + u
                z = shape.load(zx_ref, t, column, span) + bias_ref[pl.ds(column, span)][None, :]
                for (p, rows), operand in zip(shape.fed_back, operands, strict=True):
                    z = z + product(
                        operand, weights_ref[pl.ds(p, rows), pl.ds(column, span)], shape.precision, contract=(1, 0)
                    )
                gates.append(_tanh(z) if gate == 0 else _sigmoid(z))
                shape.store(gates_ref, t, column, gates[-1])
            g, f, o, *i = gates
            c_now = f * c_before + (i[0] if i else 1.0 - f) * g
            h = o * _tanh(c_now)
            shape.store(c_ref, t, u, c_now)
            shape.store(h_ref, t, u, h)
            next_c.append(c_now)
            h = round_operand(h, shape.precision)
            for j, (p, columns) in enumerate(shape.fed_back):
                next_r[j] = next_r[j] + product(
                    h, projection_ref[pl.ds(u, span), pl.ds(p, columns)], shape.precision, contract=(1, 0)
                )
        for (p, _), value in zip(shape.fed_back, next_r, strict=True):
            shape.store(r_ref, t, p, value)
        return next_r, next_c

    lax.fori_loop(0, shape.length, step, (shape.zeros(shape.fed_back), shape.zeros(shape.blocks)))


def _backward(
    shape: _Shape,
    d_outputs_ref: Any,
    c_ref: Any,
    gates_ref: Any,
    weights_ref: Any,
    projection_ref: Any,
    d_z_ref: Any,
    d_r_ref: Any,
) -> None:
    def step(back: Array, state: tuple[list[Array], list[Array]]) -> tuple[list[Array], list[Array]]:
        t = shape.length - 1 - back
        d_r = [d + shape.load(d_outputs_ref, t, p, span) for d, (p, span) in zip(state[0], shape.fed_back, strict=True)]
        for (p, _), value in zip(shape.fed_back, d_r, strict=True):
            shape.store(d_r_ref, t, p, value)
        operands = [round_operand(a, shape.precision) for a in d_r]
        before_d_r, before_d_c = shape.zeros(shape.fed_back), []
        for (u, span), d_c in zip(shape.blocks, state[1], strict=True):
            d_h = jnp.zeros((shape.padded, span), jnp.float32)
            for (p, columns), operand in zip(shape.fed_back, operands, strict=True):
                d_h = d_h + product(
                    operand, projection_ref[pl.ds(u, span), pl.ds(p, columns)], shape.precision, contract=(1, 1)
                )
            g, f, o, *i = (shape.load(gates_ref, t, gate * shape.units + u, span) for gate in range(shape.gates))
            tanh_c = _tanh(shape.load(c_ref, t, u, span))
            # At the first step there is no state before: its row is read at step 0 and counts nothing.
            c_before = shape.load(c_ref, jnp.maximum(t - 1, 0), u, span) * jnp.minimum(t, 1).astype(jnp.float32)
            d_c = d_c + d_h * o * (1.0 - tanh_c * tanh_c)
            kept = i[0] if i else 1.0 - f
            d_f = d_c * c_before if i else d_c * (c_before - g)
            d_z = [d_c * kept * (1.0 - g * g), d_f * f * (1.0 - f), d_h * tanh_c * o * (1.0 - o)]
            if i:
                d_z.append(d_c * g * kept * (1.0 - kept))
            for gate, d in enumerate(d_z):
                column = gate * shape.units + u
                shape.store(d_z_ref, t, column, d)
                d = round_operand(d, shape.precision)
                for j, (p, rows) in enumerate(shape.fed_back):
                    weights = weights_ref[pl.ds(p, rows), pl.ds(column, span)]
                    before_d_r[j] = before_d_r[j] + product(d, weights, shape.precision, contract=(1, 1))
            before_d_c.append(d_c * f)
        return before_d_r, before_d_c

    lax.fori_loop(0, shape.length, step, (shape.zeros(shape.fed_back), shape.zeros(shape.blocks)))


def _sigmoid(z: Array) -> Array:
    return 1.0 / (1.0 + jnp.exp(-z))


def _tanh(z: Array) -> Array:
    return 2.0 * _sigmoid(2.0 * z) - 1.0
