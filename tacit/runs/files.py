"""Files that are either whole or not there.

A file is written beside its final name, synced, and exchanged in one step; whoever reads, at whatever moment the machine
stopped, sees the old content or the new one.
"""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

from tacit.privacy.durable import append_synced, disk_error, sync_folder

_LEFTOVER = ".tmp"


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
