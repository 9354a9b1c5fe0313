"""The facts of the runs below a folder. A run is read again only after one of its files, or the software, has changed.

To state a run's facts, its whole ledger is checked against its recipe and its checkpoints. While no process writes to the run,
the answer follows from the run's files and from the software alone. So it is kept in the user's cache folder, under the
versions and the digest of `software`, and the identity, size and times of every file that it was read from.

Never kept are the facts of a run that a process writes to, of a damaged run, of one with a file so young that another change
could leave its times as they are, and of any run once this process knows a mechanism from outside, whose code has a say.
Nothing is kept beside the runs, where somebody who made a run could put facts that its ledger does not bear out. A cache that
cannot be read is made anew; where none can be written, every run is read every time.
"""

from __future__ import annotations

import hashlib
import json
import os
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

from tacit.errors import RunError
from tacit.files import is_being_written, user_cache, write_atomic
from tacit.privacy.outside import knows_outside
from tacit.runs.finding import MARKER, find_runs
from tacit.runs.software import software

# The coarsest clock of a file system (FAT) writes a time every two seconds.
SETTLED_S = 2.5
_FILES = (MARKER, "recipe.toml", "ledger.jsonl", "metrics.jsonl", "summary.json", "checkpoints")

# Of each file: its name, then device, inode, size, and when content and status changed; nothing more if it is not there.
Print = list[list[Any]]
Kept = dict[str, tuple[Print, dict[str, Any]]]


def facts_below(root: Path) -> list[dict[str, Any]]:
    """The facts of each run below `root`, by path, and of a damaged run its problem: one bad run does not hide the others.

    RunError if there is no such folder.
    """
    paths = find_runs(root)
    if not paths or knows_outside():
        return [_read(path) for path in paths]
    place = user_cache("runs") / f"{hashlib.sha256(os.fsencode(root.resolve())).hexdigest()}.json"
    before, kept, found = _load(place), Kept(), []
    for path in paths:
        name, now, files = path.relative_to(root).as_posix(), time.time(), print_of(path)
        print_before, facts = before.get(name, (None, {}))
        if print_before != files or is_being_written(path / "ledger.jsonl"):
            facts = _read(path)
        if facts["state"] not in ("running", "damaged") and _settled(files, now):
            kept[name] = (files, facts)
        found.append({**facts, "run": str(path)})
    if kept != before:
        with suppress(OSError, RunError):
            place.parent.mkdir(parents=True, exist_ok=True)
            write_atomic(place, json.dumps({"software": software(), "runs": kept}), mode=0o600)
    return found


def print_of(path: Path) -> Print:
    """What changes with any file that `facts_of` reads in the run's folder."""
    names = [*_FILES]
    with suppress(OSError):
        names += sorted(f"checkpoints/{name}" for name in os.listdir(path / "checkpoints"))
    return [[name, *_status(path / name)] for name in names]


def _status(path: Path) -> list[int]:
    try:
        found = path.stat()
    except OSError:
        return []
    return [found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns]


def _settled(files: Print, now: float) -> bool:
    """Whether every file was `now` so old that a change after that moves its times."""
    return all(max(times, default=0) < (now - SETTLED_S) * 1e9 for times in (each[4:] for each in files))


def _read(path: Path) -> dict[str, Any]:
    from tacit.runs.facts import facts_of  # what reads a plan takes longer to import than a list that is known to print
    from tacit.runs.folder import RunFolder

    try:
        return facts_of(RunFolder.open(path))
    except RunError as error:
        return {"run": str(path), "state": "damaged", "problem": error.sentence}


def _load(place: Path) -> Kept:
    try:
        stored = json.loads(place.read_bytes())
        if stored["software"] != software():
            return {}
        return {name: (files, dict(facts)) for name, (files, facts) in stored["runs"].items()}
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return {}
