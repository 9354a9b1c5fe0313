"""`tacit budget`: how much privacy a store's people may lose in all, which every job on them draws from."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from tacit.api.budget import budget_of
from tacit.api.budget import set_budget as set_budget_of
from tacit.cli.commands import Commands
from tacit.cli.options import Json
from tacit.cli.results import emit
from tacit.cli.results.budget import BudgetResult, SettleResult
from tacit.data.store import open_store
from tacit.privacy.statement.wording import counted
from tacit.runs.budget.account import round_down
from tacit.runs.budget.listed import settle_open
from tacit.runs.budget.status import BudgetStatus

app = Commands(
    help="Set how much privacy a store's people may lose in all. Jobs that do not fit are refused.",
    no_args_is_help=True,
)
StoreFolder = Annotated[Path, typer.Argument(help="The folder of a store.")]


@app.command("set")
def set_budget(
    store: StoreFolder,
    epsilon: Annotated[float | None, typer.Option(help="The most epsilon that may be spent.")] = None,
    delta: Annotated[float | None, typer.Option(help="The delta of that epsilon. It cannot be changed later.")] = None,
    rho: Annotated[
        float | None, typer.Option(help="Or the most rho of zero-concentrated differential privacy.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Set the budget of a store's people, lower it, or raise it. Runs that read them before are charged from their ledgers.

    Every statement says how often a budget was raised.

    Example: tacit budget set data/forum --epsilon 4 --delta 1e-6
    """
    _tell(set_budget_of(store, epsilon=epsilon, delta=delta, rho=rho), as_json)


@app.command()
def show(store: StoreFolder, as_json: Json = False) -> None:
    """Show the budget of a store's people: what is spent, what is left, and which runs have not ended.

    Example: tacit budget show data/forum
    """
    found = budget_of(store)
    if found is not None:
        _tell(found, as_json)
    elif as_json:
        emit(BudgetResult, {"store": str(store), "set": []})
    else:
        typer.echo(f"No budget is set for {store}. tacit budget set {store} sets one.")


@app.command()
def settle(store: StoreFolder, as_json: Json = False) -> None:
    """Settle the runs that were killed, from their ledgers. A run that never began gives back what it had reserved.

    Example: tacit budget settle data/forum
    """
    found = settle_open(open_store(store).path)
    if as_json:
        emit(
            SettleResult, {"runs": [{"run_id": each.run, "run": each.place, "outcome": each.outcome} for each in found]}
        )
        return
    for each in found:
        typer.echo(f"{each.place}: {each.outcome}")
    if not found:
        typer.echo("Nothing is open.")


def _tell(found: BudgetStatus, as_json: bool) -> None:
    if as_json:
        emit(BudgetResult, {"store": found.where} | found.as_dict() | {"room": found.room})
        return
    typer.echo(found.sentence)
    typer.echo(f"  {counted(found.runs, 'run')} charged")
    for job in found.open_runs:
        typer.echo(f"  open: {job.place}, reserved {job.at}")
    if found.unknown is None:
        typer.echo(f"  one more release of Gaussian noise fits if its ρ is {round_down(found.room)} or less")
    if len(found.limits) > 1:
        for at, limit in found.limits:
            typer.echo(f"  set {at}: {limit.symbol} = {limit.value:g}")
