"""The whole of the algorithm.

DP-FedAvg, DP-FedSGD and FedAvg are choices of work × mechanism × server step × participation; simulation and
real devices are choices of `users`. The journal makes each round durable around it (see `tacit.runs.journal`).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any, Protocol

import jax

from tacit.learning.server import Server
from tacit.privacy.mechanisms import Mechanism
from tacit.privacy.sums import BoundedSum, Diagnostics


@dataclass(frozen=True)
class TrainingState:
    """Everything a run needs to go on: the number of rounds done, the model, the server's and the mechanism's state."""

    round: int
    model: Any
    server: Any
    noise: Any
    finite: Any = True


class Cohort(Protocol):
    """Who takes part in one attempt at one round, and the key of its noise, which is used once."""

    round: int
    attempt: int
    noise_key: jax.Array


class Devices(Protocol):
    """Users' side of the gate: simulated or real."""

    def collect(self, broadcast: Any, cohort: Any) -> tuple[BoundedSum, list[Diagnostics]]:
        """The only call that touches users' data."""
        ...


class Journal(Protocol):
    """What must be durable, when."""

    def before(self, cohort: Any) -> None:
        """Called before the round touches users: makes the intent durable."""
        ...

    def after(self, state: TrainingState, diagnostics: list[Diagnostics]) -> None:
        """Called when the round is done: metrics, checkpoints."""
        ...


def train(
    state: TrainingState,
    *,
    participation: Iterable[Any],
    users: Devices,
    mechanism: Mechanism,
    server: Server,
    journal: Journal,
) -> TrainingState:
    """Run a round for each cohort."""
    for cohort in participation:
        journal.before(cohort)
        bounded, diagnostics = users.collect(state.model, cohort)
        release, noise = mechanism.release(bounded, state.noise, key=cohort.noise_key)
        model, server_state, finite = server.step(state.model, state.server, release)
        state = replace(state, round=cohort.round + 1, model=model, server=server_state, noise=noise, finite=finite)
        journal.after(state, diagnostics)
    return state
