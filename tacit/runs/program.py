"""A `Program` is everything that the driver needs to run. Simulation and fleet each supply the users' side of it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from tacit.learning.loop import TrainingState
from tacit.learning.server import Server
from tacit.privacy.accounting.spent import Spent
from tacit.privacy.noise.mechanisms import Mechanism
from tacit.privacy.noise.randomness import Randomness
from tacit.privacy.participation.samplers import Sampler
from tacit.privacy.plan import PrivacyPlan
from tacit.privacy.record.records import Opened
from tacit.runs.folder import RunFolder
from tacit.runs.gate_audit.in_run import GateAudit
from tacit.runs.journal import Schedule


class Cohorts(Protocol):
    """The cohorts of a run, one after another; closed when the run stops early."""

    def __iter__(self) -> Iterator[Any]: ...

    def close(self) -> None: ...


@dataclass(frozen=True, kw_only=True)
class Program(ABC):
    """Everything that a run needs; nothing is on disk yet.

    `opened` is the ledger's first record. `store` is the folder in whose odometer the run is entered (None: a world, which has
    no people). `users` stands on the users' side of the gate. `evaluate` measures a model; `finish` makes the run's summary,
    and leaves what it wants in the run folder. With `evaluate_first`, the model is measured before the first round too.
    """

    plan: PrivacyPlan
    schedule: Schedule
    seed: int | None
    opened: Opened
    store: Path | None
    start: TrainingState
    users: Any
    sampler: Sampler
    mechanism: Mechanism
    server: Server
    evaluate: Callable[[Any], Mapping[str, float]]
    finish: Callable[[TrainingState, Opened, Spent], dict[str, Any]]
    evaluate_first: bool = False

    @abstractmethod
    def participation(self, randomness: Randomness, start: int, attempts: Mapping[int, int]) -> Cohorts:
        """The cohorts of the rounds from `start` on; `attempts` says how often a round was begun before."""

    @abstractmethod
    def audit(self, folder: RunFolder) -> GateAudit:
        """The users and the mechanism that rounds use, with the audit of the gate between them if it is possible."""

    @abstractmethod
    def require_same_users(self, folder: RunFolder, *, begun: bool) -> None:
        """PrivacyError if the run has `begun` with other users; otherwise keep what tells these from others."""
