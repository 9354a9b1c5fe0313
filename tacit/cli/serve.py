"""`tacit serve`: train a recipe on real devices."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.markup import escape

from tacit.cli.fleet import without_extra
from tacit.cli.options import Changes, Json
from tacit.cli.results import emit
from tacit.cli.results.runs import ServeResult
from tacit.cli.summary import owners_sentence, print_summary, privacy_sentence
from tacit.errors import FleetError
from tacit.privacy.accounting.budget_filter import require_limit
from tacit.recipe.reading import find_recipe
from tacit.recipe.training import load_recipe
from tacit.runs.cost import HAPPENED, owners_figures
from tacit.runs.finding import next_folder
from tacit.runs.folder import RunFolder


def serve(
    recipe: Annotated[
        str | None,
        typer.Argument(help="A recipe with a [fleet] section: a file, or the name of one that comes with Tacit."),
    ] = None,
    changes: Changes = None,
    out: Annotated[
        Path | None,
        typer.Option(help="The server's folder; the run is in its subfolder run.", show_default="runs/NAME-1, -2, ..."),
    ] = None,
    role: Annotated[str, typer.Option(help="all, selector, aggregator or coordinator.")] = "all",
    database: Annotated[
        str | None,
        typer.Option(
            help="postgresql://…, shared by several processes; by default a SQLite file in the server's folder."
        ),
    ] = None,
    host: Annotated[str, typer.Option(help="Address to listen on.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(help="Port to listen on; 0 takes a free one.", min=0, max=65535)] = 8443,
    address: Annotated[
        str | None,
        typer.Option(
            help="Address that devices use, if it differs: the host they enrolled with, or a subdomain of it."
        ),
    ] = None,
    certificate: Annotated[
        Path | None, typer.Option(help="TLS certificate; by default one for this machine alone is made.")
    ] = None,
    key: Annotated[Path | None, typer.Option(help="The certificate's private key.")] = None,
    http: Annotated[bool, typer.Option("--http", help="No TLS; allowed on a loopback address only.")] = False,
    secret: Annotated[
        Path | None, typer.Option(help="File with the secret that the server's processes share, 64 hexadecimal digits.")
    ] = None,
    admin_token: Annotated[
        Path | None, typer.Option(help="File with the administrator's token, 64 hexadecimal digits.")
    ] = None,
    odometer: Annotated[
        Path | None,
        typer.Option(
            help="Folder that lists every run on these devices (tacit account odometer); by default the server's."
        ),
    ] = None,
    budget_epsilon: Annotated[
        float | None, typer.Option(help="The most epsilon that all runs on these devices may spend together.")
    ] = None,
    budget_delta: Annotated[float | None, typer.Option(help="The delta of that epsilon.")] = None,
    budget_rho: Annotated[float | None, typer.Option(help="Or the most rho that all of them may spend.")] = None,
    as_json: Json = False,
) -> None:
    """Train a recipe on devices: select them for rounds, add up their updates, train the model, keep the ledger.

    Without --role everything runs in this process, with a database in the server's folder. The same command continues a run.

    Example: tacit serve fleet --out server
    """
    try:
        from tacit.fleet.logs import configure_logs
        from tacit.fleet.server.serving import ROLES, ServeSettings
        from tacit.fleet.server.serving import serve as serve_devices
    except ImportError as error:
        raise without_extra("tacit serve", error.name) from None
    if role not in ROLES:
        raise FleetError(f"Expected --role {', '.join(ROLES)}, got {role!r}.")
    if recipe is None and role in ("all", "coordinator"):
        raise FleetError(f"--role {role} needs a recipe.", hint="For example: tacit serve fleet")
    followed = None if recipe is None else load_recipe(find_recipe(recipe), changes or ())
    folder = out or next_folder("fleet" if followed is None else followed.name)
    settings = ServeSettings(
        out=folder,
        recipe=followed,
        role=role,  # type: ignore[arg-type]
        database=database,
        host=host,
        port=port,
        http=http,
        certificate=certificate,
        key=key,
        address=address,
        secret=secret,
        admin_token=admin_token,
        odometer=odometer,
        budget=None
        if (budget_epsilon, budget_delta, budget_rho) == (None, None, None)
        else require_limit(budget_epsilon, budget_delta, budget_rho),
    )
    settings.check()
    configure_logs()
    summary = serve_devices(settings)
    if summary is not None:
        where = folder / "run"
        happened = owners_figures(RunFolder.open(where))
        owner = {} if happened is None else {HAPPENED: happened}
        if as_json:
            emit(ServeResult, {"finished": True, "run": str(where), **summary, **owner})
        elif "evaluated" in summary:
            metrics = summary["metrics"]
            console = Console(highlight=False, soft_wrap=True)
            console.print(
                f"Next words predicted correctly on devices: {metrics['top1']:.1%}, loss {metrics['loss']:.2f} nats."
            )
            console.print(privacy_sentence(summary["privacy"], measured_within=True))
            if happened is not None:
                console.print(f"For the owner, {escape(owners_sentence(happened))}.")
        else:
            print_summary(Console(), where, summary, happened=happened)
    elif as_json:
        emit(ServeResult, {"finished": False, "run": None})
