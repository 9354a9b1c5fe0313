"""Runs are named by the keys of the table, and whatever is wrong with a run's files is told in one sentence."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from fastapi import HTTPException

from tacit.errors import RunError
from tacit.web.rows import DAMAGE
from tacit.web.watcher import RunWatcher


@contextmanager
def in_one_sentence(path: Path) -> Iterator[None]:
    """RunError in place of what a damaged or vanished file raises."""
    try:
        yield
    except DAMAGE as error:
        raise RunError(f"The run {path} cannot be read ({type(error).__name__}).") from error


def path_of(watcher: RunWatcher, key: str) -> Path:
    """The folder of the run with this key. No part of a request is ever made a path, and no link in a run is followed."""
    path = watcher.path(key)
    if path is None:
        raise HTTPException(404, "There is no such run. Its folder may have been moved or removed.")
    if (link := link_in(path)) is not None:
        raise RunError(f"{link} is a link, which may lead to any file, so no page shows this run.")
    return path


def link_in(path: Path) -> Path | None:
    """What in the run's folder is a link; None if nothing is. The folder itself may be one: its owner has put it there."""
    try:
        return next((each for each in sorted(path.iterdir()) if each.is_symlink()), None)
    except OSError:
        return None
