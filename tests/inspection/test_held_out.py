"""Held-out users are users whom the compared run was not trained on."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tacit.errors import DataError
from tacit.inspection.held_out import require_held_out
from tacit.privacy.record.facts import DataRecord
from tests.support.first_record import WORLD


class Run:
    """A run that was trained on the others of a store, or of a world."""

    path = Path("runs/one")

    def __init__(self, about: DataRecord) -> None:
        self._about = about

    def recipe(self) -> dict[str, Any]:
        return {"data": {"users": 400, "held_out": 20}}

    def ledger(self) -> Any:
        return SimpleNamespace(opened=SimpleNamespace(data=self._about))


@pytest.mark.parametrize(
    ("about", "users", "refused"),
    [
        (DataRecord(store="s1"), 1, None),  # a store holds out the same people for every run
        (DataRecord(store="s2"), 1, None),
        (WORLD, 400, None),
        (WORLD, 399, r"runs/one was not trained on, data\.users ≥ 400, got 399"),
        (replace(WORLD, seed=2), 399, None),
    ],
)
def test_nobody_is_held_out_whom_a_run_was_trained_on(about: DataRecord, users: int, refused: str | None) -> None:
    data: Any = SimpleNamespace(users=users)
    run: Any = Run(WORLD if about.store is None else DataRecord(store="s1"))
    if refused is None:
        require_held_out(data, about, run)
    else:
        with pytest.raises(DataError, match=refused):
            require_held_out(data, about, run)
