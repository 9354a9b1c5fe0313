"""Whether a run's folder holds plain files alone.

A run may have come from somebody else. A link in it may lead to any file of whoever looks at it, and a pipe would never let its
reader go on: neither is opened.
"""

from __future__ import annotations

import os
from pathlib import Path


def why_not_plain(path: Path) -> str | None:
    """What in the run's folder, or in a folder in it, is no plain file, in a sentence; None if all is plain.

    The folder itself may be a link: its owner has put it there.
    """
    try:
        with os.scandir(path) as entries:
            inside = sorted(entries, key=lambda entry: entry.name)
    except OSError:  # not there any more, or for somebody else alone: then nothing in it can be read either
        return None
    for entry in inside:
        if entry.is_symlink():
            return f"{entry.path} is a link, which may lead to any file, so no page shows this run."
        if entry.is_dir(follow_symlinks=False):
            if (found := why_not_plain(Path(entry.path))) is not None:
                return found
        elif not entry.is_file(follow_symlinks=False):
            return f"{entry.path} is neither a file nor a folder, so no page shows this run."
    return None
