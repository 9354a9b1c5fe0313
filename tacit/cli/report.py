"""`tacit report`: a run as one page; `tacit guarantee`: its guarantee alone."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Literal

import typer

from tacit.api.run import open_run

Run = Annotated[Path, typer.Argument(help="A run's folder, or its name in runs/.")]


def report(
    run: Run,
    out: Annotated[
        Path | None,
        typer.Option(help="The page to write.", show_default="RUN/private/report.html; with --share RUN/report.html"),
    ] = None,
    share: Annotated[
        bool, typer.Option("--share", help="Leave out everything that only the run's owner may know.")
    ] = False,
) -> None:
    """Write a run as one HTML page with curves, the guarantee and the recipe. The page needs no network and has no script.

    Without --share it is the owner's copy: it also shows participation and diagnostics, and other people cannot read the file.

    Example: tacit report runs/demo-1 --share --out demo.html
    """
    path = open_run(run).report(out, share=share)
    whose = (
        "anybody may see it"
        if share
        else "the owner's copy, which must not be passed on (--share writes one that may be)"
    )
    typer.echo(f"Wrote {path}: {whose}.")


def guarantee(
    run: Run,
    form: Annotated[
        Literal["markdown", "json", "html"], typer.Option("--format", help="How to write it.")
    ] = "markdown",
) -> None:
    """Print the guarantee of a run: what is claimed, for whom, what it rests on, and how to check it.

    The command reads nothing in the run's private folder, so every reader sees the same numbers. A reader who can open the
    store's list of runs on the same users also sees how many others there are.

    Example: tacit guarantee runs/demo-1 --format json
    """
    stated = open_run(run).guarantee()
    match form:
        case "json":
            typer.echo(json.dumps(stated.as_json(), allow_nan=False))
        case "html":
            typer.echo(stated.as_html())
        case "markdown":
            typer.echo(stated.as_markdown(), nl=False)
