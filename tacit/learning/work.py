"""Work on one user: what a device computes from its own examples (DP-FedAvg, Algorithm 1).

`FedAvg` and `FedSGD` say how a user trains, a `Task` what the model learns, and a filter which leaves are trained; `LocalWork`
binds the three, and is what the engine calls for each user. Each is a pure function of the broadcast model and one user's
batches, written for one user and batched outside.

**Padding.** One user's update must not depend on who else is there. In Tacit's own work and tasks a batch that asks for no
prediction changes nothing (up to `LARGEST_NORM`; a longer update counts as zero), so the users of a chunk run the same number
of steps, and those with fewer batches run empty ones. That is fast, and `ignores_padding` says that it is proven. For all other
work, each user runs only their own number of steps, so nothing has to be assumed about that work.

The result is an update Δ_k, *not yet trusted*: the gate clips every update again in float64, whatever the work did.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from numbers import Integral
from typing import Any, Protocol

import jax
import jax.numpy as jnp

from tacit.errors import PrivacyError, RecipeError
from tacit.learning.next_word import NextWord
from tacit.learning.tasks import Batch, Model, Task, TrainedPart, as_task
from tacit.learning.trainable import Filter, trainable_of
from tacit.models.char_lm import NextSymbol
from tacit.models.classifier import Classify
from tacit.privacy.gate.clipping import ClipStyle, clip, global_norm
from tacit.privacy.gate.rounding import LARGEST_NORM

# What the engine calls for each user: (model, the user's batches [steps, ...], how many steps to run, clip norm) → Δ_k.
UserWork = Callable[[Model, Batch, jax.Array, jax.Array], Any]


@dataclass(frozen=True)
class Clip:
    """The round's clip, for work that clips its own steps: ``clip(update)`` is the update within the norm."""

    norm: jax.Array
    style: ClipStyle

    def __call__(self, update: Any) -> Any:
        return clip(update, self.norm, self.style)


class Work(Protocol):
    """How a user trains: `batch_size` examples a step, and `update`.

    >>> import tacit
    >>> work: tacit.Work = tacit.FedSGD(batch_size=4)
    >>> work.batch_size
    4
    """

    @property
    def batch_size(self) -> int:
        """Examples per batch."""
        ...

    def update(self, task: Task, model: Model, batches: Batch, steps: jax.Array, clip_norm: Clip) -> Any:
        """Δ_k, of the structure of `model`: what the first `steps` of a user's batches [steps, ...] make of it.

        `model` holds the trained leaves alone, all floating-point arrays, and `task` knows the frozen rest. The update
        depends on nothing else. The gate clips it: `clip_norm` is for work that clips in between.
        """
        ...


@dataclass(frozen=True, kw_only=True)
class FedAvg:
    """Several epochs of local SGD. With `clip_every_step`, clips after every step as UserUpdateFedAvg does; without, the gate
    clips once at the end (Production, Algorithm 1).

    `update_penalty` λ adds λ/2 · ‖θ - θ⁰‖² to the loss of every step, which pulls the user's model back to the one that was
    sent (DP-FedAvg, appendix D).

    >>> import tacit
    >>> tacit.FedAvg(epochs=2, learning_rate=0.5).batch_size
    8
    """

    epochs: int = 1
    batch_size: int = 8
    learning_rate: float = 0.5
    clip_every_step: bool = False
    update_penalty: float = 0.0

    def __post_init__(self) -> None:
        _require_count("epochs", self.epochs)
        _require_count("batch_size", self.batch_size)
        _require_rate(self.learning_rate)
        if not 0 <= self.update_penalty * self.learning_rate < 1:
            raise RecipeError(
                "Expected an update_penalty of at least 0 and below 1 / learning_rate, above which a step overshoots the model "
                f"that was sent, got {self.update_penalty!r} with a learning_rate of {self.learning_rate!r}."
            )

    def update(self, task: Task, model: Model, batches: Batch, steps: jax.Array, clip_norm: Clip) -> Any:
        """The model after local SGD minus the model before it."""

        def one_step(i: jax.Array, local: Model) -> Model:
            batch = jax.tree.map(lambda leaf: leaf[i], batches)
            stepped = task.sgd_step(local, batch, self.learning_rate)
            if not self.clip_every_step and not self.update_penalty:
                return stepped
            changed = stepped
            if self.update_penalty:
                pull = self.learning_rate * self.update_penalty
                away = _minus(local, model)
                changed = jax.tree.map(lambda leaf, gone: leaf - jnp.asarray(pull, leaf.dtype) * gone, changed, away)
            if self.clip_every_step:
                changed = jax.tree.map(jnp.add, model, clip_norm(_minus(changed, model)))
            # An empty batch must change nothing: model + (local - model) may differ from local in the last bit, the penalty
            # pulls in any step, and how many batches are empty depends on others.
            still = _equal(stepped, local)
            return jax.tree.map(lambda before, after: jnp.where(still, before, after), local, changed)

        def one_epoch(_: jax.Array, local: Model) -> Model:
            local = jax.lax.fori_loop(0, steps, one_step, local)
            # As at the gate: above LARGEST_NORM padding changes the result, and padding depends on the other users.
            near = global_norm(_minus(local, model)) <= LARGEST_NORM
            return jax.tree.map(lambda leaf: jnp.where(near, leaf, jnp.nan).astype(leaf.dtype), local)

        if self.epochs == 1:
            return _minus(jax.lax.fori_loop(0, steps, one_step, model), model)
        return _minus(jax.lax.fori_loop(0, self.epochs, one_epoch, model), model)


@dataclass(frozen=True, kw_only=True)
class FedSGD:
    """One gradient over all of a user's examples, times −learning_rate; `batch_size` of them are in memory at a time.

    >>> import tacit
    >>> tacit.FedSGD(learning_rate=1.0).batch_size
    8
    """

    batch_size: int = 8
    learning_rate: float = 1.0

    def __post_init__(self) -> None:
        _require_count("batch_size", self.batch_size)
        _require_rate(self.learning_rate)

    def update(self, task: Task, model: Model, batches: Batch, steps: jax.Array, clip_norm: Clip) -> Any:
        """−learning_rate times the gradient of the user's mean loss."""

        def one_batch(i: jax.Array, carry: tuple[Any, jax.Array]) -> tuple[Any, jax.Array]:
            gradient, count = carry
            batch = jax.tree.map(lambda leaf: leaf[i], batches)
            more, here = jax.grad(task.loss_sum, has_aux=True)(model, batch)
            added = jax.tree.map(lambda g, m: jnp.where(here > 0, g + m, g), gradient, more)
            return added, count + jnp.asarray(here).astype(jnp.float32)

        start = (jax.tree.map(jnp.zeros_like, model), jnp.zeros((), jnp.float32))
        gradient, count = jax.lax.fori_loop(0, steps, one_batch, start)
        factor = -self.learning_rate / jnp.maximum(count, 1.0)
        return jax.tree.map(lambda leaf: leaf * factor.astype(leaf.dtype), gradient)


@dataclass(frozen=True)
class LocalWork:
    """What one user computes: this work on this task, for the leaves that `trainable` selects (`tacit.learning.trainable`).

    `task` may be a loss function. `clip_style` is the plan's, for work that clips its own steps.

    >>> import jax.numpy as jnp, tacit
    >>> def loss(model, batch):
    ...     return jnp.sum((model["w"] - batch) ** 2), batch.size
    >>> work = tacit.LocalWork(tacit.FedAvg(learning_rate=0.5), loss)
    >>> update = work({"w": jnp.zeros(())}, jnp.ones((1, 4)), jnp.int32(1), jnp.float32(1.0))
    >>> float(update["w"])
    1.0
    """

    work: Work
    task: Any
    trainable: Filter = None
    clip_style: ClipStyle = "flat"

    def __post_init__(self) -> None:
        if isinstance(self.work, type) or not callable(getattr(self.work, "update", None)):
            raise RecipeError(f"Expected work with update(...) and batch_size, such as FedAvg(), got {self.work!r}.")
        object.__setattr__(self, "task", as_task(self.task))
        object.__setattr__(self, "trainable", trainable_of(self.trainable))

    @property
    def batch_size(self) -> int:
        """Examples a batch."""
        return self.work.batch_size

    @property
    def ignores_padding(self) -> bool:
        """Whether steps on empty batches are proven to change nothing. A loss function may count padding, so it is not."""
        return type(self.work) in (FedAvg, FedSGD) and type(self.task) in (NextWord, NextSymbol, Classify)

    def learned(self, model: Model) -> Any:
        """The subtree that users update."""
        return self.trainable.trained(model)

    def __call__(self, model: Model, batches: Batch, steps: jax.Array, clip_norm: jax.Array) -> Any:
        """Δ_k of the subtree that users update."""
        trained, frozen = self.trainable.split(model)
        # A task's own step may be faster than autodiff, but it steps the whole model.
        task = TrainedPart(self.task, frozen) if jax.tree.leaves(frozen) else self.task
        return self.work.update(task, trained, batches, steps, Clip(clip_norm, self.clip_style))


def learned_by(work: UserWork, model: Model) -> Any:
    """The subtree that users update: all of the model, unless the work's `learned` says which."""
    part = getattr(work, "learned", None)
    return model if part is None else part(model)


def ignores_padding(work: UserWork) -> bool:
    """Whether steps on empty batches are proven to change nothing; only work of Tacit's own may say so."""
    return type(work).__module__.startswith("tacit.") and bool(getattr(work, "ignores_padding", False))


def reads_one_batch_at_a_time(work: UserWork) -> bool:
    """Whether work is known to read no more of a user's batches [steps, ...] than one batch in each of its steps.

    How many batches of padding follow the last one then changes no update. Work of other people's own may look at all batches
    together, and a task or a loss of their own gets one batch at a time from `FedAvg` and `FedSGD`.
    """
    return ignores_padding(work) or (type(work) is LocalWork and type(work.work) in (FedAvg, FedSGD))


def require_update_of(learned: Any, update: Any) -> Any:
    """The update, if it has the structure and shapes of what users update. PrivacyError otherwise: a shape that broadcasts
    would count several times in the sum and once in its norm."""
    expected, got = (
        (jax.tree.structure(tree), [jnp.shape(leaf) for leaf in jax.tree.leaves(tree)]) for tree in (learned, update)
    )
    if expected != got:
        raise PrivacyError(
            f"Expected an update of the structure and shapes of what users update, {_shown(expected)}, got {_shown(got)}."
        )
    return update


def _shown(described: tuple[Any, list[tuple[int, ...]]]) -> str:
    structure, shapes = described
    return f"{structure.num_leaves} arrays of shapes {shapes}"


def _require_count(name: str, value: Any) -> None:
    if not isinstance(value, Integral) or value < 1:
        raise RecipeError(f"Expected {name} to be a whole number of at least 1, got {value!r}.")


def _require_rate(value: float) -> None:
    if not math.isfinite(value) or value <= 0:
        raise RecipeError(f"Expected learning_rate to be a finite number above 0, got {value!r}.")


def _equal(a: Any, b: Any) -> jax.Array:
    """Whether all arrays are equal."""
    return jnp.stack(jax.tree.leaves(jax.tree.map(jnp.array_equal, a, b))).all()


def _minus(a: Any, b: Any) -> Any:
    return jax.tree.map(jnp.subtract, a, b)
