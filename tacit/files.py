"""Files: durable writes, whole or not there, and private to their owner. Every file of a run is written through here.

The ledger, the participation log, checkpoints and reports share these functions, so that one place decides what "durable"
means and what a person reads when a disk is full. `write_atomic` writes beside the final name, syncs, and exchanges the two in
one step: whoever reads, at whatever moment the machine stopped, sees the old content or the new one.
"""

from __future__ import annotations

import errno
import fcntl
import os
import stat
from contextlib import suppress
from pathlib import Path
from typing import Self

from tacit.errors import LedgerError, RunError

_LEFTOVER = ".tmp"


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

    @property
    def is_open(self) -> bool:
        """Whether records can still be added."""
        return self._descriptor is not None

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


def write_atomic(path: Path, content: bytes | str, *, mode: int = 0o644, kept: str = "the old one is intact") -> None:
    """Put `content` into `path`, durably, creating or replacing it.

    RunError if the disk is full or fails, with `kept` saying what is still there; then nothing half-written remains.
    `mode` holds from the first byte on (less what the umask takes away).
    """
    temporary = path.with_name(f".{path.name}{_LEFTOVER}")
    data = content.encode() if isinstance(content, str) else content
    try:
        with suppress(FileNotFoundError):
            temporary.unlink()  # of a process that was killed; its mode might be another
        descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)
        try:
            append_synced(descriptor, data)
        finally:
            os.close(descriptor)
        os.replace(temporary, path)
        sync_folder(path.parent)
    except BaseException as error:
        with suppress(OSError):
            temporary.unlink()
        if isinstance(error, OSError):
            raise disk_error(error, path, kept) from error
        raise


def remove_leftovers(folder: Path) -> None:
    """Remove what killed processes left half-written in `folder`. Only the process that holds the run may call it."""
    for leftover in folder.glob(f".*{_LEFTOVER}"):
        with suppress(OSError):
            leftover.unlink()


def refuse_if_others_can_read(path: Path) -> None:
    """RunError if anybody but the owner may open this file."""
    if stat.S_IMODE(path.stat().st_mode) & 0o077:
        raise RunError(f"Expected {path} to be readable by its owner alone, but others may open it: chmod 600 it.")


def is_being_written(path: Path) -> bool:
    """Whether a process holds this ledger open for writing now: it then has its lock."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK)  # a pipe in its place is opened without waiting
    except OSError:
        return False
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(descriptor)
    return False


def user_cache(kind: str) -> Path:
    """The user's own folder for what is computed once: under XDG_CACHE_HOME, or ~/.cache where that is no absolute path."""
    given = os.environ.get("XDG_CACHE_HOME", "")
    base = Path(given) if os.path.isabs(given) else Path(os.path.expanduser("~")) / ".cache"
    return base / "tacit" / kind
