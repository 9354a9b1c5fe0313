"""Training regimes: each changes what makes it another, steps are not repeated, and tables say what was found."""

from __future__ import annotations

import itertools
import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tacit.audit.outcome import Attacked
from tacit.audit.plans import mixed_plan
from tacit.errors import RecipeError
from tacit.recipe import Recipe, parse_recipe
from tacit.simulation import regimes
from tacit.simulation.datasets import open_dataset
from tacit.simulation.regimes import REGIMES, compare_regimes, possible, recipe_for, summary_of, table_of
from tests.simulation.test_training import tiny

BY_NAME = {regime.name: regime for regime in REGIMES}


def base(**sections: dict[str, Any]) -> Recipe:
    changes = {"data": {"users": 60}, "privacy": {"population": 60, "cohort": 12}, "run": {"rounds": 2}, **sections}
    return tiny(**changes)


@pytest.fixture
def plan(tmp_path: Path) -> Path:
    data = open_dataset(base())
    made = mixed_plan(data.words, data.description, users=60, seed=1, sharers=1, expected_sharers=(5.0, 10.0, 20.0))
    made.save(tmp_path / "plan.json")
    return tmp_path / "plan.json"


def test_a_regime_changes_what_makes_it_another(tmp_path: Path) -> None:
    plan = tmp_path / "plan.json"
    assert recipe_for(base(), BY_NAME["DP-FedAvg, by user"], plan).privacy == base().privacy
    free = recipe_for(base(), BY_NAME["FedAvg, by user"], plan).privacy
    assert (free.mechanism, free.clip_norm, free.noise_multiplier) == ("none", None, 0)
    clipped = recipe_for(base(), BY_NAME["FedAvg + clip, by user"], plan).privacy
    assert (clipped.mechanism, clipped.clip_norm) == ("none", 0.3)
    tree = recipe_for(base(), BY_NAME["DP-FTRL, by user"], plan).privacy
    assert (tree.mechanism, tree.sampling, tree.min_separation, tree.noise_multiplier) == ("tree", "check_in", 2, 0.8)
    tuned = parse_recipe(
        {
            **base().model_dump(mode="json", exclude_none=True),
            "paper": {"regimes": {"FedAvg, by user": ["server.learning_rate=0.25"]}},
        }
    )
    assert recipe_for(tuned, BY_NAME["FedAvg, by user"], plan).server.learning_rate == 0.25
    assert recipe_for(tuned, BY_NAME["DP-FedAvg, by user"], plan).server == tuned.server
    with pytest.raises(RecipeError, match="recipe of DP-FedAvg"):
        recipe_for(base(privacy={"mechanism": "none", "noise_multiplier": 0.0}), BY_NAME["FedAvg, by user"], plan)


def test_only_a_store_can_be_dealt_out_anew() -> None:
    names = [regime.name for regime in possible(base())]
    assert "FedAvg, IID" not in names
    assert {"SGD, IID", "SGD, by user", "DP-FTRL, by user"} <= set(names)
    stored = tiny(data={"world": None, "store": "somewhere"})
    assert possible(stored) == list(REGIMES)
    assert recipe_for(stored, BY_NAME["FedAvg, IID"], Path("p")).data.iid


def test_what_is_done_is_not_done_again(plan: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    names = ["SGD, by user", "DP-FedAvg, by user"]
    told: list[str] = []
    with monkeypatch.context() as patch:  # a clock that ticks a hundred seconds at each look
        patch.setattr(regimes, "time", SimpleNamespace(monotonic=itertools.count(0, 100).__next__))
        results, done = compare_regimes(base(), plan, tmp_path, names=names, minutes=5, suffixes=20, told=told.append)
    assert (list(results), done, told) == (names[:1], False, names[:1])  # the second would not be done in time
    results, done = compare_regimes(base(), plan, tmp_path, names=names, suffixes=20, told=told.append)
    assert (list(results), done, told) == (names, True, names)
    assert json.loads((tmp_path / "results.json").read_text()) == results
    private = results["DP-FedAvg, by user"]
    assert private["epsilon"] > 0
    assert private["canaries"] == 9
    assert private["candidates"] == 21
    assert results["SGD, by user"]["epsilon"] is None
    assert (tmp_path / "dp-fedavg-by-user" / "ledger.jsonl").exists()
    kept = {name: found for name, found in results.items() if name != "DP-FedAvg, by user"}
    (tmp_path / "results.json").write_text(json.dumps(kept))  # as if killed in the attack, after training
    with monkeypatch.context() as patch:
        patch.setattr(regimes, "resume_run", None)
        found, _ = compare_regimes(base(), plan, tmp_path, names=names, suffixes=20)
    assert found["DP-FedAvg, by user"]["ranks"] == private["ranks"]
    monkeypatch.setattr(regimes, "_one", None)
    assert compare_regimes(base(), plan, tmp_path, names=names)[1]
    with pytest.raises(RecipeError, match="'SGD'"):
        compare_regimes(base(), plan, tmp_path, names=["SGD"])


def test_tables_count_what_was_memorised() -> None:
    found = [
        Attacked(0, "a", "rare", 1, 11, 3.0, None),
        Attacked(1, "b", "rare", 7, 11, 1.0, 2),
        Attacked(2, "c", "often", 1, 11, 3.0, 1),
    ]
    counted = summary_of(found)
    assert (counted["random_sampling"], counted["beam_search"]) == (2, 2)
    assert counted["settings"]["rare"]["ranks"] == [1, 7]
    about = {"top1": 0.25, "perplexity": 80.0, "epsilon": None}
    _, rows = table_of({"SGD": {**about, **counted}, "FedAvg": {"diverged": "So."}})
    assert rows[0] == ["SGD", "2 of 3", "2 of 3", "2.33", "25.00%", "80", "∞"]
    assert rows[1][1] == "diverged"
