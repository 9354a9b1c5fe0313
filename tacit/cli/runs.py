"""`tacit runs`: list runs, show the result of one, compare several. Reads run folders and changes nothing.

The list of runs that are known imports neither NumPy nor pydantic (`tacit.runs.listing`), so each command imports its own part.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

from tacit.cli.commands import Commands
from tacit.cli.options import Json, RunArgument
from tacit.errors import RunError
from tacit.privacy.statement.wording import epsilon_text
from tacit.runs.accuracy import LABELS, SHARES
from tacit.runs.finding import RUNS, by_name
from tacit.runs.listing import facts_below

app = Commands(help="List, show, compare and plot runs.")


@app.callback(invoke_without_command=True)
def runs(context: typer.Context, as_json: Json = False) -> None:
    """List, show, compare and plot runs; without a command, list the runs in runs/."""
    if context.invoked_subcommand is None:
        list_runs(RUNS, as_json)


@app.command("list")
def list_runs(
    root: Annotated[Path, typer.Argument(help="The folder that holds runs.")] = RUNS, as_json: Json = False
) -> None:
    """List the runs below a folder, one a line."""
    nothing_yet = root == RUNS and not root.exists()
    found = [] if nothing_yet else facts_below(root)
    if as_json:
        from tacit.cli.results import emit
        from tacit.cli.results.runs import RunsListResult

        emit(RunsListResult, {"root": str(root), "runs": found})
        return
    if not found:
        typer.echo(f"No runs in {root} yet: tacit train makes one.")
        return
    table = Table("run", "state", "rounds", "top-1", "privacy", box=None)
    for facts in found:
        top1 = _figure(facts.get("metrics", {}).get("top1"), percent=True)
        table.add_row(facts["run"], facts["state"], str(facts.get("rounds", "")), top1, _privacy_words(facts))
    _print_table(table)


@app.command()
def show(run: RunArgument, as_json: Json = False) -> None:
    """Show the result of a run: rounds, accuracy, epsilon and delta, or why epsilon is infinite."""
    from tacit.cli.results import emit
    from tacit.cli.results.runs import RunFacts
    from tacit.cli.summary import owners_sentence
    from tacit.runs.cost import HAPPENED
    from tacit.runs.facts import facts_of, settings_by_name
    from tacit.runs.folder import RunFolder

    facts = facts_of(RunFolder.open(by_name(run)), recount=True)
    if as_json:
        emit(RunFacts, facts)
        return
    table = Table(box=None, show_header=False)
    table.add_row("run", facts["run"])
    table.add_row("state", facts["state"])
    table.add_row("created", facts["created"])
    again = facts["releases"] - facts["rounds"]
    more = f", and {again} further attempt{'' if again == 1 else 's'}, accounted in addition" if again > 0 else ""
    table.add_row("rounds", f"{facts['rounds']}{more}")
    if (words := facts.get("discovery")) is not None:
        table.add_row("words", f"{words['words']:,}, {words['found']:,} of them on no public list")
    for name, value in facts["metrics"].items():
        table.add_row(LABELS.get(name, name), _figure(value, percent=name in SHARES))
    for name, value in settings_by_name(facts["baselines"]):
        table.add_row(f"baseline {name}", _figure(value, percent="top" in name))
    table.add_row("privacy", _privacy_words(facts))
    privacy = facts["privacy"] or {}
    if privacy.get("rounds"):
        table.add_row("  epsilon is for", privacy["rounds"])
        table.add_row("  computed from", privacy["computed_from"])
    if (happened := privacy.get(HAPPENED)) is not None:
        table.add_row("  for the owner", owners_sentence(happened))
    for assumption in privacy.get("assumptions", []):
        table.add_row("  assuming", assumption)
    _print_table(table)


@app.command()
def compare(
    runs: Annotated[list[Path], typer.Argument(help="Two or more runs' folders, or their names in runs/.")],
    as_json: Json = False,
) -> None:
    """Compare runs: where their recipes differ, and the result of each."""
    from tacit.cli.results import emit
    from tacit.cli.results.runs import RunsCompareResult
    from tacit.runs.facts import facts_of, recipe_differences
    from tacit.runs.folder import RunFolder

    if len(runs) < 2:
        raise RunError(f"Expected two or more runs to compare, got {len(runs)}.")
    folders = [RunFolder.open(by_name(run)) for run in runs]
    found = [facts_of(folder) for folder in folders]
    differences = recipe_differences([folder.recipe() for folder in folders])
    if as_json:
        emit(RunsCompareResult, {"runs": found, "recipe_differences": differences})
        return
    table = Table("", *(facts["run"] for facts in found), box=None)
    for name, values in differences.items():
        table.add_row(name, *("-" if value is None else json.dumps(value) for value in values))
    table.add_section()
    table.add_row("state", *(facts["state"] for facts in found))
    table.add_row("rounds", *(str(facts["rounds"]) for facts in found))
    for name in dict.fromkeys(name for facts in found for name in facts["metrics"]):
        figures = (_figure(facts["metrics"].get(name), percent=name in SHARES) for facts in found)
        table.add_row(LABELS.get(name, name), *figures)
    table.add_row("privacy", *(_privacy_words(facts) for facts in found))
    _print_table(table)


@app.command()
def plot(
    run: RunArgument,
    out: Annotated[Path, typer.Option("--out", help="The picture to write; .png or .svg.")] = Path("training.png"),
    as_json: Json = False,
) -> None:
    """Draw accuracy and the privacy budget over the rounds of a run."""
    from tacit.api.run import open_run
    from tacit.cli.results import emit
    from tacit.cli.results.runs import PictureResult

    opened = open_run(run)
    opened.plot(out)
    if as_json:
        emit(PictureResult, {"run": str(opened.path), "picture": str(out)})
        return
    typer.echo(f"Wrote {out}.")


def _privacy_words(facts: Mapping[str, Any]) -> str:
    if "problem" in facts:
        return str(facts["problem"])
    privacy = facts["privacy"] or {}
    reasons = privacy.get("reasons_not_private") or []
    if reasons:
        return "epsilon is infinite: " + "; ".join(str(reason) for reason in reasons)
    if isinstance(privacy.get("epsilon"), int | float):
        unit = f" a {privacy['unit']}" if privacy.get("unit") else ""
        accountant = f" ({privacy['accountant']})" if privacy.get("accountant") else ""
        return f"epsilon {epsilon_text(privacy['epsilon'])} at delta {_figure(privacy.get('delta'))}{unit}{accountant}"
    return "epsilon is not stated" + (" yet" if facts["state"] in ("running", "interrupted", "not begun") else "")


def _figure(value: Any, *, percent: bool = False) -> str:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return "-" if value is None else str(value)
    if isinstance(value, int):
        return f"{value:,}"
    return f"{100 * value:.1f}%" if percent else f"{value:.4g}"


def _print_table(table: Table) -> None:
    for column in table.columns:
        column.overflow = "fold"
    Console(markup=False).print(table)  # names of folders are not markup
