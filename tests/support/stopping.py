"""Runs that are stopped in a chosen round."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import tacit
from tacit.recipe.training import Recipe
from tacit.runs.journal import RunJournal, StopRequested
from tacit.simulation.training import start_run


def stop_after(before: Any, round: int) -> Any:
    """A journal whose person presses Ctrl-C in this round."""

    def stopping(self: RunJournal, cohort: Any, norms: Any) -> None:
        before(self, cohort, norms)
        self.stop_requested = cohort.round == round

    return stopping


def stopped(recipe: Recipe, out: Path, round: int) -> None:
    """A run that its person stopped in this round."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(RunJournal, "before", stop_after(RunJournal.before, round))
        with pytest.raises(StopRequested):
            start_run(recipe, out, tacit.Callback())
