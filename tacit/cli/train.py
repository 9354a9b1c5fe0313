"""tacit train: a recipe becomes a run."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeRemainingColumn

from tacit.cli.summary import print_summary
from tacit.errors import RecipeError, RunError
from tacit.recipe import Recipe, find_recipe, load_recipe


def train(
    recipe: Annotated[
        str | None, typer.Argument(help="A recipe file, or the name of one of the project's own.")
    ] = None,
    changes: Annotated[
        list[str] | None, typer.Option("--set", metavar="SECTION.KEY=VALUE", help="Change a value of the recipe.")
    ] = None,
    out: Annotated[
        Path | None, typer.Option(help="The run folder to make.", show_default="runs/NAME-1, -2, ...")
    ] = None,
    resume: Annotated[
        Path | None, typer.Option(metavar="RUN", help="Go on with a run that was stopped or killed.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object and nothing else.")] = False,
) -> None:
    """Train a model. Without a recipe: the demo, a private next-word model on a built-in world.

    Ctrl-C stops after the round under way; go on with --resume.
    """
    if resume is not None and (out is not None or (changes and recipe is None)):
        raise RecipeError("Expected --resume RUN alone, or with the run's own recipe; --out and --set start a new run.")
    loaded = None
    if resume is None or recipe is not None:
        loaded = load_recipe(find_recipe(recipe or "demo"), changes or [])
    folder = resume if resume is not None else out or _next_folder(str(loaded and loaded.name))
    if resume is None and folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise RunError(f"Expected a new folder for the run, got {folder}, which has something in it already.")

    from tacit.runs.journal import StopRequested
    from tacit.simulation.training import resume_run, start_run

    console = Console(stderr=as_json)
    try:
        with _progress(console, folder, loaded) as observer:
            if resume is not None:
                summary = resume_run(resume, observer, loaded)
            else:
                assert loaded is not None
                summary = start_run(loaded, folder, observer)
    except StopRequested:
        console.print(f"Stopped at a checkpoint. Go on with: [bold]tacit train --resume {folder}[/]")
        raise typer.Exit(130) from None
    if as_json:
        print(json.dumps({"run": str(folder), **summary}, allow_nan=False))
    else:
        print_summary(console, folder, summary)


def _next_folder(name: str) -> Path:
    """runs/NAME-1, or the first number that is free."""
    number = 1
    while (path := Path("runs") / f"{name}-{number}").exists():
        number += 1
    return path


class _Bar:
    """Shows how it goes: round, accuracy, epsilon so far, users a second, time left."""

    def __init__(self, progress: Progress, rounds: int, cohort: float) -> None:
        self._progress, self._cohort = progress, cohort
        self._task = progress.add_task("", total=rounds, top1="  –  ", epsilon="–", speed="–")
        self._first: tuple[int, float] | None = None

    def round_done(self, round: int) -> None:
        now = time.monotonic()
        if self._first is None:
            self._first = (round, now)
        done, seconds = round - self._first[0], now - self._first[1]
        # Expected users, not realised ones: how many took part is the owner's secret.
        speed = f"{done * self._cohort / seconds:,.0f}" if seconds > 0 and done else "–"
        self._progress.update(self._task, completed=round, speed=speed)

    def evaluated(self, record: Mapping[str, Any]) -> None:
        epsilon = record["epsilon"]
        shown = "∞" if epsilon == float("inf") else f"{epsilon:.2f}"
        self._progress.update(self._task, top1=f"{record['top1']:.1%}", epsilon=shown)


@contextmanager
def _progress(console: Console, folder: Path, recipe: Recipe | None) -> Iterator[_Bar]:
    if recipe is None:
        from tacit.recipe import parse_recipe
        from tacit.runs.folder import RunFolder

        recipe = parse_recipe(RunFolder.open(folder).recipe())
    columns = (
        SpinnerColumn(),
        TextColumn("round {task.completed}/{task.total}"),
        BarColumn(bar_width=24),
        TextColumn("top-1 [bold]{task.fields[top1]}[/]"),
        TextColumn("ε so far [bold]{task.fields[epsilon]}[/]"),
        TextColumn("{task.fields[speed]} users/s"),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=console, transient=False) as progress:
        yield _Bar(progress, recipe.run.rounds, recipe.privacy.cohort)
