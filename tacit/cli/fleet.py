"""`tacit fleet`: administer a running server: enrolment tokens, status, revoking devices."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

from tacit.cli.commands import Commands
from tacit.cli.options import Certificate, Json, Server
from tacit.cli.results import emit
from tacit.cli.results.fleet import RevokeResult, StatusResult, TokenResult
from tacit.errors import FleetError

app = Commands(help="Administer a running fleet: enrolment tokens, status, revoking devices.", no_args_is_help=True)
AdminToken = Annotated[
    Path, typer.Option(help="File with the administrator's token: admin-token in the server's folder.")
]
DEFAULT_SERVER = "https://localhost:8443"


@app.command()
def token(
    admin_token: AdminToken,
    server: Server = DEFAULT_SERVER,
    ca: Certificate = None,
    uses: Annotated[int, typer.Option(help="How many devices may enrol with it.", min=1)] = 1,
    hours: Annotated[float, typer.Option(help="How long it is valid.", min=0.01)] = 24.0,
    as_json: Json = False,
) -> None:
    """Make an enrolment token and print it; it cannot be shown again.

    Example: tacit fleet token --admin-token runs/fleet-1/admin-token --ca runs/fleet-1/certificate.pem --uses 8
    """
    made = _ask("POST", "/v1/admin/tokens", server, admin_token, ca, {"uses": uses, "hours": hours})
    if as_json:
        emit(TokenResult, {"token": made["token"], "uses": uses, "hours": hours})
        return
    typer.echo(made["token"])


@app.command()
def status(
    admin_token: AdminToken, server: Server = DEFAULT_SERVER, ca: Certificate = None, as_json: Json = False
) -> None:
    """Show the number of devices and processes, and the rounds of each task."""
    found = _ask("GET", "/v1/admin/status", server, admin_token, ca)
    if as_json:
        emit(StatusResult, found)
        return
    running = (
        ", ".join(f"{count} × {role}" for role, count in sorted(found["processes"].items())) or "none seen recently"
    )
    typer.echo(f"Devices enrolled: {found['devices']}. Processes: {running}.")
    if not found["tasks"]:
        typer.echo("No task yet. tacit serve RECIPE starts one.")
        return
    table = Table("task", "state", "committed", "abandoned", "under way", box=None)
    for task in found["tasks"]:
        rounds = task["rounds"]
        state = "active" if task["active"] else "ended"
        counts = (str(rounds.get(which, 0)) for which in ("committed", "abandoned"))
        table.add_row(task["name"], state, *counts, _under_way(task["under_way"]))
    Console(width=120, highlight=False, markup=False).print(table)
    for task in found["tasks"]:
        if (opened := task["under_way"]) is not None and task["could_come"] < opened["goal"]:
            typer.echo(
                f"{task['name']}: round {opened['round']} waits for {opened['goal']} devices, but only about "
                f"{task['could_come']} may take part: the others took part too recently, or as often as they may. "
                "It continues when more devices enrol."
            )
        if task["last_abandoned"] is not None:
            typer.echo(f"{task['name']}: the last round was abandoned because: {task['last_abandoned']}")


@app.command()
def revoke(
    device: Annotated[int, typer.Argument(help="The device's number.", min=0)],
    admin_token: AdminToken,
    server: Server = DEFAULT_SERVER,
    ca: Certificate = None,
    as_json: Json = False,
) -> None:
    """Refuse every further request of a device. Its past participation stays counted."""
    _ask("POST", f"/v1/admin/devices/{device}/revoke", server, admin_token, ca)
    if as_json:
        emit(RevokeResult, {"device": device, "revoked": True})
        return
    typer.echo("Revoked.")


def without_extra(command: str, package: str | None) -> FleetError:
    """The error of a command whose extra is not installed."""
    sentence = f"{command} needs the extra tacit[fleet]: {package} is not installed."
    return FleetError(sentence, hint="pip install 'tacit[fleet]'")


def _under_way(opened: dict[str, Any] | None) -> str:
    if opened is None:
        return "no round open"
    reports = f"{opened['reported']} of {opened['goal']} reports, {opened['selected']} selected"
    return f"round {opened['round']}: {reports}, {opened['seconds_left']:.0f} s left"


def _ask(
    method: str, path: str, server: str, admin_token: Path, ca: Path | None, body: dict[str, Any] | None = None
) -> dict[str, Any]:
    """The server's answer; FleetError if there is none or the server refuses."""
    try:
        import httpx
    except ImportError:
        raise without_extra("tacit fleet", "httpx") from None
    import ssl

    from tacit.fleet.device.connection import require_protected

    require_protected(server)  # the administrator's token is sent there
    try:
        secret = admin_token.read_text(encoding="ascii").strip()
    except (OSError, UnicodeDecodeError):
        raise FleetError(f"Cannot read the administrator's token in {admin_token}.") from None
    try:
        trusted = ssl.create_default_context(cafile=ca)
    except (OSError, ssl.SSLError):
        raise FleetError(f"Expected certificates in PEM format in {ca}: TLS cannot load it.") from None
    try:
        with httpx.Client(verify=trusted, timeout=30, trust_env=False) as client:
            headers = {"authorization": f"Bearer {secret}"}
            answer = client.request(method, server.rstrip("/") + path, json=body, headers=headers)
    except (httpx.HTTPError, httpx.InvalidURL):
        raise FleetError(
            f"No answer from {server}.",
            hint="Check that tacit serve is running there, and give its certificate with --ca.",
        ) from None
    if answer.status_code == 204:
        return {}
    try:
        content = answer.json()
        if answer.status_code == 200:
            return dict(content)
        sentence = str(content["detail"])
    except (ValueError, KeyError, TypeError):
        raise FleetError(f"The server at {server} is not a Tacit server.") from None
    raise FleetError(f"{server} refused the request: {sentence}")
