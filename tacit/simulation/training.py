"""Train on simulated users: start a run of a recipe, or resume one."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from tacit.learning.loop import TrainingState
from tacit.learning.next_word import out_of_vocabulary
from tacit.models.word_lm import parameter_count
from tacit.privacy.accounting.spent import Spent, spent_by
from tacit.privacy.participation.samplers import OwnRate, Sampler
from tacit.privacy.record.facts import VocabularyRecord
from tacit.privacy.record.reasons import Why
from tacit.privacy.record.records import Opened
from tacit.recipe.engine import BuiltIn, Ray, ray_of
from tacit.recipe.sections import PopulationSection
from tacit.recipe.target import planned_words
from tacit.recipe.training import Recipe, parse_recipe
from tacit.runs.callbacks import Callback, RunEstimate
from tacit.runs.driver import Rounds, first_rounds, further_rounds, to_the_end
from tacit.runs.finding import refuse_if_taken
from tacit.runs.folder import RunFolder
from tacit.runs.provenance import with_reasons
from tacit.simulation.choice import engine_for, use_accelerators
from tacit.simulation.engine import Engine
from tacit.simulation.population.sampler import DeviceCheckIns
from tacit.simulation.population.settings import PopulationSettings
from tacit.simulation.program import SimulatedProgram
from tacit.simulation.ray.users import RayUsers
from tacit.simulation.trial import seconds_a_round
from tacit.training.datasets import drawn_from
from tacit.training.pretraining import open_public
from tacit.training.recipes import RecipeSetup, setup_of
from tacit.training.setup import TrainingSetup
from tacit.training.vocabularies import refuse_if_discovered, with_words, with_words_of, words_folder


def start_run(recipe: Recipe, out: Path, callback: Callback) -> dict[str, Any]:
    """Train a recipe in a new run folder; returns the run's summary."""
    _, states = first_rounds_of(setup_of_recipe(recipe, out), out, callback, catch_interrupt=True)
    return to_the_end(states)


def resume_run(
    path: Path, callback: Callback, recipe: Recipe | None = None, *, older_if_damaged: bool = False
) -> dict[str, Any]:
    """Resume a run; a recipe that differs from the run's own is refused. Returns the run's summary."""
    folder = RunFolder.open(path)
    setup = setup_to_resume(folder, callback, recipe)
    return to_the_end(
        further_rounds_of(setup, folder, callback, older_if_damaged=older_if_damaged, catch_interrupt=True)
    )


def setup_of_recipe(recipe: Recipe, out: Path) -> RecipeSetup:
    """What a recipe builds for a new run; every mistake in it is told here, before there is a folder."""
    refuse_if_taken(out)
    use_accelerators(recipe.engine.ray())
    if recipe.vocabulary is not None and recipe.vocabulary.run is None:
        # First with the words that the store has: a discovery costs privacy, so nothing may be wrong after it.
        words = words_folder(out)
        refuse_if_discovered(words)
        refuse_if_taken(words)
        without = setup_of_recipe(recipe.model_copy(update={"vocabulary": None}), out)
        if without.ray is not None:
            _try_workers(without)
        recipe = with_words(recipe, words)
    setup = RecipeSetup.build(recipe)
    open_public(recipe, setup.dataset)
    return setup


def setup_to_resume(
    folder: RunFolder, callback: Callback, recipe: Recipe | None = None, engine: Ray | BuiltIn | None = None
) -> RecipeSetup:
    """What the recipe of a run builds, to go on with it; a recipe that differs from the run's own is refused.

    With `engine`, users are trained there from now on, wherever the run was begun.
    """
    if recipe is not None:
        recipe = with_words_of(recipe, folder)
        folder.require_same_recipe(recipe.model_dump(mode="json", exclude_none=True))
    ray = parse_recipe(folder.recipe()).engine.ray() if engine is None else ray_of(engine)
    use_accelerators(ray)
    return dataclasses.replace(setup_of(folder, callback), ray=ray)


def first_rounds_of(
    setup: TrainingSetup, out: Path, callback: Callback, *, catch_interrupt: bool
) -> tuple[RunFolder, Rounds]:
    """A new run folder for the setup, and its rounds."""
    engine = engine_of(setup)
    engine.open()  # so that what is wrong with workers is told before there is a folder
    for sentence in setup.warnings():
        callback.on_warning(sentence)
    _warn_of_idle_workers(engine, callback)
    folder = RunFolder.create(
        out, setup.settings, vocabulary=setup.dataset.words or None, provenance=setup.dataset.provenance
    )
    return folder, _first_rounds(setup, folder, callback, engine, catch_interrupt=catch_interrupt)


def _first_rounds(
    setup: TrainingSetup, folder: RunFolder, callback: Callback, engine: Engine, *, catch_interrupt: bool
) -> Rounds:
    if isinstance(setup, RecipeSetup):
        setup = setup.from_public_data(folder, callback)
    program = program_of(setup, folder, engine)
    if callback.wants_estimate:
        callback.on_estimate(estimate_of(setup, program))
    return (yield from first_rounds(program, folder, callback, catch_interrupt=catch_interrupt))


def further_rounds_of(
    setup: TrainingSetup,
    folder: RunFolder,
    callback: Callback,
    *,
    older_if_damaged: bool,
    catch_interrupt: bool,
    extend: bool = False,
) -> Rounds:
    """The rounds that are left of the run in this folder, or all of them if it has not begun.

    With `extend`, the run has finished, and goes on until the setup's rounds are done.
    """
    program = program_of(setup, folder)
    program.users.open()  # so that what is wrong with workers is told before anything is written
    _warn_of_idle_workers(program.users, callback)
    if not folder.begun:
        return first_rounds(program, folder, callback, catch_interrupt=catch_interrupt)
    return further_rounds(
        program, folder, callback, older_if_damaged=older_if_damaged, catch_interrupt=catch_interrupt, extend=extend
    )


def _try_workers(setup: TrainingSetup) -> None:
    """TacitError for what is wrong with workers on Ray or with what they see of the users."""
    engine = engine_of(setup)
    try:
        engine.open()
    finally:
        engine.close()


def _warn_of_idle_workers(engine: Engine, callback: Callback) -> None:
    if isinstance(engine, RayUsers) and (sentence := engine.idle_workers()) is not None:
        callback.on_warning(sentence)


def engine_of(setup: TrainingSetup) -> Engine:
    """The engine that trains the setup's users."""
    return engine_for(
        setup.ray,
        setup.dataset.train,
        setup.work,
        setup.plan,
        setup.batches,
        parameters=parameter_count(setup.learned),
        chunk=setup.chunk,
        secure=setup.secure,
    )


def program_of(setup: TrainingSetup, folder: RunFolder, engine: Engine | None = None) -> SimulatedProgram:
    """The setup as a program with simulated users, for the driver; with `engine`, one that is open already."""
    sampler = _sampler(setup)
    engine = engine_of(setup) if engine is None else engine

    def finish(state: TrainingState, opened: Opened, spent: Spent) -> dict[str, Any]:
        summary = setup.finish(folder, state, opened, spent)
        if isinstance(sampler, DeviceCheckIns):
            summary["population"] = {"simulated_days": sampler.days}
        return summary

    return SimulatedProgram(
        plan=setup.plan,
        schedule=setup.schedule,
        seed=setup.seed,
        opened=setup.opened(folder),
        store=setup.store,
        start=setup.start,
        users=engine,
        sampler=sampler,
        mechanism=setup.mechanism,
        server=setup.server,
        evaluate=engine.spread(setup.evaluate),
        finish=finish,
        evaluate_first=setup.pretraining is not None or 0 in setup.schedule.early,
        gate_audit=setup.gate_audit,
        witness=setup.witness,
    )


@contextmanager
def built_in_advance(recipe: Recipe) -> Iterator[tuple[TrainingSetup, SimulatedProgram, VocabularyRecord | None]]:
    """What a run of this recipe will build, and what the ledger will say of a discovery of words that is still to come.

    Every mistake in the recipe is told. Nothing is left on disk. Words that the recipe would discover are not discovered, since
    that costs privacy: the store's own take their place.
    """
    words = None
    if recipe.vocabulary is not None and recipe.vocabulary.run is None:
        words, recipe = planned_words(recipe), recipe.model_copy(update={"vocabulary": None})
    with TemporaryDirectory() as place:
        setup = setup_of_recipe(recipe, Path(place) / "run")
        yield setup, program_of(setup, RunFolder.create(Path(place) / "run", setup.settings)), words


def estimate_of_recipe(recipe: Recipe, *, trial: bool = True) -> tuple[RunEstimate, list[str]]:
    """What a run of this recipe would cost, and the warnings that it would begin with. Nothing is left on disk."""
    with built_in_advance(recipe) as (setup, program, words):
        return estimate_of(setup, program, trial=trial, words=words), setup.warnings()


def planned_opening(program: SimulatedProgram, words: VocabularyRecord | None = None) -> Opened:
    """The first record of the ledger that a run of this program will have, after a discovery of words that is still to come."""
    opened = with_reasons(program)
    if words is None:
        return opened
    reasons = tuple(each for each in opened.reasons_not_private if each.code != Why.COUNTED_VOCABULARY)
    return dataclasses.replace(opened, vocabulary=words, reasons_not_private=reasons)


def estimate_of(
    setup: TrainingSetup, program: SimulatedProgram, *, trial: bool = True, words: VocabularyRecord | None = None
) -> RunEstimate:
    """What a run of this program will cost, after a discovery of words that is still to come, if any.

    It depends on no user who is trained on: epsilon follows from the plan, time from made-up users, and the share of words
    outside the vocabulary from the held-out rows that accuracy is measured on.
    """
    stated = spent_by(planned_opening(program, words), ())
    predicts = setup.recipe if isinstance(setup, RecipeSetup) and setup.recipe.letters is None else None
    return RunEstimate(
        rounds=program.schedule.rounds,
        cohort=program.plan.cohort,
        epsilon=stated.epsilon,
        delta=stated.delta,
        reasons_not_private=tuple(reason.sentence for reason in stated.reasons_not_private),
        seconds_a_round=seconds_a_round(program, len(setup.dataset.words)) if trial else None,
        words_a_user=None if predicts is None else predicts.data.tokens_per_user,
        out_of_vocabulary=None if predicts is None else out_of_vocabulary(setup.dataset.held_out),
    )


def _sampler(setup: TrainingSetup) -> Sampler:
    """The plan's sampler, or the devices of a simulated population under the plan's limits."""
    plan, dataset = setup.plan, setup.dataset
    population = setup.recipe.population if isinstance(setup, RecipeSetup) else None
    sampler = plan.build_sampler() if population is None else _check_ins(setup, population)
    canaries = dataset.canaries
    if canaries is None or canaries.device_rate is None:
        return sampler
    return OwnRate(sampler, dataset.people, canaries.device_rate)


def _check_ins(setup: TrainingSetup, population: PopulationSection) -> DeviceCheckIns:
    plan = setup.plan
    settings = PopulationSettings(
        devices=drawn_from(setup.dataset),
        report_goal=int(plan.cohort),
        min_separation=plan.min_separation,
        max_participation=plan.max_participation,
        **population.model_dump(exclude={"seed"}),
    )
    settings.require_supply(setup.schedule.rounds)
    return DeviceCheckIns(settings, population.seed)
