"""Central training: minibatches of pooled records, on one machine that may see all of them.

It is used for pre-training on public text (Gboard, section 2.3), and as the baseline that federated training is compared with
(Memorization, section 4). The caller chooses the order of the records: `shuffled` mixes those of all users, `user_by_user`
keeps the records of a user together.

Nothing here goes through the gate: a model that is trained this way on private records has no guarantee.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
from numpy.typing import NDArray

from tacit.errors import DivergedError
from tacit.learning.server import OptimizerName, build_optimizer
from tacit.learning.tasks import Batch, Model, Task

# Steps per compiled call: enough that calls cost little, few enough to show progress.
BLOCK_STEPS = 256

# Called after each compiled call: steps done, and the mean loss on the batch read last.
OnProgress = Callable[[int, float], None]


@dataclass(frozen=True)
class Descent:
    """How a batch moves the model: on the mean loss over its predictions, by one of the server's optimizers."""

    task: Task
    optimizer: OptimizerName
    learning_rate: float
    momentum: float = 0.9

    def init(self, model: Model) -> Any:
        """The optimizer's state before the first batch."""
        return () if self.optimizer == "sgd" else self._transformation().init(model)

    def step(self, model: Model, state: Any, batch: Batch) -> tuple[Model, Any]:
        """(next model, next state)."""
        if self.optimizer == "sgd":  # the task has a step of its own, which makes no gradient the size of the model
            return self.task.sgd_step(model, batch, self.learning_rate), state
        gradient = jax.grad(lambda model: _mean_loss(self.task, model, batch))(model)
        with jax.numpy_dtype_promotion("standard"):  # Adam's correction is a float to the power of a count
            updates, state = self._transformation().update(gradient, state, model)
        return optax.apply_updates(model, updates), state

    def _transformation(self) -> optax.GradientTransformation:
        return build_optimizer(self.optimizer, self.learning_rate, self.momentum)


def shuffled(records: int, *, epochs: int, seed: int) -> Iterator[NDArray[np.int64]]:
    """All records once an epoch, mixed anew each time: the order of independent, identically distributed data."""
    generator = np.random.default_rng(seed)
    for _ in range(epochs):
        yield generator.permutation(records)


def user_by_user(user_offsets: NDArray[np.int64], *, epochs: int, seed: int) -> Iterator[NDArray[np.int64]]:
    """All records once an epoch; users come in an order mixed anew each time, and each user's records stay together.

    User u owns the records ``user_offsets[u]`` to ``user_offsets[u + 1]``, which come in their own order.
    """
    generator = np.random.default_rng(seed)
    owner = np.repeat(np.arange(len(user_offsets) - 1), np.diff(user_offsets))
    for _ in range(epochs):
        place = generator.permutation(len(user_offsets) - 1)
        yield np.argsort(place[owner], kind="stable")


def first_steps(order: Iterable[NDArray[np.int64]], steps: int, *, batch_size: int) -> Iterator[NDArray[np.int64]]:
    """The first `steps` batches of an order."""
    for records in order:
        if steps <= 0:
            return
        yield records[: steps * batch_size]
        steps -= -(-len(records) // batch_size)


def train_central(
    model: Model,
    records: NDArray[np.generic],
    order: Iterable[NDArray[np.int64]],
    descent: Descent,
    *,
    batch_size: int,
    on_progress: OnProgress | None = None,
) -> Model:
    """The model after one step for each batch of `batch_size` records, taken as they come in each pass of `order`.

    The last batch of a pass may be smaller. `records` stays where it is and goes to the device a few batches at a time;
    a record of zeros asks for no prediction. DivergedError if the model leaves the finite numbers.
    """
    state, done = descent.init(model), 0
    for batches, steps in _blocks(records, order, batch_size):
        model, state, loss, finite = _run(descent, model, state, batches, np.int32(steps))
        done += steps
        if not bool(finite):
            raise DivergedError(f"Central training diverged by step {done}: the model is not finite any more.")
        if on_progress is not None:
            on_progress(done, float(loss))
    return model


def _blocks(
    records: NDArray[np.generic], order: Iterable[NDArray[np.int64]], batch_size: int
) -> Iterator[tuple[NDArray[np.generic], int]]:
    """Batches [BLOCK_STEPS, batch_size, ...], always of one shape, and how many of them are to be used."""
    room = BLOCK_STEPS * batch_size
    for whole_pass in order:
        for start in range(0, len(whole_pass), room):
            chosen = whole_pass[start : start + room]
            block = np.zeros((room, *records.shape[1:]), records.dtype)
            block[: len(chosen)] = records[chosen]
            yield block.reshape(BLOCK_STEPS, batch_size, *records.shape[1:]), -(-len(chosen) // batch_size)


@partial(jax.jit, static_argnames="descent")
def _run(
    descent: Descent, model: Model, state: Any, batches: jax.Array, steps: jax.Array
) -> tuple[Model, Any, jax.Array, jax.Array]:
    """The first `steps` batches; unused ones are not read, because even an empty batch would move a momentum."""

    def one_step(i: jax.Array, carry: tuple[Model, Any]) -> tuple[Model, Any]:
        return descent.step(*carry, batches[i])

    model, state = jax.lax.fori_loop(0, steps, one_step, (model, state))
    finite = jnp.stack([jnp.isfinite(leaf).all() for leaf in jax.tree.leaves(model)]).all()
    return model, state, _mean_loss(descent.task, model, batches[steps - 1]), finite


def _mean_loss(task: Task, model: Model, batch: Batch) -> jax.Array:
    loss, count = task.loss_sum(model, batch)
    return loss / jnp.maximum(count, 1.0)
