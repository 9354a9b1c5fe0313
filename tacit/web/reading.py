"""Runs are named by the keys of the table, and whatever is wrong with a run's files is told in one sentence."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from fastapi import HTTPException

from tacit.errors import RunError
from tacit.web.plain import why_not_plain
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
    return plain(path)


def plain(path: Path) -> Path:
    """This folder of a run; RunError if not all in it are plain files."""
    if (problem := why_not_plain(path)) is not None:
        raise RunError(problem)
    return path
