"""Metrics: one JSON object per line and round, for curves and tables. No guarantee depends on them.

Each line goes to the operating system at once but is not synced. A crash may lose lines, and they are written again: a resumed
run first drops the records of the rounds it will repeat (`truncate_after`), so that each round appears once.
"""

from __future__ import annotations

import json
import math
import os
import stat
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Self

from tacit.errors import RunError
from tacit.files import disk_error, write_atomic

# What the rounds so far would cost if the run had been planned to end with them. It is for a curve, and is not the run's cost:
# a run that ends early is charged for its planned rounds (`tacit.runs.cost`).
EPSILON_SO_FAR = "epsilon_if_planned_to_end_here"


def read_metrics(path: Path) -> Iterator[dict[str, Any]]:
    """The records in order; none if there is no file. A torn last line is left out, any other damage is a RunError."""
    for line in _whole_lines(path):
        yield json.loads(line)


def last_metrics(path: Path) -> dict[str, Any] | None:
    """The last record, None if there is none."""
    lines = _whole_lines(path)
    return json.loads(lines[-1]) if lines else None


def truncate_after(path: Path, round: int) -> None:
    """Drop the records whose "round" is greater than `round`, and a torn last line. Records keep their order."""
    if not path.exists():
        return
    kept = [line for line in _whole_lines(path) if json.loads(line)["round"] <= round]
    content = b"".join(line + b"\n" for line in kept)
    if content != path.read_bytes():
        write_atomic(path, content, mode=stat.S_IMODE(path.stat().st_mode))


class MetricsWriter:
    """Adds records to a metrics file. Only one process, the one that holds the run, may have it open."""

    def __init__(self, path: Path, *, mode: int = 0o644) -> None:
        """Open or begin the file, with this mode if it is new.

        A torn last line is cut off first, so that the next record gets a line of its own.
        """
        if path.exists():
            content = b"".join(line + b"\n" for line in _whole_lines(path))
            if content != path.read_bytes():
                write_atomic(path, content, mode=mode)
        self.path = path
        try:
            self._file = os.fdopen(os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, mode), "ab", buffering=0)
        except OSError as error:
            raise disk_error(error, path, "nothing was changed") from error

    def append(self, record: Mapping[str, Any]) -> dict[str, Any]:
        """Add a record, which has a whole number "round"; returns it as it was written.

        Numbers that are not finite are written as null.
        """
        written: dict[str, Any] = as_json(record)
        if not isinstance(written.get("round"), int):
            raise ValueError("A metrics record needs a whole number under the key 'round'.")
        line = memoryview(json.dumps(written, allow_nan=False).encode("ascii") + b"\n")
        try:
            while line:
                line = line[self._file.write(line) :]
        except OSError as error:
            raise disk_error(error, self.path, "the rounds before are intact") from error
        return written

    def close(self) -> None:
        self._file.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()


def _whole_lines(path: Path) -> list[bytes]:
    try:
        lines = path.read_bytes().split(b"\n")
    except FileNotFoundError:
        return []
    lines.pop()  # empty, or cut short
    for number, line in enumerate(lines, start=1):
        if not _is_record(line):
            if number == len(lines):
                return lines[:-1]
            raise RunError(f"The metrics {path} are damaged at line {number}: expected a JSON object with its round.")
    return lines


def _is_record(line: bytes) -> bool:
    try:
        record = json.loads(line)
    except ValueError:
        return False
    return isinstance(record, dict) and isinstance(record.get("round"), int)


def as_json(value: Any) -> Any:
    """`value` as JSON has it: NumPy scalars and arrays as numbers and lists, what is not finite as None."""
    if hasattr(value, "tolist"):
        value = value.tolist()
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, Mapping):
        return {name: as_json(each) for name, each in value.items()}
    if isinstance(value, list | tuple):
        return [as_json(each) for each in value]
    return value
