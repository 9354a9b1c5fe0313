"""One step of local SGD on a word model: the result of plain autodiff, with a fraction of its memory traffic.

A user's step needs little arithmetic and much memory traffic, because every user has parameters of their own. So dense arrays
are avoided where possible: the derivative of the embedding lookup is a scatter of the batch's rows into the table (never a
table of zeros), the step size is part of the loss weights so that derivatives are added to the parameters directly, and the
recurrence and the softmax have the backward passes of `cells` and `cross_entropy`.

With unit-norm embeddings the derivative goes through `unit_norm` separately for the dense part (outputs) and for the sparse
part (inputs).
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
from jax import Array

from tacit.models.layers import output_kernel
from tacit.models.layers.cells import backward, initial_state, run
from tacit.models.layers.cross_entropy import output_derivatives
from tacit.models.layers.precision import Precision
from tacit.models.layers.scatter_add import add_rows
from tacit.models.layers.unit_norm import through_unit, unit
from tacit.models.word_lm import Batch, WordLM


def sgd_step(
    model: WordLM,
    batch: Batch,
    learning_rate: Array | float,
    *,
    precision: Precision = "float32",
    kernels: bool | None = None,
) -> WordLM:
    """The model after one step of size `learning_rate` on the mean loss over the batch's predictions.

    Equal, up to rounding, to ``model - learning_rate * grad(sum / max(count, 1))`` of `word_lm.loss_sum`; a batch without
    predictions returns the model unchanged. `kernels` says whether to use the GPU kernels of
    `output_kernel` where they serve (bf16 products); None asks the device.
    """
    kernels = output_kernel.available() if kernels is None else kernels
    tokens, mask = batch["tokens"].T, batch["mask"].T.reshape(-1)  # time first
    inputs, targets = tokens[:-1], tokens[1:].reshape(-1)
    weights = mask * (-jnp.float32(learning_rate) / jnp.maximum(jnp.sum(mask), 1.0))

    embedding, rows = model.embedding, model.embedding[inputs]
    if kernels:  # they write in place: see `output_update`
        embedding, rows = jax.lax.optimization_barrier((embedding, rows))
    start = initial_state(model.cell, inputs.shape[1:])
    _, outputs, saved = run(model.cell, unit(rows) if model.unit_norm else rows, start, precision)
    flat = outputs.reshape(-1, outputs.shape[-1])
    table = embedding if model.output is None else model.output
    if kernels and output_kernel.supported(flat.shape[1], precision):
        new_table, new_bias, d_outputs = output_kernel.output_update(
            table, model.output_bias, flat, targets, weights, precision, unit_norm=model.unit_norm
        )
    else:
        d_table, d_bias, d_outputs = output_derivatives(
            model.output_table(), model.output_bias, flat, targets, weights, precision
        )
        new_table = table + (through_unit(table, d_table) if model.unit_norm else d_table)
        new_bias = None if model.output_bias is None or d_bias is None else model.output_bias + d_bias

    d_cell, d_x = backward(model.cell, saved, d_outputs.reshape(outputs.shape), precision)
    if model.unit_norm:
        d_x = through_unit(rows, d_x)
    read = new_table if model.output is None else embedding
    return WordLM(
        embedding=add_rows(read, inputs.reshape(-1), d_x.reshape(-1, d_x.shape[-1])),
        cell=jax.tree.map(jnp.add, model.cell, d_cell),
        output=None if model.output is None else new_table,
        output_bias=new_bias,
        unit_norm=model.unit_norm,
    )
