"""Bytes that are on disk when the call returns.

The ledger, the participation record and the run folder write through these, so that one place decides what "durable" means
and what a person reads when a disk is full.
"""

from __future__ import annotations

import errno
import os
from contextlib import suppress
from pathlib import Path
from typing import Self

from tacit.errors import LedgerError, RunError


def append_synced(descriptor: int, data: bytes) -> None:
    """Write all of `data` at the end of a file opened with O_APPEND, and wait until it is on disk."""
    view = memoryview(data)
    while view:
        view = view[os.write(descriptor, view) :]
    os.fsync(descriptor)


def sync_folder(folder: Path) -> None:
    """Make names created, exchanged or removed in `folder` durable."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


class GrowingFile:
    """A file to which whole records are added, each on disk before the next. Closing twice is no mistake."""

    def __init__(self, path: Path, descriptor: int) -> None:
        self.path = path
        self._descriptor: int | None = descriptor
        self._size = os.fstat(descriptor).st_size

    def _grow(self, record: bytes) -> None:
        """Add a record; when this returns it is on disk.

        RunError if the disk fails: then the file is as before, or ends in a torn record, and takes no more.
        """
        if self._descriptor is None:
            raise LedgerError(f"The file {self.path} is closed for writing.")
        try:
            append_synced(self._descriptor, record)
        except OSError as error:
            with suppress(OSError):
                os.ftruncate(self._descriptor, self._size)
            self.close()
            raise disk_error(error, self.path, "what it held is intact and the round was not begun") from error
        self._size += len(record)

    def close(self) -> None:
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()


def keep_torn_bytes(path: Path, torn: bytes, *, mode: int) -> Path:
    """Add `torn` to the sidecar file beside `path`, so that a repair destroys nothing; returns its path."""
    sidecar = path.with_name(path.name + ".torn")
    descriptor = os.open(sidecar, os.O_WRONLY | os.O_APPEND | os.O_CREAT, mode)
    try:
        append_synced(descriptor, torn)
    finally:
        os.close(descriptor)
    sync_folder(path.parent)
    return sidecar


def disk_error(error: OSError, path: Path, kept: str) -> RunError:
    """The sentence for a write that failed; `kept` says what is still there."""
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return RunError(f"Disk full while writing {path}: {kept}.", hint="Free some space, then resume the run.")
    return RunError(f"Cannot write {path} ({error.strerror or error}): {kept}.")
