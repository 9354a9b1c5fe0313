"""The runs below some folders, read again when their files change.

One thread looks at the files' times and sizes, a few times a second while a page is open, and reads what has changed. A run
that was never read is listed at once, as "reading". So a page opens at once over a thousand runs, and fills in a few seconds.
"""

from __future__ import annotations

import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tacit.errors import RunError, TacitError
from tacit.files import is_being_written
from tacit.runs.cost import cost_of
from tacit.runs.finding import find_runs
from tacit.runs.folder import RunFolder
from tacit.web.rows import DAMAGED, RunRow, key_of, read_row, unread

# How often files are looked at while a page is open, and while none is; how often folders are searched for new runs.
POLL_S, IDLE_S, SEARCH_S = 0.4, 3.0, 2.0
# A reading of many runs looks for changes in between.
SLICE_S = 0.3
# A run that trains is read again at once, but its cost, which may take seconds to compute, only as often as this.
COST_S = 30.0
# Reading one run may take at most one part in this many of the time, and waits at most so long.
SHARE, LONGEST_WAIT_S = 4, 0.5
# The pace is that of the last so many changes.
PACE_ROUNDS = 20
_FILES = ("run.json", "recipe.toml", "ledger.jsonl", "metrics.jsonl", "summary.json", "checkpoints", "sections")

Print = tuple[tuple[int, int] | bool | None, ...]


@dataclass
class _Known:
    path: Path
    row: RunRow
    print: Print | None = None
    cost: dict[str, Any] = field(default_factory=dict)
    cost_of: Print | None = None
    cost_at: float = -COST_S
    costing: bool = False
    again: bool = False  # read it although its files are the same: its cost is known now
    not_before: float = 0.0
    seen: deque[tuple[float, int]] = field(default_factory=lambda: deque(maxlen=PACE_ROUNDS))

    def pace(self, row: RunRow, now: float) -> float | None:
        """Seconds a round, of a run that trains while the board looks on."""
        if row.state != "running" or (self.seen and row.rounds < self.seen[-1][1]):
            self.seen.clear()
        if row.state == "running" and (not self.seen or row.rounds > self.seen[-1][1]):
            self.seen.append((now, row.rounds))
        if len(self.seen) < 2:
            return None
        (began, first), (ended, last) = self.seen[0], self.seen[-1]
        return (ended - began) / (last - first)


class RunWatcher:
    """Knows every run below its folders. `on_change` is called, from its thread, with each row that changed."""

    def __init__(
        self,
        folders: Sequence[Path],
        *,
        on_change: Callable[[RunRow], None] = lambda row: None,
        on_gone: Callable[[str], None] = lambda key: None,
    ) -> None:
        self._folders = tuple(folders)
        self._on_change, self._on_gone = on_change, on_gone
        self._known: dict[str, _Known] = {}
        self._lock = threading.Lock()
        self._stop, self._wake = threading.Event(), threading.Event()
        self._searched = 0.0
        self._watched = 0
        # A cost takes seconds, in which runs that train go on: it is computed beside the reading.
        self._costs = ThreadPoolExecutor(1, "tacit board costs")
        self._thread = threading.Thread(target=self._work, name="tacit board", daemon=True)

    def start(self) -> None:
        """Search once, so that every run has a row, and go on in a thread."""
        self._search()
        self._thread.start()

    def stop(self) -> None:
        self._stop.set()
        self._wake.set()
        if self._thread.ident is not None:
            self._thread.join(timeout=5)
        self._costs.shutdown(wait=False, cancel_futures=True)

    def watched(self, change: int) -> None:
        """A page was opened (1) or closed (-1)."""
        with self._lock:
            self._watched += change
        self._wake.set()

    def rows(self) -> list[RunRow]:
        """All runs as they were last read, by folder."""
        with self._lock:
            return [known.row for known in self._known.values()]

    def row(self, key: str) -> RunRow | None:
        with self._lock:
            known = self._known.get(key)
            return None if known is None else known.row

    def path(self, key: str) -> Path | None:
        """The folder of the run with this key, one that the search has found; None if there is none."""
        with self._lock:
            known = self._known.get(key)
            return None if known is None else known.path

    def _work(self) -> None:
        while not self._stop.is_set():
            try:
                if time.monotonic() - self._searched > SEARCH_S:
                    self._search()
                more = self._read_changed()
            except Exception:  # the next look may succeed, and a board without this thread would show old figures
                logging.getLogger(__name__).exception("The board could not look at its runs.")
                more = False
            if not more:
                self._wake.wait(POLL_S if self._watched > 0 else IDLE_S)
                self._wake.clear()

    def _search(self) -> None:
        self._searched = time.monotonic()
        found: dict[str, tuple[Path, str]] = {}
        for folder in self._folders:
            try:
                found.update({key_of(path): (path, _name_of(path, folder)) for path in find_runs(folder)})
            except (RunError, OSError):  # not there yet, or not any more
                continue
        with self._lock:
            gone = [key for key in self._known if key not in found]
            for key in gone:
                del self._known[key]
            new = [_Known(path, unread(path, name)) for key, (path, name) in found.items() if key not in self._known]
            self._known.update({known.row.key: known for known in new})
        for key in gone:
            self._on_gone(key)
        for known in new:
            self._on_change(known.row)

    def _read_changed(self) -> bool:
        """Read what changed, the newest first, for a moment; returns whether more is left to read."""
        with self._lock:
            known = list(self._known.values())
        began = time.monotonic()
        prints = {each.row.key: _print(each.path) for each in known}
        now = time.monotonic()
        changed = [
            each for each in known if each.again or (each.not_before <= now and prints[each.row.key] != each.print)
        ]
        # Runs that changed while the board looked on go first, then the newest of those that were never read.
        changed.sort(key=lambda each: (each.print is None, -_newest(prints[each.row.key])))
        # On a busy machine the look itself takes long: what is read after it then takes longer still.
        until = now + max(SLICE_S, 2 * (now - began))
        for number, each in enumerate(changed):
            self._read(each, prints[each.row.key])
            if time.monotonic() > until or self._stop.is_set():
                return number + 1 < len(changed)
        return False

    def _read(self, known: _Known, print: Print) -> None:
        began, known.again = time.monotonic(), False
        is_written = print[-1] is True
        # What a run that trains costs is that of its planned rounds, and is computed again now and then.
        if not is_written and not known.costing and known.cost_of != print:
            known.cost = {}
        try:
            row = read_row(known.path, known.cost)
        except Exception:  # one run hides no other
            logging.getLogger(__name__).exception("The run %s could not be read.", known.path)
            problem = f"The run {known.path} cannot be read. The board's terminal shows why."
            row = unread(known.path).model_copy(update={"state": DAMAGED, "problem": problem})
        stale = is_written and began - known.cost_at > COST_S
        if row.state != DAMAGED and (stale or not row.cost_known) and not known.costing:
            known.costing = True
            self._costs.submit(self._compute_cost, known, print)
        self._publish(known, row, print)
        known.not_before = time.monotonic() + min(SHARE * (time.monotonic() - began), LONGEST_WAIT_S)

    def _publish(self, known: _Known, row: RunRow, print: Print) -> None:
        with self._lock:
            pace = known.pace(row, time.monotonic())
            keep = {"name": known.row.name, "version": known.row.version + 1, "seconds_a_round": pace}
            known.row = row.model_copy(update=keep)
            known.print = print
            row = known.row
        self._on_change(row)

    def _compute_cost(self, known: _Known, print: Print) -> None:
        """Compute the cost of a run whose summary does not state it; the run is then read again."""
        try:
            cost = cost_of(RunFolder.open(known.path)).stated.as_dict()
        except TacitError as error:
            cost = _no_cost(error.sentence)
        except Exception:  # nothing is claimed
            logging.getLogger(__name__).exception("The cost of %s could not be computed.", known.path)
            cost = _no_cost("its cost could not be computed")
        known.cost, known.cost_of, known.cost_at = cost, print, time.monotonic()
        known.costing, known.again = False, True
        self._wake.set()


def _no_cost(reason: str) -> dict[str, Any]:
    return {"epsilon": None, "reasons_not_private": [reason]}


def _name_of(path: Path, folder: Path) -> str:
    """What tells the run from others of this folder: an inspection, a sweep or a fleet has runs in a folder of its own."""
    inside = path.relative_to(folder).as_posix() if path.is_relative_to(folder) else ""
    return path.name if inside in ("", ".") else inside


def _print(path: Path) -> Print:
    """What changes when a run's files change, and whether a process writes to it."""
    found: list[tuple[int, int] | bool | None] = []
    for name in _FILES:
        try:
            status = (path / name).stat()
            found.append((status.st_mtime_ns, status.st_size))
        except OSError:
            found.append(None)
    return (*found, is_being_written(path / "ledger.jsonl"))


def _newest(print: Print) -> int:
    return max((each[0] for each in print if isinstance(each, tuple)), default=0)
