"""The recurrent cells of the word models, LSTM and CIFG, with a backward pass written by hand.

A cell maps an input x_t and its state (c_{t-1}, r_{t-1}) to gates, a new state and an output o_t:

    z_t = [x_t, r_{t-1}] W + b            one kernel and one bias a gate
    f, o, i = σ(z_f), σ(z_o), σ(z_i)      CIFG couples the input gate: i = 1 - f
    g = tanh(z_g)
    c_t = f c_{t-1} + i g
    h_t = o tanh(c_t)
    o_t = h_t P                           with a projection, else h_t
    r_t = o_t if the projection is fed back, else h_t

Backward, with D for the derivative of the loss by a quantity, from the last step to the first:

    Dr_t = Do_t + Dz_{t+1} W_r'           (or only the second term, Do_t P' joining at h, if the projection is not fed back)
    Dh_t = Dr_t P'
    Dc_t = Dh_t o (1 - tanh² c_t) + f_{t+1} Dc_{t+1}
    Dz_o = Dh_t tanh(c_t) o(1 - o)        Dz_f = Dc_t (c_{t-1} - g) f(1 - f)      (LSTM: c_{t-1} alone)
    Dz_g = Dc_t i (1 - g²)                Dz_i = Dc_t g i(1 - i)                  (LSTM only)

Only Dz_t W_r' and Dr_t P' depend on the order of time. Everything else is one product over all steps and sequences:
[X, R]' Dz for the kernels, H' Dr for the projection, Dz W_x' for the inputs; and so is X W_x in the forward pass.
"""

from __future__ import annotations

from typing import Literal, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jax import Array, lax

from tacit.models.layers.precision import Precision, product, round_operand

Kind = Literal["lstm", "cifg"]
GATES: dict[Kind, tuple[str, ...]] = {
    "lstm": ("candidate", "forget", "output", "input"),
    "cifg": ("candidate", "forget", "output"),
}
# A loop over more steps than this is compiled as a loop.
UNROLL = 16
# Matrix units read rows whose length is a multiple of this. A cell of 670 units computes as one of 672, the last two of them
# zeros, without which a GPU pads the weights at every time step: on an H200 a local step then took a quarter longer.
ALIGNED = 8


class CellGate(eqx.Module):
    """One gate's parameters: the kernel's rows are the inputs, then the fed-back values."""

    kernel: Array  # [inputs + fed back, units]
    bias: Array  # [units]


class Cell(eqx.Module):
    """A recurrent cell. Its pytree leaves are the papers' parameter vectors: a kernel and a bias a gate, the projection.

    A projection that is not fed back is an ordinary dense layer and has a bias; a recurrent one has none.
    """

    gates: dict[str, CellGate]
    projection: Array | None  # [units, outputs]
    projection_bias: Array | None  # [outputs]
    kind: Kind = eqx.field(static=True)
    fed_back: bool = eqx.field(static=True)

    @property
    def units(self) -> int:
        return self.gates["forget"].bias.shape[0]

    @property
    def fed_back_width(self) -> int:
        return self.projection.shape[1] if self.projection is not None and self.fed_back else self.units

    @property
    def outputs(self) -> int:
        return self.units if self.projection is None else self.projection.shape[1]


class State(NamedTuple):
    """What a cell remembers of the words before: zeros at the beginning of a sequence."""

    c: Array  # [..., units]
    r: Array  # [..., fed back]


class Saved(NamedTuple):
    """What the backward pass needs of the forward pass, time first."""

    x: Array  # [L, B, inputs]
    r_before: Array  # [L, B, fed back]
    c_before: Array  # [L, B, units]
    c: Array  # [L, B, units]
    h: Array  # [L, B, units]
    gates: Array  # [L, B, gates * units], after their nonlinearities


class _Weights(NamedTuple):
    """The gates' parameters side by side, as the products want them."""

    x: Array  # [inputs, gates * units]
    r: Array  # [fed back, gates * units]
    bias: Array  # [gates * units]
    projection: Array | None


def build_cell(
    kind: Kind, inputs: int, units: int, projection: int | None, fed_back: bool, *, key: Array, forget_bias: float = 1.0
) -> Cell:
    """A fresh cell: kernels uniform with variance 1/rows, biases zero but the forget gate's, which begins open."""
    recurrent = projection if projection is not None and fed_back else units
    *gate_keys, projection_key = jax.random.split(key, len(GATES[kind]) + 1)
    gates = {
        name: CellGate(
            kernel=_uniform(gate_key, (inputs + recurrent, units)),
            bias=jnp.full((units,), forget_bias if name == "forget" else 0.0, jnp.float32),
        )
        for name, gate_key in zip(GATES[kind], gate_keys, strict=True)
    }
    return Cell(
        gates=gates,
        projection=None if projection is None else _uniform(projection_key, (units, projection)),
        projection_bias=None if projection is None or fed_back else jnp.zeros((projection,), jnp.float32),
        kind=kind,
        fed_back=fed_back,
    )


def initial_state(cell: Cell, shape: tuple[int, ...] = ()) -> State:
    """The state before the first word."""
    return State(
        c=jnp.zeros((*shape, cell.units), jnp.float32), r=jnp.zeros((*shape, cell.fed_back_width), jnp.float32)
    )


def run(cell: Cell, x: Array, state: State, precision: Precision) -> tuple[State, Array, Saved]:
    """The cell over x [L, B, inputs] from `state` [B, ...]: the last state, the outputs [L, B, outputs], and what
    `backward` needs."""
    length, batch, inputs = x.shape
    narrow, cell = cell, _aligned(cell)
    state = State(_wider(state.c, cell.units), _wider(state.r, cell.fed_back_width))
    weights = _side_by_side(cell, inputs, precision)
    zx = product(x.reshape(-1, inputs), weights.x, precision).reshape(length, batch, -1)

    def step(state: State, zx_t: Array) -> tuple[State, tuple[Array, Array, Array, Array, Array, Array]]:
        gates = _activate(cell.kind, zx_t + product(state.r, weights.r, precision) + weights.bias)
        g, f, o, i = _split(cell.kind, gates)
        c = f * state.c + i * g
        h = o * jnp.tanh(c)
        r = product(h, weights.projection, precision) if weights.projection is not None and cell.fed_back else h
        return State(c, r), (state.r, state.c, c, h, gates, r)

    last, (r_before, c_before, c, h, gates, r) = lax.scan(step, state, zx, unroll=min(length, UNROLL))
    outputs = r
    if weights.projection is not None and not cell.fed_back:
        outputs = product(h.reshape(length * batch, -1), weights.projection, precision).reshape(length, batch, -1)
        outputs = outputs if cell.projection_bias is None else outputs + cell.projection_bias
    last = State(last.c[..., : narrow.units], last.r[..., : narrow.fed_back_width])
    return last, outputs[..., : narrow.outputs], Saved(x, r_before, c_before, c, h, gates)


def backward(cell: Cell, saved: Saved, d_outputs: Array, precision: Precision) -> tuple[Cell, Array]:
    """The derivatives by the cell's parameters and by x, given those by the outputs [L, B, outputs]."""
    length, batch, inputs = saved.x.shape
    narrow, cell = cell, _aligned(cell)
    d_outputs = _wider(d_outputs, cell.outputs)
    weights = _side_by_side(cell, inputs, precision)

    def flat(a: Array) -> Array:
        return a.reshape(length * batch, a.shape[-1])

    d_external = d_outputs
    if weights.projection is not None and not cell.fed_back:
        d_external = product(flat(d_outputs), weights.projection, precision, contract=(1, 1)).reshape(saved.h.shape)

    def step(later: tuple[Array, Array], now: tuple[Array, ...]) -> tuple[tuple[Array, Array], tuple[Array, Array]]:
        d_r, d_c = later
        d_external_t, c_before, c, gates = now
        g, f, o, i = _split(cell.kind, gates)
        d_r = d_r + d_external_t
        d_h = d_r
        if weights.projection is not None and cell.fed_back:
            d_h = product(d_r, weights.projection, precision, contract=(1, 1))
        tanh_c = jnp.tanh(c)
        d_c = d_c + d_h * o * (1.0 - tanh_c * tanh_c)
        d_f = d_c * (c_before - g) if cell.kind == "cifg" else d_c * c_before
        parts = [d_c * i * (1.0 - g * g), d_f * f * (1.0 - f), d_h * tanh_c * o * (1.0 - o)]
        if cell.kind == "lstm":
            parts.append(d_c * g * i * (1.0 - i))
        d_z = jnp.concatenate(parts, axis=-1)
        return (product(d_z, weights.r, precision, contract=(1, 1)), d_c * f), (d_z, d_r)

    nothing = (jnp.zeros_like(saved.r_before[0]), jnp.zeros_like(saved.c[0]))
    along = (d_external, saved.c_before, saved.c, saved.gates)
    _, (d_z, d_r) = lax.scan(step, nothing, along, reverse=True, unroll=min(length, UNROLL))

    d_z = flat(d_z)
    seen = jnp.concatenate([round_operand(flat(a), precision) for a in (saved.x, saved.r_before)], axis=1)
    # One product a gate, so that its sum with the gate's kernel can be part of the product.
    d_kernels = [product(seen, d, precision, contract=(0, 0)) for d in jnp.split(d_z, len(cell.gates), axis=1)]
    d_biases = jnp.split(jnp.sum(d_z.astype(jnp.float32), axis=0), len(cell.gates))
    d_projection = d_bias = None
    if cell.projection is not None:
        d_projected = flat(d_r if cell.fed_back else d_outputs)
        d_projection = product(flat(saved.h), d_projected, precision, contract=(0, 0))
        d_bias = None if cell.fed_back else jnp.sum(d_projected, axis=0)
    d_gates = {name: CellGate(k, b) for name, k, b in zip(GATES[cell.kind], d_kernels, d_biases, strict=True)}
    d_x = product(d_z, weights.x, precision, contract=(1, 1)).reshape(saved.x.shape)
    derivatives = Cell(d_gates, d_projection, d_bias, cell.kind, cell.fed_back)
    return _cut(derivatives, narrow), d_x


def _aligned(cell: Cell) -> Cell:
    """The cell with units of zeros, which stay zero, up to the next multiple of `ALIGNED`."""
    units = cell.units + -cell.units % ALIGNED
    if units == cell.units:
        return cell
    fed_back = cell.fed_back_width if cell.projection is not None and cell.fed_back else units
    rows = cell.gates["forget"].kernel.shape[0] - cell.fed_back_width + fed_back
    return Cell(
        gates={
            name: CellGate(_wider(_wider(gate.kernel, units), rows, axis=0), _wider(gate.bias, units))
            for name, gate in cell.gates.items()
        },
        projection=None if cell.projection is None else _wider(cell.projection, units, axis=0),
        projection_bias=cell.projection_bias,
        kind=cell.kind,
        fed_back=cell.fed_back,
    )


def _wider(a: Array, width: int, axis: int = -1) -> Array:
    """With zeros at the end of an axis, so that it has this width."""
    missing = width - a.shape[axis]
    widths = [(0, 0)] * a.ndim
    widths[axis] = (0, missing)
    return jnp.pad(a, widths) if missing else a


def _cut(derivatives: Cell, cell: Cell) -> Cell:
    """The derivatives by the parameters that `cell` has."""
    return jax.tree.map(lambda d, own: d[tuple(slice(n) for n in own.shape)], derivatives, cell)


def _side_by_side(cell: Cell, inputs: int, precision: Precision) -> _Weights:
    gates = [cell.gates[name] for name in GATES[cell.kind]]
    return _Weights(
        x=jnp.concatenate([round_operand(gate.kernel[:inputs], precision) for gate in gates], axis=1),
        r=jnp.concatenate([round_operand(gate.kernel[inputs:], precision) for gate in gates], axis=1),
        bias=jnp.concatenate([gate.bias for gate in gates]),
        projection=None if cell.projection is None else round_operand(cell.projection, precision),
    )


def _activate(kind: Kind, z: Array) -> Array:
    units = z.shape[-1] // len(GATES[kind])
    return jnp.concatenate([jnp.tanh(z[..., :units]), jax.nn.sigmoid(z[..., units:])], axis=-1)


def _split(kind: Kind, gates: Array) -> tuple[Array, Array, Array, Array]:
    """Candidate, forget, output and input gate; a CIFG's input gate is what its forget gate leaves."""
    g, f, o, *i = jnp.split(gates, len(GATES[kind]), axis=-1)
    return g, f, o, (i[0] if i else 1.0 - f)


def _uniform(key: Array, shape: tuple[int, int]) -> Array:
    limit = (3.0 / shape[0]) ** 0.5
    return jax.random.uniform(key, shape, jnp.float32, -limit, limit)
