"""Whole runs with correlated noise: the stream goes on over a resume, lost rounds count, the clip adapts."""

from __future__ import annotations

import math
import shutil
from itertools import pairwise
from typing import Any

import numpy as np
import pytest

import tacit
from tacit.errors import RecipeError
from tacit.privacy.accounting.spent import spent_by
from tacit.privacy.noise.mechanisms import correlated
from tacit.privacy.participation.log import verified
from tacit.privacy.record.ledger import read_ledger
from tacit.recipe.training import Recipe
from tacit.runs.cost import cost_of
from tacit.runs.folder import RunFolder
from tacit.runs.journal import RunJournal
from tacit.simulation.training import resume_run, start_run
from tests.support.run_arrays import assert_same_arrays
from tests.support.stopping import stopped
from tests.support.tiny_recipe import FTRL, tiny

pytestmark = pytest.mark.usefixtures("cache_of_our_own")


def ftrl(mechanism: str, *, privacy: dict[str, Any] | None = None, **run: Any) -> Recipe:
    return tiny(privacy={"mechanism": mechanism, **FTRL, **(privacy or {})}, run=run)


@pytest.mark.parametrize("mechanism", ["tree", "blt", "banded", "gaussian"])
def test_a_run_states_rho_from_what_its_plan_promises(mechanism, tmp_path):
    summary = start_run(ftrl(mechanism), tmp_path / "run", tacit.Callback())
    privacy = summary["privacy"]
    assert privacy["adjacency"] == "zero out one user"
    assert privacy["participation"] == {"min_separation": 3, "max_participation": 2, "observed": False}
    ledger = read_ledger(tmp_path / "run" / "ledger.jsonl")
    cohorts = [cohort.users for cohort in verified(tmp_path / "run" / "private" / "participation.bin", ledger)]
    assert spent_by(ledger.opened, ledger.intents).rho == privacy["rho"]
    # What happened keeps the promise, and so costs no more.
    owners = cost_of(RunFolder.open(tmp_path / "run"), cohorts=cohorts)
    assert owners.stated.rho == privacy["rho"]
    assert owners.happened is not None
    assert owners.happened.rho is not None
    assert owners.happened.rho <= privacy["rho"] * (1 + 1e-9)
    # One participation alone costs 1/(2 z²), and z is 4.
    assert privacy["rho"] >= 1 / 32
    assert 0 < privacy["epsilon"] < 10
    assert not list((tmp_path / "run" / "private").glob("*.safetensors"))  # the noise is gone with the run


@pytest.mark.parametrize("mechanism", ["tree", "blt", "banded"])
def test_a_seeded_run_that_was_stopped_goes_on_with_the_same_noise(mechanism, tmp_path):
    recipe = ftrl(mechanism, seed=5, rounds=7)
    start_run(recipe, tmp_path / "whole", tacit.Callback())
    stopped(recipe, tmp_path / "run", 3)
    shutil.rmtree(tmp_path / "cache", ignore_errors=True)  # the strategy is the ledger's, not the cache's
    resume_run(tmp_path / "run", tacit.Callback())
    assert_same_arrays(tmp_path / "whole", tmp_path / "run")


def test_a_resumed_stream_takes_back_the_noise_of_before(tmp_path, monkeypatch):
    """Neither a repeated draw nor a skipped one: over a resume, C applied to what was added is fresh, independent noise."""
    added: list[np.ndarray] = []
    difference, draw = correlated._difference, correlated.rounded_gaussian
    scales: list[float] = []

    def drawn(centre: Any, scale: float, stream: Any) -> Any:
        scales.append(scale)
        return draw(centre, scale, stream)

    def watching(steps: Any, fine: Any) -> Any:
        noise = difference(steps, fine)
        added.append(np.concatenate([np.asarray(leaf).ravel() for leaf in _leaves(noise)]) / scales[-1])
        return noise

    monkeypatch.setattr(correlated, "rounded_gaussian", drawn)
    monkeypatch.setattr(correlated, "_difference", watching)
    recipe = ftrl("blt", rounds=6)
    stopped(recipe, tmp_path / "run", 2)
    resume_run(tmp_path / "run", tacit.Callback())
    ledger = read_ledger(tmp_path / "run" / "ledger.jsonl")
    assert [intent.round for intent in ledger.intents] == list(range(6))
    from tacit.privacy.noise.strategies import from_description

    strategy = from_description(ledger.opened.strategy)
    column = strategy.column(6)
    y = np.stack(added)
    draws = np.stack([sum(column[t - s] * y[s] for s in range(t + 1)) for t in range(6)])
    error = 1 / math.sqrt(draws.shape[1])  # of a correlation; six of them are never seen by chance
    assert draws.std(axis=1) == pytest.approx(np.ones(6), abs=6 * error / math.sqrt(2))
    assert np.abs(np.corrcoef(draws) - np.eye(6)).max() < 6 * error  # a repeated draw would give 1
    assert np.abs(np.corrcoef(y) - np.eye(6)).max() > 7 * error  # what was added is correlated


def _leaves(tree: Any) -> list[Any]:
    import jax

    return jax.tree.leaves(tree)


def test_rounds_that_were_lost_are_accounted_as_a_branch(tmp_path, monkeypatch):
    """Killed after round 4, with a checkpoint after 4 rounds: rounds 4 and 5 run again."""
    recipe = ftrl("tree", rounds=6, checkpoint_every=4)
    before = RunJournal.before

    def dying(self: RunJournal, cohort: Any, norms: Any) -> None:
        before(self, cohort, norms)
        if cohort.round == 5:
            raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(RunJournal, "before", dying)
        with pytest.raises(KeyboardInterrupt):
            start_run(recipe, tmp_path / "run", tacit.Callback())
    summary = resume_run(tmp_path / "run", tacit.Callback())
    ledger = read_ledger(tmp_path / "run" / "ledger.jsonl")
    assert [(intent.round, intent.attempt) for intent in ledger.intents][4:] == [(4, 0), (5, 0), (4, 1), (5, 1)]
    whole = start_run(recipe, tmp_path / "other", tacit.Callback())
    assert summary["privacy"]["rho"] > whole["privacy"]["rho"]
    cohorts = {
        (cohort.round, cohort.attempt): set(cohort.users.tolist())
        for cohort in verified(tmp_path / "run" / "private" / "participation.bin", ledger)
    }
    in_use = [cohorts[0, 0], cohorts[1, 0], cohorts[2, 0], cohorts[3, 0], cohorts[4, 1], cohorts[5, 1]]
    assert not any(in_use[a] & in_use[b] for a in range(6) for b in range(a + 1, min(a + 4, 6)))


@pytest.mark.parametrize("mechanism", ["tree", "gaussian"])
def test_the_clip_adapts_and_intents_say_where_it_was(mechanism, tmp_path):
    privacy = {"adaptive": {"learning_rate": 1.0}, "clip_norm": 0.01, "noise_multiplier": 0.5}
    if mechanism == "tree":
        privacy["restarts"] = [2]
    recipe = ftrl(mechanism, privacy=privacy, rounds=5, seed=3)
    stopped(recipe, tmp_path / "run", 3)
    summary = resume_run(tmp_path / "run", tacit.Callback())
    intents = read_ledger(tmp_path / "run" / "ledger.jsonl").intents
    assert summary["clip_norm"] > 0.01
    bounds = [intent.blocks["update"]["bound"] for intent in intents]
    changes = [a != b for a, b in pairwise(bounds)]
    assert changes == ([False, True, False, False] if mechanism == "tree" else [True] * 4)
    assert bounds[-1] > 0.01  # nearly everybody was clipped
    assert [intent.restart for intent in intents] == [mechanism == "tree" and round == 2 for round in range(5)]
    assert {intent.blocks["within"]["bound"] for intent in intents} == {0.5}


@pytest.mark.parametrize(
    ("privacy", "words"),
    [
        ({"min_separation": 33}, "min_separation ≤ 32"),
        ({"max_participation": 1, "population": 60}, "max_participation ≥ 2"),
        ({"restarts": [6]}, "within the 6 rounds"),
    ],
)
def test_what_cannot_be_is_said_before_anything_starts(privacy, words):
    with pytest.raises(RecipeError, match=words):
        ftrl("tree", privacy=privacy)
