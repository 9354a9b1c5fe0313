"""A folder that appears under its name when everything in it is written and on disk, or not at all."""

from __future__ import annotations

import errno
import os
import secrets
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tacit.errors import DataError


@contextmanager
def new_folder(out: Path) -> Iterator[Path]:
    """A folder to fill that becomes `out` at the end, or disappears if anything went wrong.

    Raises DataError if `out` exists already, if the disk is full and if it may not be written.
    """
    if os.path.lexists(out):
        raise DataError(f"{out} exists already; expected the name of a new folder.")
    filling = out.parent / f".{out.name}.{secrets.token_hex(4)}"
    try:
        with disk_errors(out):
            out.parent.mkdir(parents=True, exist_ok=True)
            filling.mkdir(mode=0o700)
            yield filling
            for file in filling.iterdir():
                _sync(file)
            # Not even an empty folder that appeared meanwhile is replaced.
            if os.path.lexists(out):
                raise DataError(f"{out} appeared while it was being made; nothing was replaced.")
            filling.rename(out)
            _sync(out.parent)
    finally:
        if filling.exists():
            shutil.rmtree(filling)


@contextmanager
def disk_errors(out: Path) -> Iterator[None]:
    """Turn the operating system's refusal to write `out` into one sentence."""
    try:
        yield
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            raise DataError(f"The disk is full: {out} was not made, and what had been written was removed.") from error
        raise DataError(f"{out} cannot be made: {error.strerror or error}.") from error


def _sync(path: Path) -> None:
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
