"""`tacit train`: a recipe becomes a run."""

from __future__ import annotations

import sys
from dataclasses import replace
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console

from tacit.cli.options import Changes, Json, NewRun
from tacit.cli.results import emit
from tacit.cli.results.runs import TrainResult
from tacit.cli.running import interruptible
from tacit.cli.summary import print_summary
from tacit.errors import RecipeError
from tacit.privacy.statement.wording import round_up
from tacit.recipe.engine import BUILT_IN, BuiltIn, Ray
from tacit.recipe.reading import apply_change, find_recipe
from tacit.recipe.sections import EngineSection
from tacit.recipe.training import Recipe, load_recipe, on_engine
from tacit.runs.cost import HAPPENED, owners_figures
from tacit.runs.finding import by_name, next_folder, refuse_if_taken
from tacit.runs.folder import RunFolder
from tacit.runs.progress import Progress


class Kind(StrEnum):
    """The engines."""

    BUILT_IN = "built-in"
    RAY = "ray"


def train(
    recipe: Annotated[
        str | None, typer.Argument(help="A recipe file, or the name of one that comes with Tacit.", show_default="demo")
    ] = None,
    changes: Changes = None,
    out: NewRun = None,
    epsilon: Annotated[
        float | None,
        typer.Option(
            "--epsilon",
            help="Find the least noise with which the whole run, the discovery of its words included, costs at most this "
            "epsilon at the recipe's delta.",
        ),
    ] = None,
    resume: Annotated[
        Path | None,
        typer.Option(
            metavar="RUN",
            help="Continue a run that was stopped or killed. With --set run.rounds=N, extend a run that has finished.",
        ),
    ] = None,
    older_checkpoint: Annotated[
        bool,
        typer.Option(
            "--older-checkpoint",
            help="With --resume: if the newest checkpoint is damaged, use the one before it. The rounds since then run again "
            "and are accounted again.",
        ),
    ] = False,
    engine: Annotated[
        Kind | None,
        typer.Option(
            "--engine",
            help="Who trains the users: this process (built-in), or workers on Ray, on this machine or on many. "
            "As engine.kind in a recipe.",
        ),
    ] = None,
    address: Annotated[
        str | None,
        typer.Option(
            metavar="HOST:PORT",
            help="With --engine ray: the Ray cluster to join, or auto. Without it, Ray is started here for the run.",
        ),
    ] = None,
    workers: Annotated[
        int | None,
        typer.Option(min=1, help="With --engine ray: how many workers. Without it, as many as there is room for."),
    ] = None,
    gpus_per_worker: Annotated[
        float | None,
        typer.Option("--gpus-per-worker", min=0, help="With --engine ray: how many GPUs each worker holds."),
    ] = None,
    as_json: Json = False,
) -> None:
    """Train a model. Without a recipe: the demo, a private next-word model on a built-in world.

    Ctrl-C stops after the current round; --resume continues from there. A run that has finished gets more rounds with
    --resume RUN --set run.rounds=N: epsilon for all of them is printed before they begin.

    Example: tacit train demo --set run.rounds=40 --out runs/short

    Example: tacit train mine.toml --epsilon 8
    """
    if resume is not None and out is not None:
        raise RecipeError(f"Expected --resume or --out, got both: a resumed run stays in its folder, {resume}.")
    more = _rounds_to_extend_to(changes) if resume is not None and changes and recipe is None else None
    if older_checkpoint and resume is None:
        raise RecipeError("Expected --older-checkpoint with --resume only: a new run has no checkpoint.")
    if epsilon is not None and resume is not None:
        raise RecipeError("Expected --epsilon or --resume, got both: a run keeps the noise with which it began.")
    asked = _asked_of_ray(engine, address, workers, gpus_per_worker)
    followed: Recipe | None = None
    wanted: Recipe | None = None  # with --resume: the recipe with which the run must have begun
    if resume is None:
        said = [] if engine is not Kind.RAY else ["engine.kind=ray", *(f"engine.{key}={asked[key]}" for key in asked)]
        followed = load_recipe(find_recipe(recipe or "demo"), [*said, *(changes or ())])
        if engine is Kind.BUILT_IN:
            followed = on_engine(followed, BUILT_IN)
        folder = out or next_folder(followed.name)
        refuse_if_taken(folder)  # before the model is built, which takes seconds
        if epsilon is not None:
            followed = _at_epsilon(followed, epsilon)
    else:
        if recipe is not None:
            wanted = load_recipe(find_recipe(recipe), changes or ())
        folder = by_name(resume)
        opened = RunFolder.open(folder)  # so that a wrong name is reported before JAX is imported

    console = Console(stderr=True)
    if more is not None:
        from tacit.runs.extension import extension_of

        console.print(extension_of(opened, more).sentence(), highlight=False, markup=False, soft_wrap=True)
    with interruptible(console, folder, "train"):
        # Imported here: JAX takes a second to import, and the mistakes above should be reported at once.
        from tacit.api import train as library

        with Progress(console=console, estimate=True) as progress:
            if followed is not None:
                run = library.train(recipe=followed, out=folder, callbacks=[progress])
            else:
                run = library.resume(
                    folder,
                    recipe=wanted,
                    rounds=more,
                    older_if_damaged=older_checkpoint,
                    engine=_to_go_on_with(opened, engine, asked),
                    callbacks=[progress],
                )
    happened = owners_figures(run.folder)
    owner = {} if happened is None else {HAPPENED: happened}
    if as_json:
        emit(TrainResult, {"run": str(folder), **run.summary, **owner})
    else:
        print_summary(Console(), folder, run.summary, happened=happened, gate=run.gate_audit())


def _asked_of_ray(
    kind: Kind | None, address: str | None, workers: int | None, gpus_per_worker: float | None
) -> dict[str, Any]:
    """What these options say of Ray, by its keys in a recipe; RecipeError for any of them without --engine ray."""
    given = {"address": address, "workers": workers, "gpus_per_worker": gpus_per_worker}
    asked: dict[str, Any] = {name: value for name, value in given.items() if value is not None}
    if kind is Kind.RAY:
        Ray(**asked)  # raises for what is wrong with them
    elif asked:
        raise RecipeError(f"Expected --engine ray with --{next(iter(asked)).replace('_', '-')}.")
    return asked


def _to_go_on_with(run: RunFolder, kind: Kind | None, asked: dict[str, Any]) -> Ray | BuiltIn | None:
    """The engine for a run that goes on; None for the one with which it was begun. What is not said stays as it was."""
    if kind is not Kind.RAY:
        return None if kind is None else BUILT_IN
    began = EngineSection.model_validate(run.recipe().get("engine", {})).ray() or Ray()
    return replace(began, **asked)


def _at_epsilon(recipe: Recipe, epsilon: float) -> Recipe:
    """The recipe with the noise for this epsilon, which is printed."""
    from tacit.recipe.target import at_epsilon
    from tacit.training.datasets import reasons_of_data

    found = at_epsilon(recipe, epsilon, reasons_of_data(recipe))
    plan, rounds = found.recipe.privacy, found.recipe.run.rounds
    print(
        f"Noise: a noise multiplier of {plan.noise_multiplier:g} reaches ε = {round_up(found.planned.epsilon)} at "
        f"δ = {plan.delta:g}, with {rounds:,} rounds of about {plan.cohort:,.0f} users.",
        file=sys.stderr,
    )
    return found.recipe


def _rounds_to_extend_to(changes: list[str]) -> int:
    """The N of --set run.rounds=N, the only change that a run takes after it has begun."""
    tree: dict[str, Any] = {}
    for change in changes:
        apply_change(tree, change)
    section = tree.get("run")
    rounds = section.get("rounds") if isinstance(section, dict) else None
    if tree != {"run": {"rounds": rounds}}:
        other = next((each for each in changes if not each.replace(" ", "").startswith("run.rounds=")), changes[0])
        raise RecipeError(
            f"Expected --resume with no change but --set run.rounds=N, got --set {other}: a run keeps the recipe with which it "
            "began.",
            hint="To train with another recipe, begin a new run.",
        )
    if type(rounds) is not int or rounds < 1:
        raise RecipeError(f"Expected run.rounds to be a whole number above 0, got {rounds!r}.")
    return rounds
