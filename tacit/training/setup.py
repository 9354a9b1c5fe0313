"""A recipe becomes a run of a word model: everything is built from it once, and `running` does the rest."""

from __future__ import annotations

import dataclasses
import hashlib
import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jax
import numpy as np

from tacit import __version__
from tacit.data.canaries.made_up import OwnRate
from tacit.errors import RunError
from tacit.learning.loop import TrainingState
from tacit.learning.next_word import NextWord, evaluate
from tacit.learning.server import Server, build_optimizer
from tacit.learning.state import load_model
from tacit.learning.work import FedAvg, FedSGD, Task, Work
from tacit.models.word_lm import WordLMConfig, build, parameter_count, preset
from tacit.privacy.accounting.spent import Spent
from tacit.privacy.noise.mechanisms import Mechanism
from tacit.privacy.noise.strategies import Strategy, from_description
from tacit.privacy.participation.samplers import Sampler
from tacit.privacy.plan import PrivacyPlan
from tacit.privacy.planning.noise_warnings import warnings_of
from tacit.privacy.planning.scaling import scaled_up
from tacit.privacy.record.ledger import Ledger, read_ledger
from tacit.privacy.record.records import FORMAT, UNIT, UPDATE, Opened
from tacit.recipe.training import Recipe, parse_recipe
from tacit.runs.driver import Program, begin, go_on, require_same_promise
from tacit.runs.folder import RunFolder
from tacit.runs.gate_audit.layout import canaries_for
from tacit.runs.journal import Observer, Rhythm
from tacit.simulation.batched import BatchedUsers, Shape
from tacit.simulation.gate_audit import why_not
from tacit.simulation.placement import suitable_spread, use_every_core
from tacit.simulation.population.check_ins import DeviceCheckIns
from tacit.simulation.population.settings import PopulationSettings
from tacit.simulation.provenance import release_size
from tacit.simulation.secure import SecureSums
from tacit.training.datasets import Dataset, open_dataset
from tacit.training.pretraining import open_public, pretrained
from tacit.training.summary import summary_of


@dataclass(frozen=True)
class Trainer:
    """Everything a recipe builds, ready to run; nothing on disk yet."""

    recipe: Recipe
    dataset: Dataset
    start: TrainingState
    server: Server
    users: BatchedUsers
    strategy: Strategy | None
    mechanism: Mechanism
    reasons_not_private: list[str]
    pretraining: Mapping[str, Any] | None = None

    @classmethod
    def build(cls, recipe: Recipe, strategy: Strategy | None = None) -> Trainer:
        """Open the data and build a word model, work and server."""
        use_every_core()
        dataset = open_dataset(recipe)
        model = build(model_config(recipe, len(dataset.words)), key=jax.random.key(recipe.model.init_seed))
        return cls.of(recipe, dataset, model, NextWord(recipe.engine.precision), strategy)

    @classmethod
    def of(cls, recipe: Recipe, dataset: Dataset, model: Any, task: Task, strategy: Strategy | None) -> Trainer:
        """The rest, for any model and what it learns; a run that goes on keeps the noise strategy it began with."""
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
            start,
            server,
            BatchedUsers(dataset.train, build_work(recipe, task), plan, shape, spread, secure),
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
        """What the noise will do to the model, where that is bad.

        Nothing here may depend on users, not even on how many there are: others may read what a run prints.
        """
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
        return opening(
            folder,
            self.recipe.privacy,
            self.start.model,
            rounds=self.recipe.run.rounds,
            recipe_text=self.recipe.to_toml(),
            seeded=self.recipe.run.seed is not None,
            reasons_not_private=self.reasons_not_private,
            strategy=self.strategy,
            gate_audit=self.gate_audit and self.recipe.fleet is None,
            data={
                **self.dataset.description,
                **({} if self.pretraining is None else {"pretraining": dict(self.pretraining)}),
                **({} if self.users.secure is None else {"secagg": self.users.secure.describe()}),
            },
        )

    @property
    def gate_audit(self) -> bool:
        """Whether the recipe wants the gate to be audited."""
        return self.recipe.audit is None or self.recipe.audit.gate

    def program(self, folder: RunFolder) -> Program:
        """The same, as what `running` takes."""
        recipe, sampler = self.recipe, _sampler(self.recipe, self.dataset)

        def finish(state: TrainingState, opened: Opened, spent: Spent) -> dict[str, Any]:
            summary = summary_of(self.dataset, state.model, recipe, opened, spent)
            if recipe.privacy.adaptive is not None:
                summary["clip_norm"] = float(state.clipping["estimate"])
            if isinstance(sampler, DeviceCheckIns):
                summary["population"] = {"simulated_days": sampler.days}
            return summary

        return Program(
            plan=recipe.privacy,
            rhythm=Rhythm(recipe.run.rounds, recipe.run.evaluate_every, recipe.run.checkpoint_every),
            seed=recipe.run.seed,
            opened=self.opened(folder),
            store=None if recipe.data.store is None else Path(recipe.data.store),
            start=self.start,
            users=self.users,
            sampler=sampler,
            mechanism=self.mechanism,
            server=self.server,
            evaluate=lambda model: evaluate(model, self.dataset.held_out).as_dict(),
            finish=finish,
            evaluate_first=self.pretraining is not None,
            gate_audit=self.gate_audit,
        )


def opening(
    folder: RunFolder,
    plan: PrivacyPlan,
    learned: Any,
    *,
    rounds: int,
    recipe_text: str,
    seeded: bool,
    reasons_not_private: list[str],
    data: Mapping[str, Any],
    strategy: Strategy | None = None,
    gate_audit: bool = False,
) -> Opened:
    """The first record of a run's ledger; `learned` is what users' updates are of, `data` describes who they are.

    `gate_audit`: it is a simulation whose gate is to be audited, and the record says so where it can be.
    """
    audited = why_not(plan, wanted=gate_audit, simulated=True) is None
    return Opened(
        run_id=folder.run_id,
        format=FORMAT,
        tacit_version=__version__,
        plan=plan.model_dump(mode="json"),
        mechanism=plan.mechanism,
        strategy={} if strategy is None else strategy.describe(),
        population=plan.population,
        rounds=rounds,
        seeded=seeded,
        reasons_not_private=reasons_not_private,
        data={
            **data,
            **release_size(learned, plan),
            **({"gate_canaries": canaries_for(plan.cohort)} if audited else {}),
            "recipe": hashlib.sha256(recipe_text.encode()).hexdigest(),
        },
        unit=UNIT,
        adjacency=plan.adjacency,
    )


def model_config(recipe: Recipe, vocabulary: int) -> WordLMConfig:
    """The recipe's model, its table as large as the vocabulary."""
    changes = recipe.model.model_dump(exclude={"preset", "init_seed"}, exclude_none=True)
    return dataclasses.replace(preset(recipe.model.preset), vocabulary=vocabulary, **changes)


def build_work(recipe: Recipe, task: Task) -> Work:
    """What the recipe has each user compute."""
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
    return begin(trainer.from_public_data(folder, observer).program(folder), folder, observer)


def resume_run(
    path: Path, observer: Observer, recipe: Recipe | None = None, *, older_if_damaged: bool = False
) -> dict[str, Any]:
    """Go on with a run; a recipe that differs from the run's own is refused."""
    folder = RunFolder.open(path)
    if recipe is not None:
        folder.require_same_recipe(recipe.model_dump(mode="json", exclude_none=True))
    program = trainer_of(folder, observer).program(folder)
    if not folder.begun:
        return begin(program, folder, observer)
    return go_on(program, folder, observer, older_if_damaged=older_if_damaged)


def reopen(folder: RunFolder) -> tuple[Trainer, Ledger]:
    """What a run that has begun was built from, checked against its ledger; nothing is changed and nothing runs."""
    if not folder.begun:
        raise RunError(f"Expected a run with a ledger, got {folder.path}, which has not begun.")
    ledger, trainer = folder.ledger(), trainer_of(folder)
    require_same_promise(ledger.opened, trainer.opened(folder))
    return trainer, ledger


def trainer_of(folder: RunFolder, observer: Observer | None = None) -> Trainer:
    """What the run's own recipe builds, with the noise strategy and the pre-trained model it has."""
    described = read_ledger(folder.ledger_path).opened.strategy if folder.begun else {}
    strategy = from_description(described) if described else None
    return Trainer.build(parse_recipe(folder.recipe()), strategy).from_public_data(folder, observer)


def _sampler(recipe: Recipe, dataset: Dataset) -> Sampler:
    """The plan's sampler, or the devices of a simulated population under the plan's limits."""
    if recipe.population is None:
        sampler, canaries = recipe.privacy.build_sampler(), dataset.canaries
        if canaries is None or canaries.device_rate is None:
            return sampler
        return OwnRate(sampler, dataset.people, canaries.device_rate)
    settings = PopulationSettings(
        devices=len(dataset.train),
        report_goal=int(recipe.privacy.cohort),
        min_separation=recipe.privacy.min_separation,
        max_participation=recipe.privacy.max_participation,
        **recipe.population.model_dump(exclude={"seed"}),
    )
    settings.require_supply(recipe.run.rounds)
    return DeviceCheckIns(settings, recipe.population.seed)


def load_trained(path: Path) -> tuple[Any, list[str]]:
    """The model of a run's last checkpoint, and its words; RunError if the ledger names another checkpoint for its round."""
    folder = RunFolder.open(path)
    recipe = parse_recipe(folder.recipe())
    words = folder.vocabulary()
    checkpoint = folder.last_checkpoint()
    if words is None or checkpoint is None:
        raise RunError(
            f"Expected a run with a checkpoint, got {path}, which has none yet.",
            hint=f"Train it further: tacit train --resume {path}",
        )
    template = build(model_config(recipe, len(words)), key=jax.random.key(0))
    return load_model(template, checkpoint.arrays), words
