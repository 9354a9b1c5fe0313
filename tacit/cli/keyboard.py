"""`tacit keyboard`: type on the models of runs, in the browser."""

from __future__ import annotations

import sys
import webbrowser
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.text import Text

from tacit.cli.options import Json
from tacit.cli.results import emit
from tacit.cli.results.keyboard import KeyboardResult
from tacit.errors import RunError
from tacit.runs.finding import by_name
from tacit.runs.folder import RunFolder


def keyboard(
    runs: Annotated[
        list[Path], typer.Argument(help="One to four runs: their folders, or their names in runs/.", metavar="RUN...")
    ],
    port: Annotated[
        int, typer.Option("--port", help="Port to listen on; 0 takes a free one.", min=0, max=65535)
    ] = 8081,
    opens: Annotated[bool, typer.Option("--browser/--no-browser", help="Open the page in a browser.")] = True,
    as_json: Json = False,
) -> None:
    """Type on the models of runs with a phone's keyboard in the browser: suggestions, completions, corrections.

    The models run in the page. What you type stays there: once the page is open it needs no network, and this command may end.

    Example: tacit keyboard runs/demo-1
    """
    try:
        from tacit.web.keyboard.app import keyboard_app
        from tacit.web.keyboard.routes import MOST_RUNS
        from tacit.web.serving import serve
        from tacit.web.settings import BoardSettings
    except ImportError as error:
        sentence = f"tacit keyboard needs the extra tacit[web]: {error.name} is not installed."
        raise RunError(sentence, hint="pip install 'tacit[web]'") from None
    if len(runs) > MOST_RUNS:
        raise RunError(f"Expected at most {MOST_RUNS} runs side by side, got {len(runs)}.")
    folders = [RunFolder.open(by_name(run)).path for run in runs]

    def ready(address: str, once: str) -> None:
        if as_json:
            emit(KeyboardResult, {"address": address, "runs": [str(folder) for folder in folders]})
            sys.stdout.flush()
        Console(stderr=True).print(
            Text.assemble("The keyboard is at ", (address, "bold"), " (Ctrl-C ends it)."), soft_wrap=True
        )
        if opens:
            webbrowser.open(once)

    serve(BoardSettings(port=port), lambda settings: keyboard_app(settings, folders), ready=ready)
