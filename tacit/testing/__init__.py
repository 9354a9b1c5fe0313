"""Contract suites: what every mechanism, strategy, participation and other extension must do, as tests to inherit.

    from tacit.testing import MechanismContract

    class TestMine(MechanismContract):
        mechanism = "mypackage:Mine"

Run them with pytest, which is needed here and nowhere else in Tacit.
"""

from __future__ import annotations

import sys
from importlib import import_module
from typing import Any

# Every public name and where it lives; one contract a file.
_PUBLIC = {
    "BatchingContract": "tacit.testing.batches",
    "CallbackContract": "tacit.testing.callbacks",
    "MechanismContract": "tacit.testing.mechanism",
    "ParticipationContract": "tacit.testing.participation",
    "StepwiseContract": "tacit.testing.stepwise",
    "StrategyContract": "tacit.testing.strategy",
    "TaskContract": "tacit.testing.work",
    "UsersContract": "tacit.testing.users",
    "WorkContract": "tacit.testing.work",
}

__all__ = sorted(_PUBLIC)


def __getattr__(name: str) -> Any:
    if name not in _PUBLIC:
        raise AttributeError(f"module 'tacit.testing' has no attribute {name!r}")
    if _PUBLIC[name] not in sys.modules:
        import pytest

        pytest.register_assert_rewrite(_PUBLIC[name])  # so that a failure shows the values that were compared
    return getattr(import_module(_PUBLIC[name]), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *_PUBLIC})
