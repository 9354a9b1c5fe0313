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

from tacit import __version__
from tacit.errors import PrivacyError, RunError
from tacit.learning.loop import TrainingState, train
from tacit.learning.next_word import NextWord, evaluate, suggest, unigram_guess
from tacit.learning.server import Server, build_optimizer
from tacit.learning.state import from_arrays, load_model, to_arrays
from tacit.learning.work import FedAvg, FedSGD, Work
from tacit.models.word_lm import WordLMConfig, build, parameter_count, preset
from tacit.privacy.accounting.spent import Spent, spent_by
from tacit.privacy.ledger import LedgerWriter
from tacit.privacy.participation_record import repair_torn_tail
from tacit.privacy.randomness import Randomness
from tacit.privacy.records import FORMAT, FRESH_NOISE, SEEDED_REPLAY, UPDATE, WEIGHT, Committed, Opened, Resumed
from tacit.recipe import Recipe, parse_recipe
from tacit.runs import checkpoints
from tacit.runs.folder import RunFolder, first_difference
from tacit.runs.journal import Observer, Rhythm, RunJournal
from tacit.runs.metrics import truncate_after
from tacit.simulation.batched import BatchedUsers, Shape
from tacit.simulation.cohorts import CohortStream
from tacit.simulation.datasets import Dataset, open_dataset
from tacit.simulation.devices import suitable_spread, use_every_core

UNIT = "user"
EXAMPLE_CONTEXTS = ("see you", "i am on my", "do you want to", "thank you so", "what time")


@dataclass(frozen=True)
class Trainer:
    """Everything a recipe builds, ready to run; nothing on disk yet."""

    recipe: Recipe
    dataset: Dataset
    config: WordLMConfig
    start: TrainingState
    server: Server
    users: BatchedUsers
    reasons_not_private: list[str]

    @classmethod
    def build(cls, recipe: Recipe) -> Trainer:
        """Open the data and build model, work and server."""
        use_every_core()
        dataset = open_dataset(recipe)
        config = model_config(recipe, len(dataset.words))
        model = build(config, key=jax.random.key(recipe.model.init_seed))
        server = Server.build(
            build_optimizer(recipe.server.optimizer, recipe.server.learning_rate, recipe.server.momentum),
            recipe.privacy.denominator,
        )
        blocks = {UPDATE: model} | ({WEIGHT: np.zeros((), np.float32)} if recipe.privacy.weighted else {})
        shape = Shape(
            recipe.data.layout,
            recipe.data.length,
            recipe.work.batch_size,
            -(-recipe.data.tokens_per_user // (recipe.data.length * recipe.work.batch_size)),
        )
        spread = suitable_spread(parameter_count(model), math.ceil(recipe.privacy.cohort), recipe.engine.chunk)
        return cls(
            recipe,
            dataset,
            config,
            TrainingState(0, model, server.init(model), recipe.privacy.build_mechanism().init(blocks)),
            server,
            BatchedUsers(dataset.train, build_work(recipe), recipe.privacy, shape, spread),
            recipe.reasons_not_private() + list(dataset.reasons_not_private),
        )

    def opened(self, folder: RunFolder) -> Opened:
        """The ledger's first record."""
        return Opened(
            run_id=folder.run_id,
            format=FORMAT,
            tacit_version=__version__,
            plan=self.recipe.privacy.model_dump(mode="json"),
            mechanism=self.recipe.privacy.mechanism,
            population=self.recipe.privacy.population,
            seeded=self.recipe.run.seed is not None,
            reasons_not_private=self.reasons_not_private,
            data={
                **self.dataset.description,
                **_release_size(self.start.model, self.recipe.privacy.weighted),
                "recipe": hashlib.sha256(self.recipe.to_toml().encode()).hexdigest(),
            },
            unit=UNIT,
            adjacency=self.recipe.privacy.adjacency,
        )


def _release_size(model: Any, weighted: bool) -> dict[str, int]:
    """How many numbers one release holds, in how many arrays."""
    return {"coordinates": parameter_count(model) + weighted, "arrays": len(jax.tree.leaves(model)) + weighted}


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
    trainer = Trainer.build(recorded)
    if not folder.begun:
        return _begin(trainer, folder, observer)
    ledger = folder.open_ledger()
    try:
        closed = ledger.ledger.closed
        if closed is not None and closed.outcome != "stopped":
            raise RunError(f"Expected a run that can go on, got {path}, which has {closed.outcome}.")
        _require_same_promise(ledger.ledger.opened, trainer.opened(folder))
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


def _begin(trainer: Trainer, folder: RunFolder, observer: Observer) -> dict[str, Any]:
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
        observer=observer,
    )
    cohorts = CohortStream(
        recipe.privacy.build_sampler(),
        Randomness.fresh() if seed is None else Randomness.from_seed(seed),
        len(trainer.dataset.train),
        trainer.users.prepare,
        start=state.round,
        stop=recipe.run.rounds,
        attempts=Counter(intent.round for intent in journal.intents),
    )
    try:
        with _stopping_at_a_round(journal):
            state = train(
                state,
                participation=cohorts,
                users=trainer.users,
                mechanism=recipe.privacy.build_mechanism(),
                server=trainer.server,
                journal=journal,
            )
        summary = _summary(trainer, spent_by(opened, journal.intents), state)
        folder.write_summary(summary)
        journal.close("finished")
        return summary
    finally:
        cohorts.close()
        journal.release()


def _summary(trainer: Trainer, spent: Spent, state: TrainingState) -> dict[str, Any]:
    """What a person wants to know when it is over."""
    held_out, words = trainer.dataset.held_out, trainer.dataset.words
    number = {word: index for index, word in enumerate(words)}
    examples = {}
    for context in EXAMPLE_CONTEXTS:
        if all(word in number for word in context.split()):
            top = suggest(state.model, [number[word] for word in context.split()])
            examples[context] = [[words[word], probability] for word, probability in top]
    baselines: dict[str, Any] = {"unigram_top1": unigram_guess(held_out)}
    if trainer.dataset.best_possible is not None:
        baselines["best_possible"] = dict(trainer.dataset.best_possible())
    return {
        "rounds": state.round,
        "parameters": parameter_count(state.model),
        "metrics": evaluate(state.model, held_out).as_dict(),
        "baselines": baselines,
        "privacy": spent.as_dict(),
        "examples": examples,
    }


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
