"""`tacit report`: a run as one page; `tacit guarantee`: its guarantee alone."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from tacit.api.run import open_run
from tacit.cli.options import Json, RunArgument
from tacit.cli.results import emit
from tacit.cli.results.runs import GuaranteeResult, ReportResult
from tacit.errors import RunError
from tacit.privacy.statement.wording import plain
from tacit.runs.report.guarantee_pdf import write_guarantee_pdf


def report(
    run: RunArgument,
    out: Annotated[
        Path | None,
        typer.Option(help="The page to write.", show_default="RUN/private/report.html; with --share RUN/report.html"),
    ] = None,
    share: Annotated[
        bool, typer.Option("--share", help="Leave out everything that only the run's owner may know.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Write a run as one HTML page with curves, the guarantee and the recipe. The page needs no network and has no script.

    Without --share it is the owner's copy: it also shows participation and diagnostics, and other people cannot read the file.

    Example: tacit report runs/demo-1 --share --out demo.html
    """
    opened = open_run(run)
    path = opened.report(out, share=share)
    if as_json:
        emit(ReportResult, {"run": str(opened.path), "report": str(path), "shared": share})
        return
    whose = (
        "anybody may see it"
        if share
        else "the owner's copy, which must not be passed on (--share writes one that may be)"
    )
    typer.echo(f"Wrote {path}: {whose}.")


def guarantee(
    run: RunArgument,
    html: Annotated[bool, typer.Option("--html", help="Print a fragment of HTML.")] = False,
    paragraph: Annotated[
        bool, typer.Option("--paragraph", help="Print one paragraph in plain words, and nothing else.")
    ] = False,
    pdf: Annotated[Path | None, typer.Option("--pdf", help="Write the statement as a PDF to this file.")] = None,
    as_json: Json = False,
) -> None:
    """Print the guarantee of a run, as Markdown: what is claimed, for whom, what it rests on, and how to check it.

    The command reads nothing in the run's private folder, so every reader sees the same numbers. A reader who can open the
    store's list of runs on the same users also sees how many others there are.

    Example: tacit guarantee runs/demo-1 > guarantee.md
    """
    asked = {"--html": html, "--paragraph": paragraph, "--pdf": pdf is not None, "--json": as_json}
    if len(given := [name for name, is_given in asked.items() if is_given]) > 1:
        raise RunError(f"Expected one form of the guarantee, got {' and '.join(given)}.")
    stated = open_run(run).guarantee()
    if pdf is not None:
        write_guarantee_pdf(stated, pdf)
        typer.echo(f"Wrote {pdf}: {stated.headline}")
    elif paragraph:
        typer.echo(plain(stated.paragraph))
    elif as_json:
        emit(GuaranteeResult, stated.as_json())
    elif html:
        typer.echo(stated.as_html())
    else:
        typer.echo(stated.as_markdown(), nl=False)
