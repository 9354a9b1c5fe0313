"""What the commands that read files of users' data share: options, and a progress bar."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

from tacit.data import build
from tacit.data.formats import FORMATS

FormatOption = Annotated[
    str | None,
    typer.Option("--format", help=f"The format of the files, if their names do not show it: {', '.join(FORMATS)}."),
]
UserOption = Annotated[str | None, typer.Option("--user", help="The column with the user's id.")]
TextOption = Annotated[
    str | None,
    typer.Option("--text", help="The column with the text, a string or a list of strings (each an example)."),
]


@contextmanager
def progress_bar() -> Iterator[build.Progress]:
    """A progress bar on stderr, if stderr is a terminal."""
    console = Console(stderr=True)
    columns = (
        SpinnerColumn(),
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
    )
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as bars:
        tasks: dict[str, Any] = {}

        def report(stage: str, done: int, total: int | None) -> None:
            if stage not in tasks:
                tasks[stage] = bars.add_task(stage, total=total)
            bars.update(tasks[stage], completed=done, total=total)

        yield report
