"""What commands that make runs share: a free folder, and what Ctrl-C ends in."""

from __future__ import annotations

import io
from pathlib import Path

import pytest
import typer
from rich.console import Console

from tacit.cli.running import STOPPED, interruptible
from tacit.errors import DataError
from tacit.runs.finding import next_folder
from tacit.runs.folder import RunFolder
from tacit.runs.journal import StopRequested
from tests.support.tiny_recipe import tiny


def said(folder: Path, error: BaseException) -> str:
    """What a person reads when this ends a command, which must then exit as one that was stopped."""
    heard = io.StringIO()
    with pytest.raises(typer.Exit) as ended, interruptible(Console(file=heard), folder, "inspect text"):
        raise error
    assert ended.value.exit_code == STOPPED == 130
    return heard.getvalue()


def test_each_run_gets_a_folder_of_its_own(here: Path) -> None:
    assert next_folder("demo") == Path("runs/demo-1")
    (here / "runs" / "demo-1").mkdir(parents=True)
    (here / "runs" / "demo-2").write_text("")
    assert next_folder("demo") == Path("runs/demo-3")


def test_a_stopped_run_says_with_which_command_it_goes_on(here: Path) -> None:
    folder = Path("my [bold] run")
    assert said(folder, KeyboardInterrupt()) == "Stopped before the run began; nothing was written.\n"
    RunFolder.create(folder, tiny().to_toml(), vocabulary=("a",))
    command = "Go on with: tacit inspect text --resume 'my [bold] run'\n"
    assert said(folder, StopRequested()) == f"Stopped after the round under way, which is saved. {command}"
    assert said(folder, KeyboardInterrupt()).startswith(
        "Stopped at once; a round that was under way counts as released."
    )
    assert said(folder, KeyboardInterrupt()).endswith(command)


def test_a_mistake_passes_through(here: Path) -> None:
    with pytest.raises(DataError), interruptible(Console(file=io.StringIO()), Path("run"), "train"):
        raise DataError("Expected users, got none.")
