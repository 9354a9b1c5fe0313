"""The output layer's cross-entropy: its value, and its backward pass written by hand.

For outputs o_n with targets y_n the logits are s_n = T o_n + b and the loss is Σ_n w_n (log Σ_v exp s_nv - s_n,y_n). So

    D s_nv = w_n (softmax(s_n)_v - [v = y_n]),    D T = (D s)' O,    D o_n = D s_n T,    D b = Σ_n D s_n.

When the weights carry the step size (w_n = -learning_rate / count) these derivatives *are* the step: T + D T is the new
table, and one [N, V] array beside the table is all that is ever alive.
"""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import Array

from tacit.models.precision import Precision, product, round_operand


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
    table, outputs = round_operand(table, precision), round_operand(outputs, precision)
    logits = _logits(table, bias, outputs, precision)
    e = jnp.exp(logits - jnp.max(logits, axis=1, keepdims=True))
    hit = jnp.arange(table.shape[0], dtype=targets.dtype) == targets[:, None]
    d_logits = e * (weights / jnp.sum(e, axis=1))[:, None] - jnp.where(hit, weights[:, None], 0.0)
    d_logits = round_operand(d_logits, precision)
    return OutputDerivatives(
        table=product(d_logits, outputs, precision, contract=(0, 0)),
        bias=None if bias is None else jnp.sum(d_logits.astype(jnp.float32), axis=0),
        outputs=product(d_logits, table, precision),
    )


def _logits(table: Array, bias: Array | None, outputs: Array, precision: Precision) -> Array:
    logits = product(outputs, table, precision, contract=(1, 1))
    return logits if bias is None else logits + bias
