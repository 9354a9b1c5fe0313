"""`tacit train`: a recipe becomes a run."""

from __future__ import annotations

import json
import shlex
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.text import Text

from tacit.cli.progress import watching
from tacit.cli.summary import print_summary, tacit_command
from tacit.errors import RecipeError
from tacit.recipe import Recipe, find_recipe, load_recipe, parse_recipe
from tacit.runs.folder import RUNS, RunFolder, by_name, is_run, refuse_if_taken


def train(
    recipe: Annotated[
        str | None, typer.Argument(help="A recipe file, or the name of one that comes with Tacit.", show_default="demo")
    ] = None,
    changes: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="SECTION.KEY=VALUE", help="Change a value of the recipe; may be repeated."),
    ] = None,
    out: Annotated[
        Path | None, typer.Option(help="The run folder to make.", show_default="runs/NAME-1, -2, ...")
    ] = None,
    resume: Annotated[
        Path | None, typer.Option(metavar="RUN", help="Go on with a run that was stopped or killed.")
    ] = None,
    older_checkpoint: Annotated[
        bool,
        typer.Option(
            "--older-checkpoint",
            help="With --resume: if the newest checkpoint is damaged, go back to the one before; the rounds since then "
            "cost again.",
        ),
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object and nothing else on stdout.")] = False,
) -> None:
    """Train a model. Without a recipe: the demo, a private next-word model on a built-in world.

    Ctrl-C stops after the round under way; --resume goes on from there.

    Example: tacit train demo --set run.rounds=40 --out runs/short
    """
    if resume is not None and out is not None:
        raise RecipeError(f"Expected --resume or --out, got both: {resume} goes on where it is.")
    if resume is not None and changes and recipe is None:
        raise RecipeError(
            f"Expected --resume without --set, got --set {changes[0]}: a run keeps the recipe it was begun with.",
            hint="To train with another recipe, begin a new run.",
        )
    if older_checkpoint and resume is None:
        raise RecipeError("Expected --older-checkpoint with --resume only: a new run has no checkpoint.")
    wanted: Recipe | None = None  # beside --resume: the recipe the run must have been begun with
    if resume is None:
        followed = load_recipe(find_recipe(recipe or "demo"), changes or ())
        folder = out or _next_folder(followed.name)
        refuse_if_taken(folder)  # before the seconds that building takes
    else:
        if recipe is not None:
            wanted = load_recipe(find_recipe(recipe), changes or ())
        folder = by_name(resume)
        followed = parse_recipe(RunFolder.open(folder).recipe())

    console = Console(stderr=True)
    try:
        # Imported here: JAX takes a second, and every mistake above should be told at once.
        from tacit.runs.journal import StopRequested
        from tacit.simulation.training import resume_run, start_run

        try:
            with watching(followed, console) as observer:
                if resume is None:
                    summary = start_run(followed, folder, observer)
                else:
                    summary = resume_run(folder, observer, wanted, older_if_damaged=older_checkpoint)
        except StopRequested:
            _say_how_to_go_on(console, folder, "Stopped after the round under way, which is saved.")
            raise typer.Exit(130) from None
    except KeyboardInterrupt:  # a second Ctrl-C, or one before the first round
        if is_run(folder):
            _say_how_to_go_on(console, folder, "Stopped at once; a round that was under way counts as released.")
        else:
            console.print("Stopped before the run began; nothing was written.", highlight=False)
        raise typer.Exit(130) from None
    if as_json:
        print(json.dumps({"run": str(folder), **summary}, allow_nan=False))
    else:
        print_summary(Console(), folder, summary)


def _say_how_to_go_on(console: Console, folder: Path, sentence: str) -> None:
    command = f"{tacit_command()} train --resume {shlex.quote(str(folder))}"
    console.print(Text.assemble(sentence, " Go on with: ", (command, "bold")), highlight=False, soft_wrap=True)


def _next_folder(name: str) -> Path:
    """runs/NAME-1, or the first number that is free."""
    number = 1
    while (path := RUNS / f"{name}-{number}").exists():
        number += 1
    return path
