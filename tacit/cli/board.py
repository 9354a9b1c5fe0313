"""`tacit board`: runs in the browser."""

from __future__ import annotations

import webbrowser
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.text import Text

from tacit.cli.fleet import without_extra
from tacit.cli.options import Certificate, Json
from tacit.cli.results import emit
from tacit.cli.results.runs import BoardResult
from tacit.errors import RunError
from tacit.runs.finding import RUNS


def board(
    folders: Annotated[
        list[Path] | None, typer.Argument(help="Folders that hold runs.", show_default=str(RUNS))
    ] = None,
    host: Annotated[str, typer.Option("--host", help="Address to listen on.")] = "127.0.0.1",
    port: Annotated[
        int, typer.Option("--port", help="Port to listen on; 0 takes a free one.", min=0, max=65535)
    ] = 8080,
    owner: Annotated[
        bool, typer.Option("--owner", help="Also show what only the runs' owner may see, such as the clipped share.")
    ] = False,
    control: Annotated[
        bool, typer.Option("--control", help="Let the pages stop and resume runs on this machine.")
    ] = False,
    fleet: Annotated[
        str | None, typer.Option("--fleet", help="Also show the running server of devices at this address, https://…")
    ] = None,
    admin_token: Annotated[
        Path | None, typer.Option("--admin-token", help="File with the token of that server's administrator.")
    ] = None,
    ca: Certificate = None,
    opens: Annotated[bool, typer.Option("--open/--no-open", help="Open the page in a browser.")] = True,
    as_json: Json = False,
) -> None:
    """Show runs in the browser: a table that is live, curves, guarantees, ledgers and plans.

    The board reads runs and changes nothing, unless --control is given. With --host, --owner, --control or --fleet the
    address has a random token in it, and every request needs it.

    Example: tacit board --port 8080
    """
    try:
        from tacit.web.app import create_app
        from tacit.web.serving import serve
        from tacit.web.settings import BoardSettings
    except ImportError as error:
        sentence = f"tacit board needs the extra tacit[web]: {error.name} is not installed."
        raise RunError(sentence, hint="pip install 'tacit[web]'") from None
    places = tuple(folders or [RUNS])
    if missing := [place for place in places if not place.is_dir() and place != RUNS]:
        raise RunError(f"Expected a folder of runs, got {missing[0]}, which is not there.")

    access = None
    if fleet is not None:
        if admin_token is None:
            raise RunError("--fleet needs --admin-token, the file admin-token in the server's folder.")
        try:
            from tacit.fleet.administrator import Access
        except ImportError as error:
            raise without_extra("tacit board --fleet", error.name) from None
        access = Access(fleet, admin_token, ca)

    def ready(address: str, once: str) -> None:
        if as_json:
            emit(BoardResult, {"address": address, "folders": [str(place) for place in places]})
        Console(stderr=True).print(
            Text.assemble("The board is at ", (address, "bold"), " (Ctrl-C ends it)."), soft_wrap=True
        )
        if opens:
            webbrowser.open(once)

    serve(BoardSettings(places, host, port, owner, control, access), create_app, ready=ready)
