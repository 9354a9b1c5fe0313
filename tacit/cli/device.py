"""`tacit device`: run a device of a fleet on this machine."""

from __future__ import annotations

import signal
import time
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console

from tacit.cli.commands import Commands
from tacit.cli.fleet import without_extra
from tacit.cli.options import Certificate, Json, JsonLines, Server
from tacit.cli.results import emit
from tacit.cli.results.fleet import DeviceEvent, EnrolResult
from tacit.cli.running import STOPPED

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
    as_json: Json = False,
) -> None:
    """Enrol this machine: make a key, copy the sentences, and get a device number from the server.

    Example: tacit device enrol --server https://localhost:8443 --token … --data chat.txt --home phone --ca certificate.pem
    """
    _require_extra()
    from tacit.fleet.device.enrolment import enrol as enrol_device

    config = enrol_device(home, server=server, token=token, data=data, ca=ca)
    if as_json:
        emit(EnrolResult, {"home": str(home), "server": config.server, "device": config.device})
        return
    _print(Console(), f"Enrolled. Take part with: tacit device run --home {home}")


@app.command()
def run(
    home: Annotated[Path, typer.Option(help="The device's folder.")],
    once: Annotated[bool, typer.Option("--once", help="Check in once, take part if selected, and end.")] = False,
    as_json: JsonLines = False,
) -> None:
    """Check in, take part in rounds when selected, wait, and repeat until stopped.

    After a kill the device sends the same report again or deletes it. It never takes part twice in a round.
    """
    _require_extra()
    from tacit.fleet.device.agent import Agent
    from tacit.fleet.device.connection import Connection
    from tacit.fleet.device.home import Home

    signal.signal(signal.SIGTERM, _interrupt)
    console = Console()

    def tell(sentence: str) -> None:
        if as_json:
            emit(DeviceEvent, {"event": sentence})
        else:
            _print(console, sentence)

    with Home.open(home) as opened:
        connection = Connection(opened)
        agent = Agent(opened, connection, on_event=tell)
        try:
            while True:
                wait = agent.step()
                if once:
                    return
                time.sleep(wait)
        except KeyboardInterrupt:
            raise typer.Exit(STOPPED) from None
        finally:
            connection.close()


def _print(console: Console, sentence: str) -> None:
    console.print(sentence, markup=False, highlight=False, soft_wrap=True)


def _interrupt(number: int, frame: Any) -> None:
    raise KeyboardInterrupt


def _require_extra() -> None:
    try:
        import httpx  # noqa: F401
    except ImportError:
        raise without_extra("tacit device", "httpx") from None
