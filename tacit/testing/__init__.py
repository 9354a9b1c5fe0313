"""Contract suites: what Tacit expects of the parts that others write. A test class inherits one and says how to build the part.

from tacit.testing import WorkContract

class TestMyWork(WorkContract):
    def work(self):
        return MyWork(batch_size=4)
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

_PUBLIC = {
    "TaskContract": "tacit.testing.work",
    "WorkContract": "tacit.testing.work",
}

__all__ = sorted(_PUBLIC)


def __getattr__(name: str) -> Any:
    if name not in _PUBLIC:
        raise AttributeError(f"module 'tacit.testing' has no attribute {name!r}")
    return getattr(import_module(_PUBLIC[name]), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *_PUBLIC})
