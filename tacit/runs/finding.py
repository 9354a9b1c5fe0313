"""Where runs are: the folder that holds them, their names, and how a folder of a run is told from others. Imports little."""

from __future__ import annotations

import os
from pathlib import Path

from tacit.errors import RunError

RUNS = Path("runs")  # where runs are made, and where a name is looked up
MARKER = "run.json"
_DEPTH = 4  # how far below a root runs are looked for


def is_run(path: Path) -> bool:
    """Whether the folder carries the marker of a run (which may still be damaged)."""
    return (path / MARKER).is_file()


def refuse_if_taken(path: Path) -> None:
    """RunError unless `path` is an empty directory or free for a new one."""
    if is_run(path):
        raise RunError(
            f"The folder {path} holds a run already.",
            hint=f"Resume it (tacit train --resume {path}, or tacit.resume), or choose another folder.",
        )
    if path.exists() and not path.is_dir():
        raise RunError(f"Expected a folder for the run, got {path}, which is a file.")
    if path.is_dir() and any(path.iterdir()):
        raise RunError(f"The folder {path} is not empty and holds no run: choose a new or an empty one.")


def by_name(run: Path) -> Path:
    """The folder of this path, or of this name in runs/."""
    return RUNS / run if not run.exists() and (RUNS / run).exists() else run


def find_runs(root: Path) -> list[Path]:
    """The folders of runs in `root` and a few levels below it, by path; RunError if there is no such folder."""
    if not root.is_dir():
        raise RunError(f"Expected a folder of runs, got {root}, which is not there.")
    found = []
    for here, below, _ in os.walk(root):
        if is_run(Path(here)):
            found.append(Path(here))
            below.clear()
        elif len(Path(here).relative_to(root).parts) >= _DEPTH:
            below.clear()
        below[:] = [name for name in below if not name.startswith(".")]
    return sorted(found)


def next_folder(name: str) -> Path:
    """runs/NAME-1, or the first number that is free."""
    number = 1
    while (path := RUNS / f"{name}-{number}").exists():
        number += 1
    return path
