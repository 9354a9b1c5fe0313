"""`tacit runs`: list runs, show the result of one, compare several. Reads run folders and changes nothing."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

from tacit.api.run import open_run
from tacit.cli.commands import Commands
from tacit.cli.options import Json, RunArgument
from tacit.cli.results import emit
from tacit.cli.results.privacy import RunPrivacy
from tacit.cli.results.runs import PictureResult, RunFacts, RunsCompareResult, RunsListResult
from tacit.cli.summary import owners_sentence
from tacit.errors import RunError
from tacit.privacy.record.ledger import Ledger
from tacit.privacy.statement.wording import epsilon_text
from tacit.runs.accuracy import LABELS, SHARES
from tacit.runs.cost import HAPPENED, cohorts_for_owner, cost_of
from tacit.runs.folder import RUNS, RunFolder, by_name, find_runs
from tacit.runs.metrics import last_metrics
from tacit.runs.report.reading import state_of

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
    found = [_facts_or_problem(path) for path in ([] if nothing_yet else find_runs(root))]
    if as_json:
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
    facts = _facts(RunFolder.open(by_name(run)), recount=True)
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
        table.add_row("words", f"{words['words']:,}; {words['found']:,} of them are on no public list")
    for name, value in facts["metrics"].items():
        table.add_row(LABELS.get(name, name), _figure(value, percent=name in SHARES))
    for name, value in _flat(facts["baselines"]):
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
    if len(runs) < 2:
        raise RunError(f"Expected two or more runs to compare, got {len(runs)}.")
    folders = [RunFolder.open(by_name(run)) for run in runs]
    found = [_facts(folder) for folder in folders]
    recipes = [dict(_flat(folder.recipe())) for folder in folders]
    names = sorted({name for recipe in recipes for name in recipe})
    columns = {name: [recipe.get(name) for recipe in recipes] for name in names}
    differences = {name: values for name, values in columns.items() if any(value != values[0] for value in values)}
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
    opened = open_run(run)
    opened.plot(out)
    if as_json:
        emit(PictureResult, {"run": str(opened.path), "picture": str(out)})
        return
    typer.echo(f"Wrote {out}.")


def _facts_or_problem(path: Path) -> dict[str, Any]:
    """A run's facts, or the problem of a damaged run, so that one bad run does not hide the others."""
    try:
        return _facts(RunFolder.open(path))
    except RunError as error:
        return {"run": str(path), "state": "damaged", "problem": error.sentence}


def _facts(folder: RunFolder, *, recount: bool = False) -> dict[str, Any]:
    """The facts in the folder: those of the summary; until there is one, the last metrics and the cost of the whole ledger."""
    summary = folder.summary() or {}
    last = last_metrics(folder.metrics_path) or {}
    ledger = folder.accountable_ledger() if folder.begun else None
    privacy = _privacy(folder, ledger, summary.get("privacy"), recount) if ledger else None
    metrics = summary.get("metrics") or {name: last[name] for name in (*SHARES, "perplexity") if name in last}
    return {
        "run": str(folder.path),
        "run_id": folder.run_id,
        "created": folder.created,
        "state": state_of(folder, ledger),
        "rounds": ledger.next_round if ledger else 0,
        "releases": len(ledger.releases()) if ledger else 0,
        "metrics": metrics,
        "baselines": summary.get("baselines") or {},
        "privacy": privacy,
        **({} if "found" not in summary else {"discovery": {name: summary[name] for name in ("words", "found")}}),
    }


def _privacy(folder: RunFolder, ledger: Ledger, stated: dict[str, Any] | None, recount: bool) -> dict[str, Any]:
    """What the summary states, if it is complete and covers all releases; if not, or to `recount`, the ledger's cost."""
    complete = stated is not None and stated.keys() >= RunPrivacy.model_fields.keys()
    if stated and complete and not recount and stated["releases"] == len(ledger.intents):
        return stated
    cost = cost_of(folder, ledger, cohorts=cohorts_for_owner(folder, ledger) if recount else None)
    return cost.stated.as_dict() | ({HAPPENED: cost.owners_figures()} if recount else {})


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


def _flat(value: Mapping[str, Any], name: str = "") -> Iterable[tuple[str, Any]]:
    for key, inner in value.items():
        full = f"{name}.{key}" if name else str(key)
        if isinstance(inner, Mapping):
            yield from _flat(inner, full)
        else:
            yield full, inner


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
