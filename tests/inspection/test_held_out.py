"""Held-out users are users whom the compared run was not trained on."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tacit.errors import DataError
from tacit.inspection.held_out import require_held_out


class Run:
    """A run that was trained on the others of a store, or of a world."""

    path = Path("runs/one")

    def __init__(self, about: dict[str, Any]) -> None:
        self._about = about

    def recipe(self) -> dict[str, Any]:
        return {"data": {"users": 400, "held_out": 20}}

    def ledger(self) -> Any:
        return SimpleNamespace(opened=SimpleNamespace(data=self._about))


@pytest.mark.parametrize(
    ("about", "users", "refused"),
    [
        ({"store": "s1"}, 1, None),  # a store holds out the same people for every run
        ({"store": "s2"}, 1, None),
        ({"world": "keyboard", "seed": 1}, 400, None),
        ({"world": "keyboard", "seed": 1}, 399, r"runs/one was not trained on, data\.users ≥ 400, got 399"),
        ({"world": "keyboard", "seed": 2}, 399, None),
    ],
)
def test_nobody_is_held_out_whom_a_run_was_trained_on(about: dict[str, Any], users: int, refused: str | None) -> None:
    data: Any = SimpleNamespace(users=users)
    run: Any = Run({"store": "s1"} if "store" in about else {"world": "keyboard", "seed": 1})
    if refused is None:
        require_held_out(data, about, run)
    else:
        with pytest.raises(DataError, match=refused):
            require_held_out(data, about, run)
