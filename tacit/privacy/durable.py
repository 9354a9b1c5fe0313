"""Bytes that are on disk when the call returns.

The ledger, the participation record and the run folder write through these, so that one place decides what "durable" means
and what a person reads when a disk is full.
"""

from __future__ import annotations

import errno
import os
from pathlib import Path

from tacit.errors import RunError


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
