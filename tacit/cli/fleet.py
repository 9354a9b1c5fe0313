"""`tacit fleet`: administer a running server: enrolment tokens, status, devices by number, the rounds' goal and deadline."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

from tacit.cli.commands import Commands
from tacit.cli.options import Certificate, Json, Server
from tacit.cli.results import emit
from tacit.cli.results.fleet import (
    DevicesResult,
    QuarantineResult,
    RevokeResult,
    RoundResult,
    StatusResult,
    TokenResult,
)
from tacit.errors import FleetError

app = Commands(
    help="Administer a running fleet: enrolment tokens, status, devices, rounds, budget.", no_args_is_help=True
)


class RoundAction(StrEnum):
    """What an operator can do with the rounds of a run."""

    SKIP = "skip"
    PAUSE = "pause"
    RESUME = "resume"
    ADJUST = "adjust"


_DONE = {
    RoundAction.SKIP: "The try under way is given up; the round is opened again.",
    RoundAction.PAUSE: "Paused: no round is opened until tacit fleet round resume.",
    RoundAction.RESUME: "Resumed.",
    RoundAction.ADJUST: "Adjusted from the next try on; the ledger will say so.",
}
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
    made = ask("POST", "/v1/admin/tokens", server, admin_token, ca, {"uses": uses, "hours": hours})
    if as_json:
        emit(TokenResult, {"token": made["token"], "uses": uses, "hours": hours})
        return
    typer.echo(made["token"])


@app.command()
def status(
    admin_token: AdminToken, server: Server = DEFAULT_SERVER, ca: Certificate = None, as_json: Json = False
) -> None:
    """Show the number of devices and processes, and the rounds of each task."""
    found = ask("GET", "/v1/admin/status", server, admin_token, ca)
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
        state = ("paused" if task["paused"] else "active") if task["active"] else "ended"
        counts = (str(rounds.get(which, 0)) for which in ("committed", "abandoned"))
        table.add_row(task["name"], state, *counts, _under_way(task["under_way"]))
    Console(width=120, highlight=False, markup=False).print(table)
    for task in found["tasks"]:
        if (opened := task["under_way"]) is not None and task["could_come"] < opened["goal"]:
            typer.echo(
                f"{task['name']}: round {opened['round']} waits for {opened['goal']} devices, but only "
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
    ask("POST", f"/v1/admin/devices/{device}/revoke", server, admin_token, ca)
    if as_json:
        emit(RevokeResult, {"device": device, "revoked": True})
        return
    typer.echo("Revoked.")


@app.command()
def devices(
    admin_token: AdminToken,
    server: Server = DEFAULT_SERVER,
    ca: Certificate = None,
    state: Annotated[
        str | None,
        typer.Option(help="Only devices in this state: ready, working, resting, quarantined, left, revoked."),
    ] = None,
    as_json: Json = False,
) -> None:
    """List the devices by number: state, failures in a row, places held, rounds taken part in, and the last word of each."""
    found: list[dict[str, Any]] = []
    more, after = True, -1
    while more:
        page = ask("GET", f"/v1/admin/devices?after={after}", server, admin_token, ca)
        found += page["devices"]
        more, after = page["more"], found[-1]["device"] if found else -1
    shown = [each for each in found if state in (None, each["state"])]
    if as_json:
        emit(DevicesResult, {"devices": shown})
        return
    if not shown:
        typer.echo("No devices." if state is None else f"No devices are {state}.")
        return
    table = Table("device", "state", "failures", "places", "rounds", "seen", "last word", box=None)
    for each in shown:
        seen = "never" if each["seen_s"] is None else f"{each['seen_s']:.0f} s ago"
        counts = (str(each[which]) for which in ("failures", "places", "participations"))
        table.add_row(str(each["device"]), each["state"], *counts, seen, each["last_word"] or "")
    Console(width=120, highlight=False, markup=False).print(table)


@app.command()
def quarantine(
    device: Annotated[int, typer.Argument(help="The device's number.", min=0)],
    admin_token: AdminToken,
    server: Server = DEFAULT_SERVER,
    ca: Certificate = None,
    release: Annotated[bool, typer.Option("--release", help="End its quarantine, or its rest, instead.")] = False,
    as_json: Json = False,
) -> None:
    """Give a device no further places. It stays enrolled, and what it took part in stays counted."""
    ask("POST", f"/v1/admin/devices/{device}/{'release' if release else 'quarantine'}", server, admin_token, ca)
    if as_json:
        emit(QuarantineResult, {"device": device, "quarantined": not release})
        return
    typer.echo("Released." if release else "Quarantined.")


@app.command("round")
def round_(
    action: Annotated[RoundAction, typer.Argument(help="What to do with the rounds of the run.")],
    admin_token: AdminToken,
    server: Server = DEFAULT_SERVER,
    ca: Certificate = None,
    task: Annotated[str | None, typer.Option(help="The run's name, if several are under way.")] = None,
    goal: Annotated[int | None, typer.Option(help="With adjust: reports that make a round.", min=1)] = None,
    deadline: Annotated[float | None, typer.Option(help="With adjust: seconds that a round waits.", min=1)] = None,
    as_json: Json = False,
) -> None:
    """Skip the try under way, pause or resume the rounds, or adjust their goal and deadline while the run goes on.

    The ledger records an adjusted goal or deadline. One that would break a promise of the plan is refused.

    Example: tacit fleet round adjust --deadline 7200 --admin-token server/admin-token --ca server/certificate.pem
    """
    wanted = {"action": action.value, "task": task, "goal": goal, "deadline_s": deadline}
    ask("POST", "/v1/admin/round", server, admin_token, ca, wanted)
    if as_json:
        emit(RoundResult, {"action": action.value})
        return
    typer.echo(_DONE[action])


def without_extra(command: str, package: str | None) -> FleetError:
    """The error of a command whose extra is not installed."""
    sentence = f"{command} needs the extra tacit[fleet]: {package} is not installed."
    return FleetError(sentence, hint="pip install 'tacit[fleet]'")


def _under_way(opened: dict[str, Any] | None) -> str:
    if opened is None:
        return "no round open"
    reports = f"{opened['reported']} of {opened['goal']} reports, {opened['selected']} selected"
    return f"round {opened['round']}: {reports}, {opened['seconds_left']:.0f} s left"


def ask(
    method: str, path: str, server: str, admin_token: Path, ca: Path | None, body: dict[str, Any] | None = None
) -> dict[str, Any]:
    """The server's answer; FleetError if there is none or the server refuses."""
    try:
        from tacit.fleet.administrator import Access
        from tacit.fleet.administrator import ask as ask_server
    except ImportError as error:
        raise without_extra("tacit fleet", error.name) from None
    return ask_server(method, path, Access(server, admin_token, ca), body)
