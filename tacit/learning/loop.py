"""The training loop: the whole algorithm.

DP-FedAvg, DP-FedSGD, DP-FTRL and FedAvg are choices of work × mechanism × server step × participation; simulation and
real devices are choices of `users`. The journal writes each round to disk (see `tacit.runs.journal`).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Protocol

from tacit.learning.averaging import RunningAverage
from tacit.learning.server import Server
from tacit.privacy.gate.sums import BoundedSum, ClipThresholds, Diagnostics
from tacit.privacy.gate.thresholds import Clipping
from tacit.privacy.noise.mechanisms import Mechanism
from tacit.privacy.noise.randomness import NoiseKey


@dataclass(frozen=True)
class TrainingState:
    """Everything a run needs to go on: rounds done, the model, and the states of server, clipping and mechanism.

    `model` is what users train from. `result` is what the run has made so far, which is measured, shown and handed on.
    """

    round: int
    model: Any
    server: Any
    clipping: Any
    noise: Any
    finite: Any = True
    average: RunningAverage | None = None

    @property
    def result(self) -> Any:
        """The average of the models so far, if the run averages; otherwise, and before the first round, the model."""
        return self.model if self.average is None or self.round == 0 else self.average.model(self.model)


class Cohort(Protocol):
    """Who takes part in one attempt at one round, and the key of its noise, which is used once."""

    round: int
    attempt: int
    noise_key: NoiseKey

    def settle(self, broadcast: Any, norms: ClipThresholds) -> Any:
        """The cohort that really took part. Real devices are asked here; their reports stay on the users' side of the gate."""
        ...


class UserSide(Protocol):
    """The users' side of the gate, simulated or real."""

    def collect(self, broadcast: Any, cohort: Any, norms: ClipThresholds) -> tuple[BoundedSum, list[Diagnostics]]:
        """The only call that touches users' data."""
        ...


class Journal(Protocol):
    """What must be on disk before and after a round."""

    def before(self, cohort: Any, norms: ClipThresholds) -> None:
        """Called before anything that depends on the cohort leaves it: writes the intent to disk."""
        ...

    def after(self, state: TrainingState, diagnostics: list[Diagnostics]) -> None:
        """Called when the round is done: metrics, checkpoints."""
        ...


def rounds(
    state: TrainingState,
    *,
    participation: Iterable[Any],
    users: UserSide,
    clipping: Clipping,
    mechanism: Mechanism,
    server: Server,
    journal: Journal,
) -> Iterator[TrainingState]:
    """Run a round for each cohort, and yield the state after each."""
    for invited in participation:
        norms = clipping.norms(state.clipping, invited.round)
        cohort = invited.settle(state.model, norms)
        journal.before(cohort, norms)
        bounded, diagnostics = users.collect(state.model, cohort, norms)
        release, noise = mechanism.release(bounded, state.noise, key=cohort.noise_key)
        model, server_state, finite = server.step(state.model, state.server, release)
        learned = clipping.learn(state.clipping, release, cohort.round)
        done = cohort.round + 1
        average = None if state.average is None else state.average.after(model, done)
        state = TrainingState(done, model, server_state, learned, noise, finite, average)
        journal.after(state, diagnostics)
        yield state


def train(state: TrainingState, **parts: Any) -> TrainingState:
    """Run every round; the state after the last. Takes what `rounds` takes."""
    for after in rounds(state, **parts):
        state = after
    return state
