"""From a recipe to the setup of a run."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import Any, Self

import jax
import optax

from tacit.data.remote import place_of
from tacit.errors import RunError
from tacit.learning.averaging import averaging_of
from tacit.learning.batches import TextBatches
from tacit.learning.loop import TrainingState
from tacit.learning.next_word import HeldOutWords, NextWord
from tacit.learning.server import build_optimizer, rate_schedule
from tacit.learning.tasks import Loss, Task
from tacit.learning.trainable import Filter
from tacit.learning.work import FedAvg, FedSGD, LocalWork, Work
from tacit.models.word_lm import WordLMConfig, build, preset
from tacit.privacy.accounting.spent import Spent
from tacit.privacy.noise.strategies import Strategy, from_description
from tacit.privacy.planning.scaling import scaled_up
from tacit.privacy.record.ledger import Ledger, read_ledger
from tacit.privacy.record.records import Opened
from tacit.recipe.sections import ServerSection
from tacit.recipe.training import Recipe, parse_recipe
from tacit.runs.callbacks import Callback
from tacit.runs.driver import require_same_promise
from tacit.runs.folder import RunFolder
from tacit.runs.journal import Schedule
from tacit.training.datasets import Dataset, open_dataset
from tacit.training.pretraining import pretrained
from tacit.training.setup import TrainingSetup
from tacit.training.summary import summary_of


@dataclass(frozen=True, kw_only=True)
class RecipeSetup(TrainingSetup):
    """What a recipe builds."""

    recipe: Recipe
    batches: TextBatches

    @classmethod
    def build(cls, recipe: Recipe, strategy: Strategy | None = None) -> RecipeSetup:
        """Open the data and build a word model, work and server; or what finds words, for a recipe with [letters]."""
        if recipe.letters is not None:
            from tacit.training.letter_discovery import LettersSetup

            return LettersSetup.build(recipe)
        dataset = open_dataset(recipe)
        model = build(model_config(recipe, len(dataset.words)), key=jax.random.key(recipe.model.init_seed))
        return cls.of(recipe, dataset, model, NextWord(recipe.engine.precision), strategy)

    @classmethod
    def of(
        cls,
        recipe: Recipe,
        dataset: Dataset,
        model: Any,
        task: Task | Loss,
        strategy: Strategy | None,
        trainable: Filter = None,
    ) -> Self:
        """The setup for any model and task; a run that is resumed keeps the noise strategy that it began with."""
        plan, server, work = recipe.privacy, recipe.server, recipe.work
        schedule = Schedule(recipe.run.rounds, recipe.run.evaluate_every, recipe.run.checkpoint_every)
        # A run that simulates a larger one correlates its noise as the larger one would.
        shaped_for = plan if recipe.scale is None else scaled_up(plan, recipe.scale)
        momentum = server.momentum if server.optimizer in ("momentum", "nesterov") else 0.0

        def summarise(state: TrainingState, opened: Opened, spent: Spent) -> dict[str, Any]:
            summary = summary_of(dataset, state.result, recipe, opened, spent)
            if state.average is not None:
                summary["average"] = str(state.average.averaging)
            if plan.adaptive is not None:
                summary["clip_norm"] = float(state.clipping["estimate"])
            return summary

        return cls.assemble(
            recipe=recipe,
            settings=recipe.to_toml(),
            plan=plan,
            schedule=schedule,
            seed=recipe.run.seed,
            dataset=dataset,
            store=None if recipe.data.store is None else place_of(recipe.data.store),
            model=model,
            work=build_work(recipe, task, PartsOfModel(work.trainable) if work.trainable else trainable),
            batches=TextBatches(
                recipe.data.layout,
                recipe.data.length,
                work.batch_size,
                -(-recipe.data.tokens_per_user // (recipe.data.length * work.batch_size)),
            ),
            optimizer=server_optimizer(server, schedule.rounds),
            averaging=averaging_of(server.model_dump()),
            strategy=strategy or shaped_for.build_strategy(schedule.rounds),
            evaluate=HeldOutWords(dataset.held_out),
            summarise=summarise,
            reasons_not_private=(*recipe.reasons_not_private(), *dataset.reasons_not_private),
            gate_audit=recipe.audit is None or recipe.audit.gate,
            simulated=recipe.fleet is None,
            chunk=recipe.engine.chunk,
            ray=recipe.engine.ray(),
            server_rate=server.learning_rate / (1 - momentum),
            witness=None if recipe.witness is None else recipe.witness.witness(),
        )

    def from_public_data(self, folder: RunFolder, callback: Callback | None = None) -> RecipeSetup:
        """The same setup, starting from the pre-trained model if the recipe asks for pre-training."""
        found = pretrained(self.recipe, self.dataset, self.start.model, folder, callback)
        return self if found is None else self.starting_from(found.model, found.record)


def model_config(recipe: Recipe, vocabulary: int) -> WordLMConfig:
    """The recipe's model, its table as large as the vocabulary."""
    changes = recipe.model.model_dump(exclude={"preset", "init_seed"}, exclude_none=True)
    return dataclasses.replace(preset(recipe.model.preset), vocabulary=vocabulary, **changes)


def server_optimizer(section: ServerSection, rounds: int) -> optax.GradientTransformation:
    """The server's optimizer over so many rounds, as the recipe says."""
    rate = rate_schedule(section.learning_rate, section.schedule, rounds, warmup=section.warmup, final=section.final)
    return build_optimizer(section.optimizer, rate, section.momentum)


@dataclass(frozen=True)
class PartsOfModel:
    """The filter (`tacit.learning.trainable`) of the parts with these names."""

    names: tuple[str, ...]

    def __call__(self, path: str, leaf: Any) -> bool:
        return path.split(".")[0] in self.names


def build_work(recipe: Recipe, task: Task | Loss, trainable: Filter = None) -> LocalWork:
    """The work of each user, as the recipe says."""
    section = recipe.work
    work: Work = FedSGD(batch_size=section.batch_size, learning_rate=section.learning_rate)
    if section.kind == "fedavg":
        work = FedAvg(**section.model_dump(exclude={"kind", "trainable"}))
    return LocalWork(work, task, trainable, recipe.privacy.clipping)


def verified_setup(folder: RunFolder) -> tuple[RecipeSetup, Ledger]:
    """The setup of a run that has begun, verified against its ledger, and the ledger; nothing is changed and nothing runs."""
    if not folder.begun:
        raise RunError(f"The run {folder.path} has not begun: it has no ledger yet.")
    ledger, setup = folder.ledger(), setup_of(folder)
    require_same_promise(ledger.opened, setup.opened(folder))
    return setup, ledger


def setup_of(folder: RunFolder, callback: Callback | None = None) -> RecipeSetup:
    """What the run's own recipe builds, with the noise strategy and the pre-trained model it has."""
    opened = read_ledger(folder.ledger_path).opened if folder.begun else None
    strategy = from_description(opened.strategy) if opened is not None and opened.strategy else None
    setup = RecipeSetup.build(parse_recipe(folder.recipe()), strategy).from_public_data(folder, callback)
    return setup if opened is None else setup.for_rounds(opened.rounds)
