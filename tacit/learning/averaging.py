"""Averages of a run's models: what a run measures, shows and hands on may be smoother than the model after its last round.

The noise of a release moves the model away from where the users' updates point, and later rounds move it back. An average
over rounds cancels a part of that movement. Users still train from the last model, so the average changes no release, and it
costs no privacy: it is a function of models that are released anyway, and of public constants.

    last k          a_t = (m_t + m_(t-1) + ... + m_(t-k+1)) / k, or the mean of all t models while t < k
    exponential d   a_t = (m_t + d m_(t-1) + d² m_(t-2) + ... + d^(t-1) m_1) / (1 + d + ... + d^(t-1))

m_t is the model after t rounds. An average begins with m_1, the model after the first release: the model that the run starts
from, pre-trained or not, is not part of it. Leaves that are not trained are those of the model.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import jax
import jax.numpy as jnp

from tacit.errors import RecipeError
from tacit.learning.trainable import EVERYTHING, Trainable, join


class Averaging(ABC):
    """How models are averaged; pure functions over what is kept between rounds, a pytree of arrays."""

    @abstractmethod
    def empty(self, trained: Any, round: int) -> Any:
        """What is kept after so many rounds, with zeros in place of its numbers: the shape of a checkpoint."""

    @abstractmethod
    def add(self, kept: Any, trained: Any, round: int) -> Any:
        """What is kept after `round` rounds, of which the last made this model; 1 is the first."""

    @abstractmethod
    def mean(self, kept: Any) -> Any:
        """The average of what is kept, after one round or more."""

    @abstractmethod
    def settings(self) -> dict[str, Any]:
        """The keys of a recipe's section [server] that say the same."""

    @abstractmethod
    def __str__(self) -> str:
        """Which average the model of a run is, as the end of a sentence."""


@dataclass(frozen=True)
class LastAverage(Averaging):
    """The mean of the models after the last `rounds` rounds. All of these are kept, in memory and in every checkpoint.

    >>> import tacit
    >>> str(tacit.LastAverage(5))
    'the mean of the models after the last 5 rounds'
    """

    rounds: int = 10

    def __post_init__(self) -> None:
        if not isinstance(self.rounds, int) or isinstance(self.rounds, bool) or self.rounds < 1:
            raise RecipeError(f"Expected LastAverage.rounds to be a whole number of at least 1, got {self.rounds!r}.")

    def empty(self, trained: Any, round: int) -> Any:
        return tuple(jax.tree.map(jnp.zeros_like, trained) for _ in range(min(round, self.rounds)))

    def add(self, kept: Any, trained: Any, round: int) -> Any:
        return (*kept, trained)[-self.rounds :]

    def mean(self, kept: Any) -> Any:
        return _mean(kept)

    def settings(self) -> dict[str, Any]:
        return {"average": "last", "average_rounds": self.rounds}

    def __str__(self) -> str:
        return f"the mean of the models after the last {self.rounds:,} rounds"


@dataclass(frozen=True)
class ExponentialAverage(Averaging):
    """An average in which the model of i rounds ago counts decay^i times as much as the last one.

    It reaches back over about 1 / (1 - decay) rounds, and keeps one model.

    >>> import tacit
    >>> str(tacit.ExponentialAverage(0.9))
    'the exponential average of the models after each round, with decay 0.9'
    """

    decay: float = 0.9

    def __post_init__(self) -> None:
        if isinstance(self.decay, bool) or not isinstance(self.decay, int | float) or not 0 <= self.decay < 1:
            raise RecipeError(f"Expected 0 ≤ ExponentialAverage.decay < 1, got {self.decay!r}.")

    def empty(self, trained: Any, round: int) -> Any:
        return jax.tree.map(lambda leaf: jnp.zeros(leaf.shape, _wide(leaf)), trained)

    def add(self, kept: Any, trained: Any, round: int) -> Any:
        # The weights of all models so far add up to 1, so the last of them has this one.
        share = (1 - self.decay) / (1 - self.decay**round)
        return _blend(kept, trained, share)

    def mean(self, kept: Any) -> Any:
        return kept

    def settings(self) -> dict[str, Any]:
        return {"average": "exponential", "average_decay": self.decay}

    def __str__(self) -> str:
        return f"the exponential average of the models after each round, with decay {self.decay:g}"


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class RunningAverage:
    """The average of a run, as part of its state. It is empty before the first round."""

    kept: Any
    averaging: Averaging = field(metadata={"static": True})
    trainable: Trainable = field(default=EVERYTHING, metadata={"static": True})

    @classmethod
    def of(cls, averaging: Averaging | None, model: Any, trainable: Trainable) -> RunningAverage | None:
        """The average of a run that is about to train this model; None if it averages nothing."""
        return None if averaging is None else cls((), averaging, trainable).empty(model, 0)

    def empty(self, model: Any, round: int) -> RunningAverage:
        """The average after so many rounds, with zeros in place of its numbers."""
        return replace(self, kept=self.averaging.empty(self.trainable.trained(model), round))

    def after(self, model: Any, round: int) -> RunningAverage:
        """The average after `round` rounds, of which the last made this model."""
        return replace(self, kept=self.averaging.add(self.kept, self.trainable.trained(model), round))

    def model(self, last: Any) -> Any:
        """The averaged model; `last` is the model after the last round, whose frozen leaves it has."""
        trained, frozen = self.trainable.split(last)
        mean = jax.tree.map(lambda leaf, like: leaf.astype(like.dtype), self.averaging.mean(self.kept), trained)
        return join(mean, frozen)


def averaging_of(server: Mapping[str, Any]) -> Averaging | None:
    """The averaging that a recipe's section [server] asks for; None: the last model is what the run makes."""
    match server.get("average", "none"):
        case "last":
            return LastAverage(server["average_rounds"])
        case "exponential":
            return ExponentialAverage(server["average_decay"])
    return None


def _wide(leaf: Any) -> Any:
    """The type in which sums of this leaf are formed: at least float32."""
    return leaf.dtype if leaf.dtype.itemsize >= 4 else jnp.dtype(jnp.float32)


@jax.jit
def _blend(kept: Any, trained: Any, share: Any) -> Any:
    def each(before: Any, leaf: Any) -> Any:
        weight = jnp.asarray(share, before.dtype)
        return (1 - weight) * before + weight * leaf.astype(before.dtype)

    return jax.tree.map(each, kept, trained)


def _mean(models: tuple[Any, ...]) -> Any:
    def each(*leaves: Any) -> Any:
        total = leaves[0].astype(_wide(leaves[0]))
        for leaf in leaves[1:]:
            total = total + leaf.astype(total.dtype)
        return total / len(leaves)

    return jax.tree.map(each, *models)
