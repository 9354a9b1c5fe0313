"""The server's step: from a release to the next model.

A release becomes a mean by one of DP-FedAvg's two estimators, both functions of the release and of public constants:

- f_f, fixed denominator:    Σ w_k Δ_k / (qW)
- f_c, clipped denominator:  Σ w_k Δ_k / max(qW_min, Σ w_k)

For f_c the paper divides first and scales the noise to the quotient's sensitivity 2S/(qW_min). Here the sum of weights is a
block of the gate with noise of its own, and the division happens afterwards, for free: at the same ε the update gets about
half the noise. (The paper's bound on the quotient also needs every ‖Δ_k‖ ≤ S, not only ‖w_k Δ_k‖ ≤ S as Lemma 1 says;
tests/learning/test_server.py shows both.)

The mean is then a step of any optimizer, taken as the negative of a gradient.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Literal

import jax
import jax.numpy as jnp
import optax

from tacit.learning.trainable import EVERYTHING, Trainable, join
from tacit.privacy.gate.clipping import global_norm
from tacit.privacy.gate.rounding import LARGEST_NORM
from tacit.privacy.noise.mechanisms import Release
from tacit.privacy.record.records import UPDATE, WEIGHT

OptimizerName = Literal["sgd", "momentum", "nesterov", "adam"]
ScheduleName = Literal["constant", "linear", "cosine"]


def build_optimizer(
    name: OptimizerName, learning_rate: optax.ScalarOrSchedule, momentum: float
) -> optax.GradientTransformation:
    """The server optimizers of Production's Table 6."""
    if name == "adam":
        return optax.adam(learning_rate)
    if name == "sgd":
        return optax.sgd(learning_rate)
    return optax.sgd(learning_rate, momentum=momentum, nesterov=name == "nesterov")


def rate_schedule(
    learning_rate: float, schedule: ScheduleName, rounds: int, *, warmup: int = 0, final: float = 0.0
) -> optax.ScalarOrSchedule:
    """The server's learning rate in every round: a constant, or a rise over `warmup` rounds and a fall to `final` times it.

    It depends on public constants alone. Rounds beyond `rounds`, of a run that was extended, have the last rate.

    >>> rate = rate_schedule(2.0, "linear", 10, warmup=2, final=0.5)
    >>> [round(float(rate(number)), 2) for number in (0, 1, 2, 9, 20)]
    [1.0, 2.0, 2.0, 1.0, 1.0]
    """
    if schedule == "constant" and warmup == 0:
        return learning_rate
    falling = max(rounds - warmup - 1, 1)
    last = learning_rate if schedule == "constant" else final * learning_rate

    def fall(step: Any) -> Any:
        done = jnp.minimum(step / falling, 1.0)
        share = done if schedule == "linear" else (1 - jnp.cos(jnp.pi * done)) / 2
        return learning_rate + share * (last - learning_rate)

    if warmup == 0:
        return fall
    rise = optax.linear_schedule(learning_rate / warmup, learning_rate, max(warmup - 1, 1))
    return optax.join_schedules([rise, fall], [warmup])


def mean_update(release: Release, denominator: float) -> Any:
    """f_f, or f_c where the release carries the sum of weights."""
    divisor = jnp.asarray(denominator, jnp.float32)
    if WEIGHT in release:
        divisor = jnp.maximum(divisor, release[WEIGHT])
    return jax.tree.map(lambda total: total / divisor, release[UPDATE])


def is_finite(model: Any) -> jax.Array:
    """Whether the model's parameters are finite and their norm is at most `LARGEST_NORM`."""
    return global_norm(model) <= LARGEST_NORM


@dataclass(frozen=True)
class Server:
    """Turns releases into models. `step` also says whether what is trained is still finite.

    `trainable` selects the leaves that are stepped; the optimizer has a state for those alone.
    """

    optimizer: optax.GradientTransformation
    denominator: float
    _step: Callable[..., Any]
    trainable: Trainable = field(default=EVERYTHING, kw_only=True)

    @classmethod
    def build(
        cls, optimizer: optax.GradientTransformation, denominator: float, trainable: Trainable = EVERYTHING
    ) -> Server:
        @jax.jit
        def step(trained: Any, state: Any, release: Release) -> tuple[Any, Any, jax.Array]:
            mean = mean_update(release, denominator)
            downhill = jax.tree.map(jnp.negative, mean)
            updates, state = optimizer.update(downhill, state, trained)
            trained = optax.apply_updates(trained, updates)
            return trained, state, is_finite(trained)

        return cls(optimizer, denominator, step, trainable=trainable)

    def init(self, model: Any) -> Any:
        """The optimizer's state before the first round."""
        return self.optimizer.init(self.trainable.trained(model))

    def step(self, model: Any, state: Any, release: Release) -> tuple[Any, Any, jax.Array]:
        """(next model, next state, whether it is finite). Frozen leaves are handed on as they are."""
        trained, frozen = self.trainable.split(model)
        trained, state, finite = self._step(trained, state, release)
        return join(trained, frozen), state, finite
