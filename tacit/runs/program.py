"""A `Program` is everything that the driver needs to run. Simulation and fleet each supply the users' side of it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, nullcontext
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
from tacit.privacy.record.ledger import Ledger
from tacit.privacy.record.records import Opened, Record
from tacit.runs.budget.account import Account
from tacit.runs.callbacks import WorkersReport
from tacit.runs.folder import RunFolder
from tacit.runs.gate_audit.in_run import GateAudit
from tacit.runs.journal import Schedule
from tacit.runs.witness import Witness


class Cohorts(Protocol):
    """The cohorts of a run, one after another; closed when the run stops early."""

    def __iter__(self) -> Iterator[Any]: ...

    def close(self) -> None: ...


@dataclass(frozen=True, kw_only=True)
class Program(ABC):
    """Everything that a run needs; nothing is on disk yet.

    `opened` is the ledger's first record. `store` is the folder in whose odometer the run is entered (None: a world, which
    has no people). `account` is another account that the run draws from, beside that of `store`. `users` stands on the users'
    side of the gate. `evaluate` measures a model; `finish` makes the run's summary, and leaves what it wants in the run
    folder. With `evaluate_first`, the model is measured before the first round too. `witness` countersigns the ledger's heads.
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
    witness: Witness | None = None
    account: Account | None = None

    @abstractmethod
    def participation(self, randomness: Randomness, start: int, attempts: Mapping[int, int]) -> Cohorts:
        """The cohorts of the rounds from `start` on; `attempts` says how often a round was begun before."""

    def unfinished(self, folder: RunFolder, ledger: Ledger, rounds_done: int) -> bool:
        """Whether the sum of the ledger's last intent, which is in no checkpoint, is still there and the run can go on with it.

        A program may say so only if nothing of a round is shown before its checkpoint is durable (`Schedule.save_first`): the
        sum then gets fresh noise, and is released once, whatever noise the process drew for it that was lost.
        """
        return False

    def follow(self, append: Callable[[Record], object]) -> None:
        """Called before the first round with the way to append a record of the program's own to the ledger."""
        return

    @abstractmethod
    def audit(self, folder: RunFolder) -> GateAudit:
        """The users and the mechanism that rounds use, with the audit of the gate between them if it is possible."""

    def running(self) -> AbstractContextManager[object]:
        """What must be there while rounds run, such as other machines; entered before the first round, left after the last."""
        return nullcontext()

    def workers(self) -> WorkersReport | None:
        """How the processes that train users do; None where this process trains them."""
        return None

    @abstractmethod
    def require_same_users(self, folder: RunFolder, *, begun: bool) -> None:
        """PrivacyError if the run has `begun` with other users; otherwise keep what tells these from others."""
