"""Options and arguments that several commands have, so that they have one name and one help text."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

Json = Annotated[bool, typer.Option("--json", help="Print one JSON object and nothing else on stdout.")]
JsonLines = Annotated[bool, typer.Option("--json", help="Print JSON objects, one a line, and nothing else on stdout.")]
RunArgument = Annotated[Path, typer.Argument(help="A run's folder, or its name in runs/.")]
Changes = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="SECTION.KEY=VALUE", help="Change a value of the recipe; may be repeated."),
]
NewRun = Annotated[
    Path | None, typer.Option("--out", help="The run folder to make.", show_default="runs/NAME-1, -2, ...")
]
Suffixes = Annotated[
    int | None,
    typer.Option(
        "--suffixes",
        min=1,
        help="How many random endings to compare with.",
        show_default="2,000,000; 20,000 on a CPU",
    ),
]
Delta = Annotated[float, typer.Option("--delta", help="The delta of (epsilon, delta), between 0 and 1.")]
Server = Annotated[str, typer.Option("--server", help="The server's address, https://…")]
Certificate = Annotated[
    Path | None, typer.Option("--ca", help="Certificate to trust, if the server has no public one.")
]
