"""The command line: one command a file, listed here. A person's mistake ends in one sentence and its exit code."""

from __future__ import annotations

import sys

import typer
from rich.console import Console

from tacit.cli import data, predict, runs, train
from tacit.errors import TacitError

app = typer.Typer(
    name="tacit",
    help="Train language models on text nobody may look at, and prove how much they can have learned about anybody.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.command("train")(train.train)
app.command("predict")(predict.predict)
app.add_typer(data.app, name="data")
app.add_typer(runs.app, name="runs")


def main() -> None:
    """The `tacit` command."""
    try:
        app()
    except TacitError as error:
        console = Console(stderr=True, highlight=False, soft_wrap=True)
        console.print(f"[bold red]error:[/] {error.sentence}", markup=True)
        if error.hint is not None:
            console.print(f"[dim]hint:[/] {error.hint}")
        sys.exit(error.exit_code)
