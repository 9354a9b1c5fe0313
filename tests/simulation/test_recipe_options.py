"""Options of a recipe: which parts of the model users train, and how the server's rate falls."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tacit.errors import RecipeError
from tacit.learning.state import model_arrays
from tacit.privacy.record.ledger import read_ledger
from tacit.runs.callbacks import Callback
from tacit.runs.driver import begin
from tacit.runs.folder import RunFolder
from tacit.simulation.training import program_of
from tacit.training.recipes import RecipeSetup
from tests.support.run_arrays import final_arrays
from tests.support.tiny_recipe import tiny

SHORT = {"rounds": 2, "evaluate_every": 2}


def trained(place: Path, **sections: Any) -> tuple[RecipeSetup, dict[str, np.ndarray]]:
    """What the recipe builds, and the arrays with which its run ended."""
    setup = RecipeSetup.build(tiny(run=SHORT | sections.pop("run", {}), **sections))
    folder = RunFolder.create(place, setup.settings, vocabulary=setup.dataset.words)
    begin(program_of(setup, folder), folder, Callback())
    return setup, final_arrays(place)


def test_only_the_named_parts_are_trained_and_released(tmp_path: Path) -> None:
    setup, after = trained(tmp_path / "run", work={"trainable": ["cell", "output_bias"]})
    before = model_arrays(setup.start.model)
    changed = {name for name in before if not np.array_equal(before[name], after[name])}
    assert not any("embedding" in name for name in changed)
    assert len(changed) == len(before) - 1
    released = read_ledger(tmp_path / "run" / "ledger.jsonl").opened.release.coordinates
    assert released == sum(before[name].size for name in changed)


def test_a_part_that_the_model_does_not_have_leaves_nothing_to_train() -> None:
    with pytest.raises(RecipeError, match="Nothing would be trained"):
        RecipeSetup.build(tiny(work={"trainable": ["output"]}))  # the tiny model's tables are tied


def test_an_unknown_part_is_refused() -> None:
    with pytest.raises(RecipeError, match=r"work\.trainable"):
        tiny(work={"trainable": ["heart"]})


def test_the_last_round_of_a_falling_rate_changes_nothing(tmp_path: Path) -> None:
    """With a rate that ends at 0, the model after the last round is the one before it."""
    falling = {"optimizer": "sgd", "schedule": "linear"}
    saved = {"checkpoint_every": 1, "rounds": 3, "evaluate_every": 3, "seed": 1}
    setup, last = trained(tmp_path / "falling", server=falling, run=saved)
    start = model_arrays(setup.start.model)
    _, constant = trained(tmp_path / "constant", server={"optimizer": "sgd"}, run=saved)
    moved = {name: np.linalg.norm(last[name] - start[name]) for name in start}
    moved_more = {name: np.linalg.norm(constant[name] - start[name]) for name in start}
    assert all(0 < moved[name] < moved_more[name] for name in start)
