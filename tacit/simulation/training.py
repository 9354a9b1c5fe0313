"""A recipe becomes a run: everything is built from it once, the loop runs, and the run folder holds the result.

Also the way back: a run that was stopped or killed goes on from its last checkpoint, under the promise its ledger was begun
with. The rounds since then run again, with fresh noise, and are accounted again; a seeded run repeats them exactly.
"""

from __future__ import annotations

import dataclasses
import hashlib
import math
import signal
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jax
import numpy as np
from numpy.typing import NDArray

from tacit import __version__
from tacit.audit.devices import OwnRate
from tacit.errors import PrivacyError, RunError
from tacit.learning.loop import TrainingState, train
from tacit.learning.next_word import NextWord, evaluate
from tacit.learning.server import Server, build_optimizer
from tacit.learning.state import from_arrays, load_model, to_arrays
from tacit.learning.work import FedAvg, FedSGD, Work
from tacit.models.word_lm import WordLMConfig, build, parameter_count, preset
from tacit.privacy.accounting.spent import spent_by
from tacit.privacy.foresight import warnings_of
from tacit.privacy.ledger import Ledger, LedgerWriter, read_ledger
from tacit.privacy.mechanisms import Mechanism
from tacit.privacy.participation import Sampler
from tacit.privacy.participation_record import repair_torn_tail, verified
from tacit.privacy.randomness import Randomness
from tacit.privacy.records import FORMAT, FRESH_NOISE, SEEDED_REPLAY, UPDATE, Committed, Opened, Resumed
from tacit.privacy.scaling import scaled_up
from tacit.privacy.strategies import Strategy, from_description
from tacit.recipe import Recipe, parse_recipe
from tacit.runs import checkpoints, odometer
from tacit.runs.folder import RunFolder, first_difference
from tacit.runs.journal import Observer, Rhythm, RunJournal
from tacit.runs.metrics import truncate_after
from tacit.simulation.batched import BatchedUsers, Shape
from tacit.simulation.check_ins import DeviceCheckIns
from tacit.simulation.cohorts import CohortStream
from tacit.simulation.datasets import Dataset, open_dataset
from tacit.simulation.devices import suitable_spread, use_every_core
from tacit.simulation.population_settings import PopulationSettings
from tacit.simulation.pretraining import open_public, pretrained
from tacit.simulation.secure import SecureSums
from tacit.simulation.summary import summary_of

UNIT = "user"


@dataclass(frozen=True)
class Trainer:
    """Everything a recipe builds, ready to run; nothing on disk yet."""

    recipe: Recipe
    dataset: Dataset
    config: WordLMConfig
    start: TrainingState
    server: Server
    users: BatchedUsers
    strategy: Strategy | None
    mechanism: Mechanism
    reasons_not_private: list[str]
    pretraining: Mapping[str, Any] | None = None

    @classmethod
    def build(cls, recipe: Recipe, strategy: Strategy | None = None) -> Trainer:
        """Open the data and build model, work and server; a run that goes on keeps the noise strategy it began with."""
        use_every_core()
        dataset = open_dataset(recipe)
        config = model_config(recipe, len(dataset.words))
        model = build(config, key=jax.random.key(recipe.model.init_seed))
        server = Server.build(
            build_optimizer(recipe.server.optimizer, recipe.server.learning_rate, recipe.server.momentum),
            recipe.privacy.denominator,
        )
        plan, rounds = recipe.privacy, recipe.run.rounds
        # A run that stands for a larger one has the noise of the larger one's shape.
        shaped_for = plan if recipe.scale is None else scaled_up(plan, recipe.scale)
        strategy = strategy or shaped_for.build_strategy(rounds)
        mechanism = plan.build_mechanism(rounds, strategy)
        blocks = {name: model if name == UPDATE else np.zeros((), np.float32) for name in plan.noise_multipliers}
        start = TrainingState(0, model, server.init(model), plan.build_clipping().init(), mechanism.init(blocks))
        shape = Shape(
            recipe.data.layout,
            recipe.data.length,
            recipe.work.batch_size,
            -(-recipe.data.tokens_per_user // (recipe.data.length * recipe.work.batch_size)),
        )
        secure = SecureSums.of_plan(plan, parameter_count(model))
        spread = suitable_spread(parameter_count(model), math.ceil(plan.cohort), recipe.engine.chunk)
        return cls(
            recipe,
            dataset,
            config,
            start,
            server,
            BatchedUsers(dataset.train, build_work(recipe), plan, shape, spread, secure),
            strategy,
            mechanism,
            recipe.reasons_not_private() + list(dataset.reasons_not_private),
        )

    def from_public_data(self, folder: RunFolder, observer: Observer | None = None) -> Trainer:
        """The same, its rounds starting from what public data made of the model, where the recipe asks for that."""
        found = pretrained(self.recipe, self.dataset, self.start.model, folder, observer)
        if found is None:
            return self
        start = dataclasses.replace(self.start, model=found.model)
        return dataclasses.replace(self, start=start, pretraining=found.description)

    def warnings(self) -> list[str]:
        """What the noise will do to the model, where that is bad."""
        server, model = self.recipe.server, self.start.model
        momentum = server.momentum if server.optimizer in ("momentum", "nesterov") else 0.0
        return warnings_of(
            self.recipe.privacy,
            parameters=parameter_count(model),
            model_norm=float(np.sqrt(sum(float((leaf**2).sum()) for leaf in jax.tree.leaves(model)))),
            server_rate=server.learning_rate / (1 - momentum),
        )

    def opened(self, folder: RunFolder) -> Opened:
        """The ledger's first record."""
        return Opened(
            run_id=folder.run_id,
            format=FORMAT,
            tacit_version=__version__,
            plan=self.recipe.privacy.model_dump(mode="json"),
            mechanism=self.recipe.privacy.mechanism,
            strategy={} if self.strategy is None else self.strategy.describe(),
            population=self.recipe.privacy.population,
            seeded=self.recipe.run.seed is not None,
            reasons_not_private=self.reasons_not_private,
            data={
                **self.dataset.description,
                **_release_size(self.start.model, len(self.recipe.privacy.noise_multipliers) - 1),
                "recipe": hashlib.sha256(self.recipe.to_toml().encode()).hexdigest(),
                **({} if self.pretraining is None else {"pretraining": dict(self.pretraining)}),
                **({} if self.users.secure is None else {"secagg": self.users.secure.describe()}),
            },
            unit=UNIT,
            adjacency=self.recipe.privacy.adjacency,
        )


def _release_size(model: Any, side_blocks: int) -> dict[str, int]:
    """How many numbers one release holds, in how many arrays; a block beside the update is one number."""
    return {"coordinates": parameter_count(model) + side_blocks, "arrays": len(jax.tree.leaves(model)) + side_blocks}


def model_config(recipe: Recipe, vocabulary: int) -> WordLMConfig:
    """The recipe's model, its table as large as the vocabulary."""
    changes = recipe.model.model_dump(exclude={"preset", "init_seed"}, exclude_none=True)
    return dataclasses.replace(preset(recipe.model.preset), vocabulary=vocabulary, **changes)


def build_work(recipe: Recipe) -> Work:
    """What the recipe has each user compute."""
    task = NextWord(recipe.engine.precision)
    if recipe.work.kind == "fedsgd":
        return FedSGD(task, recipe.work.learning_rate)
    style = recipe.privacy.clipping if recipe.work.clip_every_step else None
    return FedAvg(task, recipe.work.epochs, recipe.work.learning_rate, style)


def start_run(recipe: Recipe, out: Path, observer: Observer) -> dict[str, Any]:
    """Train a recipe in a new run folder; returns the run's summary."""
    trainer = Trainer.build(recipe)
    for sentence in trainer.warnings():
        observer.warned(sentence)
    open_public(recipe, trainer.dataset)  # a mistake in it is told before there is a folder
    folder = RunFolder.create(out, recipe.to_toml(), vocabulary=trainer.dataset.words)
    return _begin(trainer, folder, observer)


def resume_run(
    path: Path, observer: Observer, recipe: Recipe | None = None, *, older_if_damaged: bool = False
) -> dict[str, Any]:
    """Go on with a run; a recipe that differs from the run's own is refused."""
    folder = RunFolder.open(path)
    recorded = parse_recipe(folder.recipe())
    if recipe is not None:
        folder.require_same_recipe(recipe.model_dump(mode="json", exclude_none=True))
    if not folder.begun:
        return _begin(Trainer.build(recorded), folder, observer)
    described = read_ledger(folder.ledger_path).opened.strategy
    trainer = Trainer.build(recorded, from_description(described) if described else None)
    ledger = folder.open_ledger()
    try:
        trainer = trainer.from_public_data(folder, observer)
        closed = ledger.ledger.closed
        if closed is not None and closed.outcome != "stopped":
            raise RunError(f"Expected a run that can go on, got {path}, which has {closed.outcome}.")
        _require_same_promise(ledger.ledger.opened, trainer.opened(folder))
        _register(trainer, folder)
        repair_torn_tail(folder.participation_path, ledger.ledger)
        checkpoint = folder.resume_point(older_if_damaged=older_if_damaged)
        state = trainer.start
        if checkpoint is not None:
            noise = _noise_arrays(folder, state, checkpoint.round)
            state = from_arrays(state, checkpoint.round, checkpoint.arrays, noise)
            if checkpoint.round > ledger.ledger.rounds_committed:  # killed between the checkpoint and its record
                ledger.append(Committed(checkpoint.round, checkpoint.digest))
        lost = ledger.ledger.lost_from(state.round)
        ledger.append(Resumed(state.round, lost, FRESH_NOISE if recorded.run.seed is None else SEEDED_REPLAY))
        truncate_after(folder.metrics_path, state.round)
        truncate_after(folder.diagnostics_path, state.round)
        return _run(trainer, folder, ledger, state, observer)
    finally:
        ledger.close()


def reopen(folder: RunFolder) -> tuple[Trainer, Ledger]:
    """What a run that has begun was built from, checked against its ledger; nothing is changed and nothing runs."""
    if not folder.begun:
        raise RunError(f"Expected a run with a ledger, got {folder.path}, which has not begun.")
    ledger = folder.ledger()
    described = ledger.opened.strategy
    trainer = Trainer.build(parse_recipe(folder.recipe()), from_description(described) if described else None)
    trainer = trainer.from_public_data(folder)
    _require_same_promise(ledger.opened, trainer.opened(folder))
    return trainer, ledger


def _require_same_promise(recorded: Opened, now: Opened) -> None:
    """The plan, the data and every reason why nothing may be claimed are still those the run was begun with."""
    difference = first_difference(
        vars(dataclasses.replace(recorded, tacit_version="")), vars(dataclasses.replace(now, tacit_version=""))
    )
    if difference is not None:
        field, before, after = difference
        raise PrivacyError(f"Expected what the ledger was begun with, where {field} is {before}, got {after}.")


def _noise_arrays(folder: RunFolder, template: TrainingState, round: int) -> Mapping[str, Any]:
    """The mechanism's state, from the private folder; independent noise has none."""
    if not jax.tree.leaves(template.noise):
        return {}
    return checkpoints.load(checkpoints.path_of(folder.private_path, round)).arrays


def _participation(folder: RunFolder, ledger: Ledger, rounds: int) -> list[NDArray[np.int64]]:
    """The cohorts of the first `rounds` rounds, as they are in the model the run goes on with."""
    if not ledger.intents:
        return []
    live = {intent.round: number for number, intent in enumerate(ledger.intents)}  # the last attempt of each
    cohorts = [cohort.users for cohort in verified(folder.participation_path, ledger)]
    return [cohorts[live[round]] for round in range(rounds)]


def _register(trainer: Trainer, folder: RunFolder) -> None:
    """Enter the run into its store's odometer; a world has no people to keep one for."""
    if (store := trainer.recipe.data.store) is not None:
        claims = not trainer.reasons_not_private
        odometer.register(Path(store), run_id=folder.run_id, run=folder.path, claims_privacy=claims)


def _begin(trainer: Trainer, folder: RunFolder, observer: Observer) -> dict[str, Any]:
    _register(trainer, folder)
    trainer = trainer.from_public_data(folder, observer)
    ledger = folder.create_ledger(trainer.opened(folder))
    try:
        return _run(trainer, folder, ledger, trainer.start, observer)
    finally:
        ledger.close()


def _run(
    trainer: Trainer,
    folder: RunFolder,
    ledger: LedgerWriter,
    state: TrainingState,
    observer: Observer,
) -> dict[str, Any]:
    recipe, opened, seed = trainer.recipe, ledger.ledger.opened, trainer.recipe.run.seed
    journal = RunJournal(
        folder,
        ledger,
        recipe.privacy,
        Rhythm(recipe.run.rounds, recipe.run.evaluate_every, recipe.run.checkpoint_every),
        to_arrays=to_arrays,
        evaluate=lambda model: evaluate(model, trainer.dataset.held_out).as_dict(),
        spent=lambda intents: spent_by(opened, intents, quick=True),
        update_bound=trainer.users.update_bound,
        observer=observer,
    )
    sampler = _sampler(recipe, trainer.dataset)
    for users in _participation(folder, ledger.ledger, state.round):
        sampler.remember(users)
    cohorts = CohortStream(
        sampler,
        Randomness.fresh() if seed is None else Randomness.from_seed(seed),
        len(trainer.dataset.train),
        trainer.users.prepare,
        start=state.round,
        stop=recipe.run.rounds,
        attempts=Counter(intent.round for intent in journal.intents),
    )
    try:
        with _stopping_at_a_round(journal):
            if trainer.pretraining is not None and state.round == 0:
                journal.begin(state)
            state = train(
                state,
                participation=cohorts,
                users=trainer.users,
                clipping=recipe.privacy.build_clipping(),
                mechanism=trainer.mechanism,
                server=trainer.server,
                journal=journal,
            )
        seen = None
        if recipe.privacy.sampling == "check_in":
            seen = [cohort.users for cohort in verified(folder.participation_path, ledger.ledger)]
        spent = spent_by(opened, journal.intents, cohorts=seen)
        summary = summary_of(trainer.dataset, state.model, recipe, opened, spent)
        if recipe.privacy.adaptive is not None:
            summary["clip_norm"] = float(state.clipping["estimate"])
        if isinstance(sampler, DeviceCheckIns):
            summary["population"] = {"simulated_days": sampler.days}
        folder.write_summary(summary)
        journal.close("finished")
        checkpoints.remove_all(folder.private_path)  # what was left of the noise
        return summary
    finally:
        cohorts.close()
        journal.release()


def _sampler(recipe: Recipe, dataset: Dataset) -> Sampler:
    """The plan's sampler, or the devices of a simulated population under the plan's limits."""
    if recipe.population is None:
        sampler, canaries = recipe.privacy.build_sampler(), dataset.canaries
        if canaries is None or canaries.device_rate is None:
            return sampler
        return OwnRate(sampler, canaries.users, canaries.device_rate)
    settings = PopulationSettings(
        devices=len(dataset.train),
        report_goal=int(recipe.privacy.cohort),
        min_separation=recipe.privacy.min_separation,
        max_participation=recipe.privacy.max_participation,
        **recipe.population.model_dump(exclude={"seed"}),
    )
    settings.require_supply(recipe.run.rounds)
    return DeviceCheckIns(settings, recipe.population.seed)


@contextmanager
def _stopping_at_a_round(journal: RunJournal) -> Iterator[None]:
    """Ctrl-C stops after the round under way, with a checkpoint; a second one stops at once."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def request(number: int, frame: Any) -> None:
        if journal.stop_requested:
            raise KeyboardInterrupt
        journal.stop_requested = True

    before: Callable[[int, Any], Any] | int | None = signal.signal(signal.SIGINT, request)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


def load_trained(path: Path) -> tuple[Any, list[str]]:
    """The model of a run's last checkpoint, and its words."""
    folder = RunFolder.open(path)
    recipe = parse_recipe(folder.recipe())
    words = folder.vocabulary()
    checkpoint = checkpoints.latest(folder.checkpoints_path)
    if words is None or checkpoint is None:
        raise RunError(
            f"Expected a run with a checkpoint, got {path}, which has none yet.",
            hint=f"Train it further: tacit train --resume {path}",
        )
    template = build(model_config(recipe, len(words)), key=jax.random.key(0))
    return load_model(template, checkpoint.arrays), words
