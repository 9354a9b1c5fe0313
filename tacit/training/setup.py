"""Everything a run needs that does not depend on where its users are: model, work, plan, server, data.

`simulation` and `fleet` each take such a setup and add the users' side. A recipe makes one (`training.recipes`), and so does
a call of `tacit.train` with objects of your own (`training.calls`).
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import jax
import numpy as np
import optax

from tacit.learning.averaging import Averaging, RunningAverage
from tacit.learning.batches import Batching, foreign_name
from tacit.learning.loop import TrainingState
from tacit.learning.prefix_tree import PrefixWork
from tacit.learning.secure_sums import SecureSums
from tacit.learning.server import Server
from tacit.learning.work import LocalWork
from tacit.models.word_lm import parameter_count
from tacit.privacy.accounting.spent import Spent
from tacit.privacy.noise.mechanisms import Mechanism
from tacit.privacy.noise.strategies import Strategy
from tacit.privacy.plan import PrivacyPlan
from tacit.privacy.planning.noise_warnings import warnings_of
from tacit.privacy.record.facts import PretrainingRecord
from tacit.privacy.record.notes import notes_of
from tacit.privacy.record.reasons import Reason
from tacit.privacy.record.records import UPDATE, Opened
from tacit.recipe.engine import Ray
from tacit.runs.folder import RunFolder
from tacit.runs.journal import Schedule
from tacit.runs.opening import opening
from tacit.runs.witness import Witness
from tacit.training.datasets import Dataset, planted_canaries


@dataclass(frozen=True, kw_only=True)
class TrainingSetup:
    """What a run trains, on which users and how; nothing is on disk yet.

    Users are trained on `ray`, or by the built-in engine where it is None. `settings` is the text that the run folder keeps
    and the ledger is bound to. `evaluate` measures a model; `summarise` makes the run's summary. `server_rate` is how far the
    server's step moves the model along a mean update, for warnings. `witness` countersigns the ledger's heads.
    """

    settings: str
    plan: PrivacyPlan
    schedule: Schedule
    seed: int | None
    dataset: Dataset
    store: Path | None
    work: LocalWork | PrefixWork
    batches: Batching
    start: TrainingState
    server: Server
    strategy: Strategy | None
    mechanism: Mechanism
    secure: SecureSums | None
    evaluate: Callable[[Any], Mapping[str, float]]
    summarise: Callable[[TrainingState, Opened, Spent], dict[str, Any]]
    reasons_not_private: tuple[Reason, ...] = ()
    gate_audit: bool = True
    simulated: bool = True
    chunk: int | None = None
    ray: Ray | None = None
    server_rate: float = 1.0
    witness: Witness | None = None
    pretraining: PretrainingRecord | None = None

    @classmethod
    def assemble(
        cls,
        *,
        plan: PrivacyPlan,
        schedule: Schedule,
        model: Any,
        work: LocalWork,
        optimizer: optax.GradientTransformation,
        strategy: Strategy | None,
        averaging: Averaging | None = None,
        **fields: Any,
    ) -> Self:
        """The setup whose server, mechanism, secure sums and first state are those that the plan builds for this model."""
        server, learned = Server.build(optimizer, plan.denominator, work.trainable), work.learned(model)
        mechanism = plan.build_mechanism(schedule.rounds, strategy)
        blocks = {name: learned if name == UPDATE else np.zeros((), np.float32) for name in plan.noise_multipliers}
        average = RunningAverage.of(averaging, model, work.trainable)
        start = TrainingState(
            0, model, server.init(model), plan.build_clipping().init(), mechanism.init(blocks), average=average
        )
        return cls(
            plan=plan,
            schedule=schedule,
            work=work,
            start=start,
            server=server,
            strategy=strategy,
            mechanism=mechanism,
            secure=SecureSums.of_plan(plan, parameter_count(learned)),
            **fields,
        )

    @property
    def learned(self) -> Any:
        """The subtree of the model that users update."""
        return self.work.learned(self.start.model)

    def starting_from(self, model: Any, pretraining: PretrainingRecord) -> Self:
        """The same setup, starting from this model, which was trained on public data."""
        start = dataclasses.replace(self.start, model=model)
        return dataclasses.replace(self, start=start, pretraining=pretraining)

    def for_rounds(self, rounds: int) -> Self:
        """The same setup for a run that was extended to so many rounds; its settings stay those that it began with."""
        if rounds == self.schedule.rounds:
            return self
        schedule = dataclasses.replace(self.schedule, rounds=rounds)
        mechanism = self.plan.build_mechanism(rounds, self.strategy)
        return dataclasses.replace(self, schedule=schedule, mechanism=mechanism)

    def finish(self, folder: RunFolder, state: TrainingState, opened: Opened, spent: Spent) -> dict[str, Any]:
        """The run's summary, after the last round; what else is to be left in the folder is written here."""
        return self.summarise(state, opened, spent)

    def warnings(self) -> list[str]:
        """Warnings of the discovery of words, and that the noise will harm the model.

        Nothing here may depend on users, not even on how many there are: others may read what a run prints.
        """
        return [*self.dataset.warnings] + warnings_of(
            self.plan,
            parameters=parameter_count(self.learned),
            model_norm=float(np.sqrt(sum(float((leaf**2).sum()) for leaf in jax.tree.leaves(self.learned)))),
            server_rate=self.server_rate,
        )

    def opened(self, folder: RunFolder) -> Opened:
        """The ledger's first record."""
        return opening(
            folder,
            self.plan,
            self.learned,
            rounds=self.schedule.rounds,
            recipe_text=self.settings,
            seeded=self.seed is not None,
            reasons_not_private=self.reasons_not_private,
            strategy=self.strategy,
            gate_audit=self.gate_audit and self.simulated,
            data=self.dataset.description,
            secure_sum=None if self.secure is None else self.secure.record(),
            planted=None if self.dataset.canaries is None else planted_canaries(self.dataset.canaries),
            pretraining=self.pretraining,
            witness=None if self.witness is None else self.witness.record(),
            vocabulary=self.dataset.vocabulary,
            notes=notes_of(*self.dataset.notes),
            batching=foreign_name(self.batches),
        )
