"""Runs that train a part of a model: only that part is clipped, noised, counted and stepped, and the rest stays bit for bit."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from tacit.errors import PrivacyError, RecipeError
from tacit.learning.next_word import NextWord
from tacit.learning.state import load_model
from tacit.models import lora, transformer
from tacit.models.word_lm import parameter_count
from tacit.privacy.record.ledger import read_ledger
from tacit.privacy.record.records import UPDATE
from tacit.recipe.training import Recipe
from tacit.runs.callbacks import Callback
from tacit.runs.driver import begin, go_on
from tacit.runs.folder import RunFolder
from tacit.runs.gate_audit.outcome import read_outcome
from tacit.runs.journal import RunJournal, StopRequested
from tacit.runs.provenance import reasons_of
from tacit.simulation.training import program_of
from tacit.training.datasets import Dataset, open_dataset
from tacit.training.recipes import RecipeSetup
from tests.support.run_arrays import assert_same_arrays, final_arrays
from tests.support.stopping import stop_after
from tests.support.tiny_recipe import tiny

CHECK_IN = {"sampling": "check_in", "min_separation": 2, "cohort": 12, "noise_multiplier": 4.0}
WEIGHTED = {"clipping": "per_layer", "example_cap": 20, "estimator": "clipped", "total_weight": 300}
CASES: dict[str, dict[str, Any]] = {
    "gaussian": {},
    "per_layer": {"privacy": WEIGHTED, "work": {"clip_every_step": True}},
    "adaptive": {"privacy": {"adaptive": {"count_noise": 4.0}}, "server": {"optimizer": "nesterov"}},
    "tree": {"privacy": {**CHECK_IN, "mechanism": "tree"}},
    "banded": {"privacy": {**CHECK_IN, "mechanism": "banded"}, "work": {"kind": "fedsgd", "learning_rate": 1.0}},
    "secure": {"privacy": {**CHECK_IN, "secagg": {"bits": 20}}},
}


class Wrapped(eqx.Module):
    """A model with leaves of every kind beside its parameters."""

    model: Any
    counts: np.ndarray
    missing: None
    squash: Any = jnp.tanh
    limit: float = 30.0

    def __call__(self, tokens: jax.Array) -> jax.Array:
        return self.squash(self.model(tokens) / jnp.float32(self.limit)) * jnp.float32(self.limit)


def recipe_of(case: str) -> Recipe:
    return tiny(**CASES[case], run={"rounds": 4, "seed": 5, "evaluate_every": 4, "checkpoint_every": 1})


@cache
def dataset() -> Dataset:
    return open_dataset(recipe_of("gaussian"))


@cache
def adapted() -> lora.Adapted:
    config = transformer.TransformerConfig(len(dataset().words), width=8, heads=2, layers=1, hidden=8)
    model = Wrapped(transformer.build(config, key=jax.random.key(1)), np.arange(3), None)
    return lora.add_adapters(model, 2, key=jax.random.key(2), where=lambda path, leaf: "blocks" in path)


def setup_of(case: str, trainable: Any = None) -> RecipeSetup:
    model, recipe = adapted(), recipe_of(case)
    return RecipeSetup.of(recipe, dataset(), model, NextWord().loss_sum, None, trainable or model.trainable)


def folder_of(setup: RecipeSetup, out: Path) -> RunFolder:
    return RunFolder.create(out, setup.settings, vocabulary=setup.dataset.words)


@pytest.mark.parametrize(
    "case", [case if case in ("gaussian", "tree") else pytest.param(case, marks=pytest.mark.slow) for case in CASES]
)
def test_only_adapters_are_clipped_noised_counted_and_stepped(case: str, tmp_path: Path) -> None:
    setup = setup_of(case)
    folder = folder_of(setup, tmp_path / "run")
    program = program_of(setup, folder)
    assert reasons_of(program) == []
    begin(program, folder, Callback())

    trained = parameter_count(adapted().adapters)
    sides = len(setup.plan.noise_multipliers) - 1
    opened = read_ledger(folder.ledger_path).opened
    assert opened.release.coordinates == trained + sides == parameter_count(setup.learned) + sides
    assert opened.release.arrays == 2 * len(adapted().adapters) + sides

    arrays = final_arrays(tmp_path / "run")
    saved = load_model(adapted(), arrays)
    assert all(
        np.array_equal(a, b)
        for a, b in zip(*map(jax.tree.leaves, (_arrays(saved.base), _arrays(adapted().base))), strict=True)
    )
    before, after = (jax.tree.leaves(each.adapters) for each in (adapted(), saved))
    assert all((one != other).all() for one, other in zip(before, after, strict=True))  # the noise reaches every number
    of_server = [array for name, array in arrays.items() if name.startswith("server")]
    assert sum(array.size for array in of_server) == trained
    assert saved.base.squash is jnp.tanh
    if isinstance(setup.start.noise, dict):
        # Each kept vector of noise is as long as a release.
        assert sum(leaf.size for leaf in jax.tree.leaves(setup.start.noise["noise"][UPDATE])) % trained == 0


def _arrays(tree: Any) -> Any:
    return eqx.filter(tree, eqx.is_array)


@pytest.mark.parametrize("case", [pytest.param("gaussian", marks=pytest.mark.slow), "tree"])
def test_a_run_that_was_stopped_goes_on_as_if_it_had_not_been(
    case: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole, halves = (folder_of(setup_of(case), tmp_path / name) for name in ("whole", "halves"))
    begin(program_of(setup_of(case), whole), whole, Callback())
    with monkeypatch.context() as patched:
        patched.setattr(RunJournal, "before", stop_after(RunJournal.before, 1))
        with pytest.raises(StopRequested):
            begin(program_of(setup_of(case), halves), halves, Callback())
    with pytest.raises(PrivacyError, match=r"where release\.arrays is 12, got 6"):
        go_on(program_of(setup_of(case, lambda path, leaf: path.endswith(".A")), halves), halves, Callback())
    go_on(program_of(setup_of(case), halves), halves, Callback())
    assert_same_arrays(tmp_path / "whole", tmp_path / "halves")


def test_the_gate_of_a_part_is_audited(tmp_path: Path) -> None:
    folder = folder_of(setup_of("gaussian"), tmp_path / "run")
    begin(program_of(setup_of("gaussian"), folder), folder, Callback())
    found = read_outcome(folder)
    assert found is not None
    assert found.scale is not None
    low, _, high = found.scale
    assert low < 1 < high
    assert not found.alarms


def test_a_filter_that_trains_nothing_stops_before_anything_is_written(tmp_path: Path) -> None:
    with pytest.raises(RecipeError, match="Nothing would be trained"):
        setup_of("gaussian", lambda path, leaf: path == "nothing")
