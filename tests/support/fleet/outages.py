"""A database that fails once at each of its steps: every place in the code that asks it is refused the first time.

What fails is one statement, or the commit of one transaction: before the database has done it, or after it has done it and the
answer was lost. SQLAlchemy makes of that what it makes of a lost connection.
"""

from __future__ import annotations

import sqlite3
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal

from sqlalchemy import Engine, event

import tacit

_ROOT = str(Path(tacit.__file__).parent)
When = Literal["statement", "before commit", "after commit"]
Step = tuple[str, ...]


@contextmanager
def failing_once_everywhere(engine: Engine, when: When, *, spares: Callable[[], bool]) -> Iterator[list[Step]]:
    """Yields the steps that have failed so far. A step is a chain of callers in Tacit; `spares` says whose do not fail."""
    failed: list[Step] = []
    lock = threading.Lock()

    def fail() -> None:
        step = _callers()
        if spares() or step[-1].endswith(" begun"):  # SQLite is told BEGIN before the first statement
            return
        with lock:
            if step in failed:
                return
            failed.append(step)
        raise sqlite3.OperationalError("the database is away")

    def execute(cursor: Any, statement: str, parameters: Any, context: Any) -> None:
        fail()

    real = engine.dialect.do_commit

    def commit(connection: Any) -> None:
        if when == "before commit":
            fail()
        real(connection)
        if when == "after commit":
            fail()

    if when == "statement":
        event.listen(engine, "do_execute", execute)
    else:
        engine.dialect.do_commit = commit  # type: ignore[method-assign]
    try:
        yield failed
    finally:
        if when == "statement":
            event.remove(engine, "do_execute", execute)
        else:
            engine.dialect.do_commit = real  # type: ignore[method-assign]


def _callers() -> Step:
    """The functions of Tacit that are being called, the outermost first, each with its line."""
    found, frame = [], sys._getframe(2)
    while frame is not None:
        if frame.f_code.co_filename.startswith(_ROOT):
            found.append(f"{Path(frame.f_code.co_filename).name}:{frame.f_lineno} {frame.f_code.co_name}")
        frame = frame.f_back  # type: ignore[assignment]
    return tuple(reversed(found))
