"""Work on one user: what a device computes from its own examples (DP-FedAvg, Algorithm 1).

Each is a pure function of the broadcast model and one user's batches, written for one user and batched outside. A batch
that asks for no prediction changes nothing, so users with fewer batches than their neighbours are padded with empty ones. That
holds up to `LARGEST_NORM`, and what is longer counts as nothing.

The result is an update Δ_k, *not yet trusted*: the gate clips every update again in float64, whatever the work did.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

import jax
import jax.numpy as jnp

from tacit.privacy.gate.clipping import ClipStyle, clip, global_norm
from tacit.privacy.gate.rounding import LARGEST_NORM

Batch = Any  # a pytree of arrays, one batch
Model = Any


class Task(Protocol):
    """What a model learns from a batch; the loss is a mean over its predictions."""

    def sgd_step(self, model: Model, batch: Batch, learning_rate: float) -> Model:
        """One step of plain SGD on the batch's mean loss; a batch without predictions returns the model unchanged."""
        ...

    def loss_sum(self, model: Model, batch: Batch) -> tuple[jax.Array, jax.Array]:
        """The sum of losses over a batch's predictions, and their number."""
        ...


# (model, the user's batches [steps, ...], how many steps to run, clip norm) → Δ_k
Work = Callable[[Model, Batch, jax.Array, jax.Array], Any]


@dataclass(frozen=True)
class FedAvg:
    """Several epochs of local SGD. With `clip_style`, clips after every step as UserUpdateFedAvg does; without, the gate
    clips once at the end (Production, Algorithm 1)."""

    task: Task
    epochs: int
    learning_rate: float
    clip_style: ClipStyle | None = None

    def __call__(self, model: Model, batches: Batch, steps: jax.Array, clip_norm: jax.Array) -> Any:
        def one_step(i: jax.Array, local: Model) -> Model:
            batch = jax.tree.map(lambda leaf: leaf[i], batches)
            local = self.task.sgd_step(local, batch, self.learning_rate)
            if self.clip_style is None:
                return local
            moved = clip(_minus(local, model), clip_norm, self.clip_style)
            return jax.tree.map(jnp.add, model, moved)

        def one_epoch(_: jax.Array, local: Model) -> Model:
            local = jax.lax.fori_loop(0, steps, one_step, local)
            # As at the gate: what is too long there is padded to nothing, or is not, by who else is there.
            near = global_norm(_minus(local, model)) <= LARGEST_NORM
            return jax.tree.map(lambda leaf: jnp.where(near, leaf, jnp.nan).astype(leaf.dtype), local)

        if self.epochs == 1:
            return _minus(jax.lax.fori_loop(0, steps, one_step, model), model)
        return _minus(jax.lax.fori_loop(0, self.epochs, one_epoch, model), model)


@dataclass(frozen=True)
class FedSGD:
    """One gradient over all of a user's examples, times −learning_rate."""

    task: Task
    learning_rate: float

    def __call__(self, model: Model, batches: Batch, steps: jax.Array, clip_norm: jax.Array) -> Any:
        def one_batch(i: jax.Array, carry: tuple[Any, jax.Array]) -> tuple[Any, jax.Array]:
            gradient, count = carry
            batch = jax.tree.map(lambda leaf: leaf[i], batches)
            more, here = jax.grad(self.task.loss_sum, has_aux=True)(model, batch)
            return jax.tree.map(lambda g, m: jnp.where(here > 0, g + m, g), gradient, more), count + here

        start = (jax.tree.map(jnp.zeros_like, model), jnp.zeros((), jnp.float32))
        gradient, count = jax.lax.fori_loop(0, steps, one_batch, start)
        factor = -self.learning_rate / jnp.maximum(count, 1.0)
        return jax.tree.map(lambda leaf: leaf * factor.astype(leaf.dtype), gradient)


def learned_by(work: Work, model: Model) -> Any:
    """The part of the broadcast model that updates are of: all of it, unless the work's `learned` says which."""
    part = getattr(work, "learned", None)
    return model if part is None else part(model)


def _minus(a: Any, b: Any) -> Any:
    return jax.tree.map(jnp.subtract, a, b)
