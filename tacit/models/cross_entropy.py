"""The output layer's cross-entropy: its value, and one SGD step through it written by hand.

For outputs o_n with targets y_n the logits are s_n = T o_n + b and the loss is Σ_n w_n (log Σ_v exp s_nv - s_n,y_n). So

    D s_nv = w_n (softmax(s_n)_v - [v = y_n]),    D T = (D s)' O,    D o_n = D s_n T,    D b = Σ_n D s_n.

The weights carry the step size (w_n = -learning_rate / count), so these derivatives *are* the step: T + D T is the new
table, and only one [V, N] array beside the table is ever alive.
"""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import Array

from tacit.models.precision import Precision, product, round_operand


class OutputStep(NamedTuple):
    """The derivatives by the logits (vocabulary first) and by the layer's inputs."""

    d_logits: Array  # [V, N]
    d_outputs: Array  # [N, P]


def cross_entropies(table: Array, bias: Array | None, outputs: Array, targets: Array, precision: Precision) -> Array:
    """The cross-entropy of each target [N] under the logits of outputs [N, P]."""
    logits = product(outputs, table, precision, contract=(1, 1))
    if bias is not None:
        logits = logits + bias
    at_target = jnp.take_along_axis(logits, targets[:, None], axis=1)[:, 0]
    return jax.nn.logsumexp(logits, axis=1) - at_target


def output_step(
    table: Array, bias: Array | None, outputs: Array, targets: Array, weights: Array, precision: Precision
) -> OutputStep:
    """The derivatives of Σ_n weights_n · cross-entropy_n, weights [N]."""
    table = round_operand(table, precision)
    logits = product(table, outputs, precision, contract=(1, 1))  # [V, N]
    if bias is not None:
        logits = logits + bias[:, None]
    shifted = jnp.exp(logits - jnp.max(logits, axis=0))
    scale = weights / jnp.sum(shifted, axis=0)
    is_target = jnp.arange(table.shape[0], dtype=targets.dtype)[:, None] == targets
    d_logits = round_operand(shifted * scale - jnp.where(is_target, weights, 0.0), precision)
    return OutputStep(d_logits, product(d_logits, table, precision, contract=(0, 0)))
