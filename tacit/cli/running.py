"""What every command that makes a run has in common: a folder that is free, and Ctrl-C that ends in how to go on."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import typer
from rich.console import Console
from rich.text import Text

from tacit.cli.entry import STOPPED
from tacit.cli.summary import tacit_command
from tacit.runs.finding import find_runs


@contextmanager
def interruptible(console: Console, folder: Path, command: str) -> Iterator[None]:
    """Run what makes the run in `folder`; Ctrl-C ends it with exit code 130 and says that `command` --resume goes on.

    `command` is what comes after `tacit`, for example "train". Modules that import JAX are best imported inside, so that a
    person's mistakes are told before the second this takes, and Ctrl-C during it is heard.
    """
    try:
        from tacit.runs.journal import StopRequested

        try:
            yield
        except StopRequested:
            _say_how_to_go_on(console, folder, command, "Stopped after the round under way, which is saved.")
            raise typer.Exit(STOPPED) from None
    except KeyboardInterrupt:  # a second Ctrl-C, or one before the first round
        if folder.is_dir() and find_runs(folder):
            sentence = "Stopped at once; a round that was under way counts as released."
            _say_how_to_go_on(console, folder, command, sentence)
        else:
            console.print("Stopped before the run began; nothing was written.", highlight=False)
        raise typer.Exit(STOPPED) from None


def _say_how_to_go_on(console: Console, folder: Path, command: str, sentence: str) -> None:
    line = f"{tacit_command()} {command} --resume {shlex.quote(str(folder))}"
    console.print(Text.assemble(sentence, " Go on with: ", (line, "bold")), highlight=False, soft_wrap=True)
