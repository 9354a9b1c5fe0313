"""The output layer's cross-entropy: its value, and its backward pass written by hand.

For outputs o_n with targets y_n the logits are s_n = T o_n + b and the loss is Σ_n w_n (log Σ_v exp s_nv - s_n,y_n). So

    D s_nv = w_n (softmax(s_n)_v - [v = y_n]),    D T = (D s)' O,    D o_n = D s_n T,    D b = Σ_n D s_n.

With e_nv = exp(s_nv - max_v s_nv) and a_n = w_n / Σ_v e_nv the first term is a_n e_nv. The factors a_n go onto the small
matrices and the second term is a scatter of N rows, so that the [N, V] array e, once computed, is only ever multiplied:

    D T = e' (a O) - scatter_y(w O),    D O = a (e T) - w T_y,    D b = e' a - scatter_y(w).

When the weights carry the step size (w_n = -learning_rate / count) these derivatives *are* the step: T + D T is the new table.
"""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import Array

from tacit.models.layers.precision import Precision, product, round_operand
from tacit.models.layers.scatter_add import add_rows


class OutputDerivatives(NamedTuple):
    """The derivatives by the table, by the bias (if there is one) and by the layer's inputs."""

    table: Array  # [V, P]
    bias: Array | None  # [V]
    outputs: Array  # [N, P]


def cross_entropies(table: Array, bias: Array | None, outputs: Array, targets: Array, precision: Precision) -> Array:
    """The cross-entropy of each target [N] under the logits of outputs [N, P]."""
    logits = _logits(table, bias, outputs, precision)
    at_target = jnp.take_along_axis(logits, targets[:, None], axis=1)[:, 0]
    return jax.nn.logsumexp(logits, axis=1) - at_target


def output_derivatives(
    table: Array, bias: Array | None, outputs: Array, targets: Array, weights: Array, precision: Precision
) -> OutputDerivatives:
    """The derivatives of Σ_n weights_n · cross-entropy_n, weights [N]."""
    logits = _logits(round_operand(table, precision), bias, round_operand(outputs, precision), precision)
    e = jnp.exp(logits - jnp.max(logits, axis=1, keepdims=True))
    share = weights / jnp.sum(e, axis=1)
    e = round_operand(e, precision)
    at_target = weights[:, None] * outputs
    return OutputDerivatives(
        table=add_rows(product(e, share[:, None] * outputs, precision, contract=(0, 0)), targets, -at_target),
        bias=None if bias is None else add_rows(product(share[None], e, precision)[0], targets, -weights),
        outputs=share[:, None] * product(e, table, precision) - weights[:, None] * table[targets],
    )


def _logits(table: Array, bias: Array | None, outputs: Array, precision: Precision) -> Array:
    logits = product(outputs, table, precision, contract=(1, 1))
    return logits if bias is None else logits + bias
