"""`tacit sweep`: a grid of recipes side by side, resumable, with one table, one picture and one statement of its cost."""

from __future__ import annotations

import json
import shlex
from collections.abc import Mapping, Sequence
from contextlib import nullcontext, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer
from rich.console import Console
from rich.measure import Measurement
from rich.table import Table

from tacit.api.sweep import Where, chosen_cases, go_on, prepared, settle, unsettled, with_new
from tacit.cli.entry import STOPPED
from tacit.cli.options import Changes, Json
from tacit.cli.results import emit
from tacit.cli.results.sweep import SweepResult
from tacit.cli.summary import tacit_command
from tacit.errors import RecipeError, RunError
from tacit.files import write_atomic
from tacit.privacy.statement.wording import counted, epsilon_text
from tacit.recipe.reading import apply_change, read_toml
from tacit.recipe.sweep import SweepCase, grid_of
from tacit.runs.callbacks import StopRequested
from tacit.runs.estimates import in_minutes
from tacit.runs.finding import RUNS
from tacit.simulation.sweep.cases import DONE, FAILED, CaseResult, Costs, result_of, results_of
from tacit.simulation.sweep.folder import SettledCase, SweepFolder, is_sweep
from tacit.simulation.sweep.picture import plot_sweep
from tacit.simulation.sweep.running import SweepCallback
from tacit.simulation.sweep.statement import statement_of

if TYPE_CHECKING:
    from tacit.simulation.sweep.preparing import Prepared

MOST_COLUMNS = 200


def sweep(
    context: typer.Context,
    grid: Annotated[Path, typer.Argument(help="The file of a sweep, or the folder of one that has begun.")],
    out: Annotated[
        Path | None, typer.Option("--out", help="The folder of the runs.", show_default="runs/NAME, as the file says")
    ] = None,
    at_once: Annotated[
        int | None,
        typer.Option(
            "--at-once",
            min=1,
            help="How many runs at a time, each in a process of its own.",
            show_default="1; with Ray as many as there is room for",
        ),
    ] = None,
    only: Annotated[
        list[str] | None,
        typer.Option("--only", metavar="NAME", help="Run the cases whose names begin with this; may be repeated."),
    ] = None,
    minutes: Annotated[
        float | None, typer.Option("--minutes", min=0, help="Begin no run after so many minutes.")
    ] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Check every case, say what the sweep will cost, and stop.")
    ] = False,
    report: Annotated[bool, typer.Option("--report", help="Show how far the sweep is, and run nothing.")] = False,
    add: Annotated[
        bool,
        typer.Option("--add", help="Add cases that the file did not have when the sweep began, and leave out others."),
    ] = False,
    changes: Changes = None,
    engine: Annotated[
        Literal["processes", "ray"],
        typer.Option("--engine", help="Run on this machine, or as tasks of Ray, one a run (pip install 'tacit[ray]')."),
    ] = "processes",
    address: Annotated[
        str | None,
        typer.Option(
            "--address", help="With --engine ray: the address of a cluster.", show_default="Ray on this machine"
        ),
    ] = None,
    gpus_per_run: Annotated[
        float, typer.Option("--gpus-per-run", min=0, help="With --engine ray: GPUs for each run; 0: one core.")
    ] = 0.0,
    as_json: Json = False,
) -> None:
    """Train a grid of recipes side by side, and state what all of it costs the people whose data it reads.

    The file names a recipe, values to try and an epsilon. Every case is checked before the first one runs. Give the same
    command again to go on after Ctrl-C or a crash: finished runs are not repeated, unfinished ones are resumed.

    Example: tacit sweep rates.toml --dry-run

    Example: tacit sweep rates.toml --at-once 4
    """
    console = Console(stderr=True, highlight=False, markup=False, soft_wrap=True)
    modules = context.find_root().params.get("modules") or ()
    where = Where(at_once, engine, address, gpus_per_run, tuple(modules))
    names: set[str] | None = None
    asked: list[SweepCase] = []
    if is_sweep(grid):
        if out is not None or changes or add:
            raise RecipeError(f"Expected the file of a sweep with --out, --set or --add, got the sweep {grid}.")
        place = grid
    else:
        place, cases = _read(grid, out, changes or ())
        names = {case.name for case in cases}
        asked = [] if report else unsettled(place, cases, add=add)
    with nullcontext() if report or dry_run else where.ready():
        new = prepared(place, asked, in_processes=where.in_processes, timed=True) if asked else None
        folder = SweepFolder.open(place) if is_sweep(place) or report else SweepFolder.planned(place, ())
        folder = folder if new is None else with_new(folder, new.cases)
        chosen = [case for case in chosen_cases(folder, only or ()) if names is None or case.name in names]
        if not report:
            _say_plan(console, folder, new, chosen, cost=not dry_run)
        if dry_run or report:
            _end(folder, as_json, write=report)
            return
        if new is not None:
            where.require_suitable(new.cases)
            settle(folder.path, new.cases)
        try:
            go_on(folder, chosen, where, minutes=minutes, callback=_Saying(console))
        except (StopRequested, KeyboardInterrupt):
            line = f"{tacit_command()} sweep {shlex.quote(str(folder.path))}{_options(where)}"
            console.print(f"Stopped; the runs under way are saved. Go on with: {line}")
            _end(folder, as_json)
            raise typer.Exit(STOPPED) from None
    _end(folder, as_json)
    if any(result_of(folder, case).state == FAILED for case in chosen):
        raise typer.Exit(1)


def _options(where: Where) -> str:
    """Where runs go on, as options of the command."""
    given = {
        "--at-once": where.at_once,
        "--engine": "ray" if where.engine == "ray" else None,
        "--address": where.address,
        "--gpus-per-run": where.gpus_per_run or None,
    }
    return "".join(f" {name} {shlex.quote(str(value))}" for name, value in given.items() if value is not None)


def _read(grid: Path, out: Path | None, changes: Sequence[str]) -> tuple[Path, list[SweepCase]]:
    """Where the sweep of this file lies, and its cases with these changes made to each."""
    if not grid.is_file():
        what = "which is a folder without a sweep" if grid.is_dir() else "which does not exist"
        raise RecipeError(
            f"Expected the file of a sweep, or the folder of one that has begun, got {str(grid)!r}, {what}."
        )
    tree = read_toml(grid)
    if changes and isinstance(tree.setdefault("set", {}), dict):
        for change in changes:
            apply_change(tree["set"], change)
    name, cases = grid_of(tree, grid.parent)
    return RUNS / name if out is None else out, cases


def _say_plan(
    console: Console, folder: SweepFolder, new: Prepared | None, chosen: Sequence[SettledCase], *, cost: bool
) -> None:
    """What will run, how long it takes and what all of it costs, before anything runs."""
    for warning, names in ({} if new is None else new.warnings).items():
        whose = names[0] if len(names) == 1 else f"{names[0]} and {len(names) - 1} more"
        console.print(f"{whose}: {warning}")
    results = {case.name: result_of(folder, case) for case in chosen}
    left = [case for case in chosen if results[case.name].state not in DONE]
    done = "" if len(left) == len(chosen) else f", {len(chosen) - len(left)} of them done"
    console.print(f"Sweep: {counted(len(chosen), 'case')} in {folder.path}{done}. {_time(left, results)}".rstrip())
    for each in statement_of(folder) if cost else ():
        for sentence in each.sentences():
            console.print(sentence)


def _time(left: Sequence[SettledCase], results: Mapping[str, CaseResult]) -> str:
    seconds = [
        case.seconds * (1 - results[case.name].rounds / case.recipe.run.rounds)
        for case in left
        if case.seconds is not None
    ]
    if not left or len(seconds) < len(left):
        return ""
    return (
        f"One after another their rounds take about {in_minutes(sum(seconds))} on this machine, if everybody has as much text "
        "as the recipe reads (made-up users were timed)."
    )


class _Saying(SweepCallback):
    """A line on stderr for everything that happens."""

    def __init__(self, console: Console) -> None:
        self._console = console

    def on_begin(self, case: str, number: int, cases: int) -> None:
        self._console.print(f"{case}: run {number} of {cases} begins")

    def on_evaluation(self, case: str, round: int, metrics: Mapping[str, Any]) -> None:
        figure = next((f", {name} {metrics[name]:.2%}" for name in ("top1", "accuracy") if name in metrics), "")
        self._console.print(f"{case}: round {round}{figure}")

    def on_end(self, case: str, result: CaseResult) -> None:
        self._console.print(f"{case}: {_state(result)}")


def _state(result: CaseResult) -> str:
    return result.state if result.problem is None else f"{result.state}: {result.problem}"


def _end(folder: SweepFolder, as_json: bool, *, write: bool = True) -> None:
    """Print the table and the statement, and leave them with the picture in the sweep's folder."""
    results, costs, paid = results_of(folder), Costs(), statement_of(folder)
    own = {case.name: costs.of(folder, case) for case in folder.cases}
    picture = None
    if write:
        with suppress(RunError):
            plot_sweep(results, folder.path / "results.png")
            picture = str(folder.path / "results.png")
    found = {
        "sweep": str(folder.path),
        "cases": [_facts(result, *own[result.name]) for result in results],
        "cost": [each.as_dict() for each in paid],
        "picture": picture,
    }
    lines = [sentence for each in paid for sentence in each.sentences()]
    if write:
        write_atomic(folder.path / "results.json", json.dumps(found, allow_nan=False, indent=1) + "\n")
        write_atomic(folder.path / "statement.txt", "\n".join(lines) + "\n")
    if as_json:
        emit(SweepResult, found)
        return
    table = Table("case", "state", "rounds", "top-1", "epsilon", box=None)
    for result in results:
        epsilon, reasons = own[result.name]
        metrics = result.metrics
        top1 = next((f"{100 * metrics[name]:.2f}%" for name in ("top1", "accuracy") if name in metrics), "-")
        rounds = f"{result.rounds:,} of {result.rounds_planned:,}"
        table.add_row(result.name, result.state, rounds, top1, epsilon_text(epsilon) + (" *" if reasons else ""))
    console = Console(markup=False, highlight=False, width=MOST_COLUMNS)
    console.print(table, width=Measurement.get(console, console.options, table).maximum)
    for name, (_, reasons) in own.items():
        if reasons:
            typer.echo(f"* {name}: {'; '.join(reasons)}.")
    for result in results:
        if result.problem is not None:
            typer.echo(f"{result.name} {result.state}: {result.problem}")
    for line in lines:
        typer.echo(line)
    if picture is not None:
        typer.echo(f"Picture: {picture}")


def _facts(result: CaseResult, epsilon: float | None, reasons: Sequence[str]) -> dict[str, Any]:
    return {
        "case": result.name,
        "state": result.state,
        "rounds": result.rounds,
        "rounds_planned": result.rounds_planned,
        "settings": dict(result.settings),
        "metrics": dict(result.metrics),
        "epsilon": epsilon,
        "reasons_not_private": list(reasons),
        "problem": result.problem,
    }
