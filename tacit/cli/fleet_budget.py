"""`tacit fleet budget`: how much privacy a fleet's people may lose in all, which every run on their devices draws from."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from tacit.cli.commands import Commands
from tacit.cli.fleet import DEFAULT_SERVER, AdminToken, ask
from tacit.cli.fleet_operators import app
from tacit.cli.options import Certificate, Json, Server
from tacit.cli.results import emit
from tacit.cli.results.budget import FleetBudgetResult

__all__ = ["app"]

_PATH = "/v1/admin/budget"
budget = Commands(
    help="Set how much privacy a fleet's people may lose in all. Runs that do not fit are refused.",
    no_args_is_help=True,
)
app.add_typer(budget, name="budget")


@budget.command("set")
def set_budget(
    admin_token: AdminToken,
    server: Server = DEFAULT_SERVER,
    ca: Certificate = None,
    epsilon: Annotated[float | None, typer.Option(help="The most epsilon that may be spent.")] = None,
    delta: Annotated[float | None, typer.Option(help="The delta of that epsilon. It cannot be changed later.")] = None,
    rho: Annotated[
        float | None, typer.Option(help="Or the most rho of zero-concentrated differential privacy.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Set the budget of a fleet's devices, lower it, or raise it.

    Example: tacit fleet budget set --epsilon 4 --delta 1e-6 --admin-token server/admin-token --ca server/certificate.pem
    """
    wanted = {"epsilon": epsilon, "delta": delta, "rho": rho}
    given = {name: value for name, value in wanted.items() if value is not None}
    _tell(ask("POST", _PATH, server, admin_token, ca, given), as_json)


@budget.command()
def show(
    admin_token: AdminToken, server: Server = DEFAULT_SERVER, ca: Certificate = None, as_json: Json = False
) -> None:
    """Show the budget of a fleet's devices: what is spent, what is left, and which runs have not ended."""
    _tell(ask("GET", _PATH, server, admin_token, ca), as_json)


def _tell(found: dict[str, Any], as_json: bool) -> None:
    if as_json:
        emit(FleetBudgetResult, found)
        return
    typer.echo(found["sentence"])
    for run in found["open"]:
        typer.echo(f"  open: {run['run']}, reserved {run['reserved']}")
