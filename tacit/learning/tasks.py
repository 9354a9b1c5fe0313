"""What a model learns from a batch. A plain function is enough:

    def loss(model, batch):
        ...
        return sum_of_losses, number_of_predictions

    task = as_task(loss)

A batch is a pytree of arrays. Text is int32 tokens [rows, length + 1], padded with 0 (`tacit.data.rows`); images are a dict
(`tacit.learning.batches`). The engine pads users with batches that ask for no prediction, and such a batch must change nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from tacit.errors import RecipeError
from tacit.learning.trainable import EVERYTHING, join

Batch = Any  # a pytree of arrays, one batch
Model = Any
Sums = Mapping[str, tuple[jax.Array, jax.Array]]
Loss = Callable[[Model, Batch], tuple[jax.Array, jax.Array]]


class Task(Protocol):
    """What a model learns from a batch. The loss of a batch is the mean over its predictions.

    A task may also have ``metrics(model, batch) -> {name: (sum, count)}``, which evaluation adds up over batches, and
    ``scores(model, tokens) -> logits`` for prediction: [rows, length] tokens to [rows, length, vocabulary].

    >>> import jax.numpy as jnp, tacit
    >>> task: tacit.Task = tacit.as_task(lambda model, batch: (jnp.sum((model - batch) ** 2), batch.size))
    >>> [float(each) for each in task.loss_sum(jnp.float32(0), jnp.ones(4))]
    [4.0, 4.0]
    """

    def sgd_step(self, model: Model, batch: Batch, learning_rate: float) -> Model:
        """One step of plain SGD on the batch's mean loss; a batch without predictions returns the model unchanged."""
        ...

    def loss_sum(self, model: Model, batch: Batch) -> tuple[jax.Array, jax.Array]:
        """The sum of losses over a batch's predictions, and their number."""
        ...


@dataclass(frozen=True)
class LossTask:
    """The task of a loss function; `as_task` makes one."""

    loss: Loss
    metrics: Callable[[Model, Batch], Sums] | None = None
    scores: Callable[[Model, Batch], jax.Array] | None = None

    def loss_sum(self, model: Model, batch: Batch) -> tuple[jax.Array, jax.Array]:
        """The sum of losses over a batch's predictions, and their number, both float32."""
        returned = self.loss(model, batch)
        if not isinstance(returned, tuple | list) or len(returned) != 2:
            got = f"{len(returned)} values" if isinstance(returned, tuple | list) else "a single value"
            raise RecipeError(f"Expected the task's loss to return (sum of losses, number of predictions), got {got}.")
        total, count = returned
        return jnp.asarray(total).astype(jnp.float32), jnp.asarray(count).astype(jnp.float32)

    def sgd_step(self, model: Model, batch: Batch, learning_rate: float) -> Model:
        """One step of plain SGD on the mean loss, by automatic differentiation."""
        trained, frozen = EVERYTHING.split(model)
        return join(gradient_step(TrainedPart(self, frozen).loss_sum, trained, batch, learning_rate), frozen)


@dataclass(frozen=True, eq=False)
class TrainedPart:
    """The task of a model of which only a part is trained. Its methods take that part; `frozen` holds the rest."""

    task: Task
    frozen: Any

    def loss_sum(self, trained: Any, batch: Batch) -> tuple[jax.Array, jax.Array]:
        """The sum of losses of the whole model, and the number of predictions."""
        return self.task.loss_sum(join(trained, self.frozen), batch)

    def sgd_step(self, trained: Any, batch: Batch, learning_rate: float) -> Any:
        """One step of plain SGD that moves the trained part alone."""
        return gradient_step(self.loss_sum, trained, batch, learning_rate)


def as_task(given: Task | Loss) -> Task:
    """A loss function or an object with `loss_sum` as a task; a task that has a `sgd_step` of its own stays as it is.

    >>> import jax.numpy as jnp, tacit
    >>> task = tacit.as_task(lambda model, batch: (jnp.sum((model - batch) ** 2), batch.size))
    >>> float(task.sgd_step(jnp.float32(0), jnp.ones(4), 0.5))
    1.0
    """
    loss = getattr(given, "loss_sum", given)
    if isinstance(given, type) or not callable(loss):
        raise RecipeError(
            f"Expected a task: a function loss(model, batch) -> (sum, count) or an object with loss_sum, got {given!r}."
        )
    if hasattr(given, "loss_sum") and hasattr(given, "sgd_step"):
        return given
    return LossTask(loss, getattr(given, "metrics", None), getattr(given, "scores", None))


def gradient_step(loss_sum: Loss, model: Any, batch: Batch, learning_rate: float) -> Any:
    """model - learning_rate · gradient of the batch's mean loss; every leaf of `model` is a floating-point array."""
    gradient, count = jax.grad(loss_sum, has_aux=True)(model, batch)
    step = -jnp.float32(learning_rate) / jnp.maximum(count, 1).astype(jnp.float32)

    def moved(leaf: jax.Array, slope: jax.Array) -> jax.Array:
        # Selected by `where`, not multiplied by zero: the gradient of an empty batch may be 0/0.
        return jnp.where(count > 0, leaf + (step * slope.astype(jnp.float32)).astype(leaf.dtype), leaf)

    return jax.tree.map(moved, model, gradient)


def mean_metrics(task: Task, model: Model, stacks: Iterable[Batch]) -> dict[str, float]:
    """The mean loss over all predictions, and the mean of each of the task's metrics; a stack is some batches [batches, ...].

    A metric without anything to count is 0. Stacks of one shape share one compilation, for which the task must be hashable.
    """
    total: dict[str, Any] = {}
    for batches in stacks:
        found = {name: np.asarray(pair, np.float64) for name, pair in _sums(task, model, batches).items()}
        total = {name: pair + total.get(name, 0.0) for name, pair in found.items()}
    return {name: float(each / count) if count > 0 else 0.0 for name, (each, count) in total.items()}


@eqx.filter_jit
def _sums(task: Task, model: Model, batches: Batch) -> dict[str, jax.Array]:
    metrics = getattr(task, "metrics", None)

    def one(batch: Batch) -> dict[str, jax.Array]:
        found = {"loss": task.loss_sum(model, batch), **({} if metrics is None else metrics(model, batch))}
        return {
            name: jnp.stack([jnp.asarray(each).astype(jnp.float32) for each in pair]) for name, pair in found.items()
        }

    return {name: jnp.sum(pairs, axis=0) for name, pairs in jax.lax.map(one, batches).items()}
