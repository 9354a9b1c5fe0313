"""`tacit device`: run a device of a fleet on this machine."""

from __future__ import annotations

import math
import signal
import time
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console

from tacit.cli.commands import Commands
from tacit.cli.fleet import without_extra
from tacit.cli.options import Certificate, Json, JsonLines, Server
from tacit.cli.results import emit
from tacit.cli.results.fleet import DeviceEvent, DeviceStatusResult, EnrolResult, PolicyResult, SignResult
from tacit.cli.running import STOPPED
from tacit.errors import FleetError

# A device that waits for longer does not keep the process of its plan.
KEEP_CAGES_S = 600.0


class SignedKind(StrEnum):
    """Files that a device takes from somebody whose key it knows."""

    POLICY = "policy"
    PLANS = "plans"


HomeFolder = Annotated[Path, typer.Option("--home", help="The device's folder.")]

app = Commands(help="Take part in a fleet's training with text that stays on this machine.", no_args_is_help=True)


@app.command()
def enrol(
    server: Server,
    token: Annotated[
        str, typer.Option(help="An enrolment token from the server's administrator.", envvar="TACIT_TOKEN")
    ],
    data: Annotated[Path, typer.Option(help='Sentences: a text file with one a line, or a .jsonl file with "text".')],
    home: Annotated[Path, typer.Option(help="A new folder for the device's key, text and memory.")],
    ca: Certificate = None,
    policy: Annotated[
        Path | None,
        typer.Option(help="The owner's policy, signed by the application.", show_default="a built-in one"),
    ] = None,
    plans: Annotated[
        Path | None, typer.Option(help="The signed registry of plans, if the policy names its key.")
    ] = None,
    application: Annotated[
        str | None, typer.Option(help="The application's public key, which tacit device sign prints.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Enrol this machine: make a key, copy the sentences, and get a device number from the server.

    Example: tacit device enrol --server https://localhost:8443 --token … --data chat.txt --home phone --ca certificate.pem
    """
    require_extra()
    from tacit.fleet.device.enrolment import enrol as enrol_device

    config = enrol_device(
        home, server=server, token=token, data=data, ca=ca, policy=policy, plans=plans, application=application
    )
    if as_json:
        emit(EnrolResult, {"home": str(home), "server": config.server, "device": config.device})
        return
    say(Console(), f"Enrolled. Take part with: tacit device run --home {home}")


@app.command()
def run(
    home: HomeFolder,
    once: Annotated[bool, typer.Option("--once", help="Check in once, take part if selected, and end.")] = False,
    as_json: JsonLines = False,
) -> None:
    """Check in, take part in rounds when selected, wait, and repeat until stopped.

    After a kill the device sends the same report again or deletes it. It never takes part twice in a round.
    """
    require_extra()
    from tacit.fleet.device.agent import Agent
    from tacit.fleet.device.cage import close_all
    from tacit.fleet.device.connection import Connection
    from tacit.fleet.device.home import Home

    signal.signal(signal.SIGTERM, _interrupt)
    console = Console()

    def tell(sentence: str) -> None:
        if as_json:
            emit(DeviceEvent, {"event": sentence})
        else:
            say(console, sentence)

    with Home.open(home) as opened:
        connection = Connection(opened)
        agent = Agent(opened, connection, on_event=tell)
        try:
            while True:
                wait = agent.step()
                if once:
                    return
                if wait > KEEP_CAGES_S:
                    close_all()
                time.sleep(wait)
        except KeyboardInterrupt:
            raise typer.Exit(STOPPED) from None
        finally:
            connection.close()


@app.command()
def status(
    home: HomeFolder,
    as_json: Json = False,
) -> None:
    """Show the policy in force, what the server had of this device, what was refused and why, and what plans run in."""
    require_extra()
    from tacit.fleet.device.home import Home
    from tacit.fleet.device.status import status_of

    with Home.open(home, to_read=True) as opened:
        found = status_of(opened)
    if as_json:
        refusals = [{"at": each.at, "sentence": each.sentence} for each in found.refusals]
        emit(
            DeviceStatusResult,
            {
                "policy": found.policy.model_dump(mode="json"),
                "signed": found.signed,
                "rounds": found.rounds,
                "epsilon": found.epsilon if math.isfinite(found.epsilon) else None,
                "unproven": found.unproven,
                "refusals": refusals,
                "cage": found.cage,
            },
        )
        return
    for sentence in found.sentences():
        say(Console(), sentence)


@app.command()
def policy(
    as_json: Json = False,
) -> None:
    """Print the built-in policy of a device, as a file to change, sign and ship.

    Example: tacit device policy > policy.json
    """
    require_extra()
    from tacit.fleet.device.policy import OwnerPolicy

    found = OwnerPolicy()
    if as_json:
        emit(PolicyResult, found.model_dump(mode="json"))
        return
    typer.echo(found.model_dump_json(indent=2))


@app.command()
def sign(
    file: Annotated[Path, typer.Argument(help="A policy, or a registry of plans.")],
    key: Annotated[Path, typer.Option(help="The private key's file; it is made if there is none.")],
    kind: Annotated[SignedKind, typer.Option("--as", help="What the file is.")] = SignedKind.POLICY,
    as_json: Json = False,
) -> None:
    """Sign a policy with the application's key, or a registry of plans with the registry's, and print the public key."""
    require_extra()
    from tacit.fleet.device.plan_registry import PLANS_LABEL, read_registry
    from tacit.fleet.device.policy import POLICY_LABEL, read_policy
    from tacit.fleet.device.signed_files import sign_file, signature_path, signing_key
    from tacit.secagg.keys import identity_public

    if not file.is_file():
        raise FleetError(f"Expected a file to sign, got {file}, which does not exist.")
    private = signing_key(key)
    public = identity_public(private).hex()
    sign_file(file, private, POLICY_LABEL if kind is SignedKind.POLICY else PLANS_LABEL)
    try:
        read_policy(file, public) if kind is SignedKind.POLICY else read_registry(file, public)
    except FleetError:
        signature_path(file).unlink()  # what no device would read is not signed
        raise
    if as_json:
        emit(SignResult, {"signature": str(signature_path(file)), "public_key": public})
        return
    typer.echo(public)


def say(console: Console, sentence: str) -> None:
    """Print a sentence as it is."""
    console.print(sentence, markup=False, highlight=False, soft_wrap=True)


def _interrupt(number: int, frame: Any) -> None:
    raise KeyboardInterrupt


def require_extra() -> None:
    """FleetError if tacit[fleet] is not installed."""
    try:
        import httpx  # noqa: F401
    except ImportError:
        raise without_extra("tacit device", "httpx") from None
