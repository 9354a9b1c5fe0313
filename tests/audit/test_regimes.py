"""Training regimes: each changes the recipe as stated, finished regimes are not repeated, and tables show the results."""

from __future__ import annotations

import itertools
import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tacit.audit import regimes
from tacit.audit.outcome import Attacked
from tacit.audit.plans import mixed_plan
from tacit.audit.regimes import (
    REGIMES,
    compare_regimes,
    possible_regimes,
    recipe_for,
    run_to_end,
    summary_of,
    table_of,
)
from tacit.errors import AuditError, DivergedError, RecipeError
from tacit.recipe.training import Recipe, parse_recipe
from tacit.training.datasets import open_dataset
from tests.support.tiny_recipe import tiny

BY_NAME = {regime.name: regime for regime in REGIMES}


def base(**sections: dict[str, Any]) -> Recipe:
    changes = {"data": {"users": 60}, "privacy": {"population": 60, "cohort": 12}, "run": {"rounds": 2}, **sections}
    return tiny(**changes)


@pytest.fixture
def plan(tmp_path: Path) -> Path:
    data = open_dataset(base())
    made = mixed_plan(
        data.words, data.description.name, population=60, seed=1, sharers=1, expected_sharers=(5.0, 10.0, 20.0)
    )
    made.save(tmp_path / "plan.json")
    return tmp_path / "plan.json"


def test_a_regime_changes_what_makes_it_another(tmp_path: Path) -> None:
    plan = tmp_path / "plan.json"
    assert recipe_for(base(), BY_NAME["DP-FedAvg, by user"], plan).privacy == base().privacy
    free = recipe_for(base(), BY_NAME["FedAvg, by user"], plan).privacy
    assert (free.mechanism, free.clip_norm, free.noise_multiplier) == ("none", None, 0)
    with_adam = recipe_for(base(), BY_NAME["FedAvg + Adam, by user"], plan)
    assert (with_adam.privacy.clip_norm, with_adam.server.optimizer) == (None, "adam")
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
    names = [regime.name for regime in possible_regimes(base())]
    assert "FedAvg, IID" not in names
    assert {"SGD, IID", "SGD, by user", "DP-FTRL, by user"} <= set(names)
    stored = tiny(data={"world": None, "store": "somewhere"})
    assert possible_regimes(stored) == list(REGIMES)
    by_user = {name.removesuffix(", IID") + ", by user" for name in BY_NAME if name.endswith("IID")}
    assert by_user == {name for name in BY_NAME if name.endswith("by user")} - {"DP-FTRL, by user"}
    assert recipe_for(stored, BY_NAME["FedAvg, IID"], Path("p")).data.iid


@pytest.mark.slow
def test_what_is_done_is_not_done_again(plan: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    names = ["SGD, by user", "DP-FedAvg, by user"]
    told: list[str] = []
    with monkeypatch.context() as patch:  # a clock that ticks a hundred seconds at each look
        patch.setattr(regimes, "time", SimpleNamespace(monotonic=itertools.count(0, 100).__next__))
        results, done = compare_regimes(
            base(), plan, tmp_path, names=names, minutes=5, suffixes=20, on_progress=told.append
        )
    assert (list(results), done, told) == (names[:1], False, names[:1])  # the second would not be done in time
    results, done = compare_regimes(base(), plan, tmp_path, names=names, suffixes=20, on_progress=told.append)
    assert (list(results), done, told) == (names, True, names)
    assert json.loads((tmp_path / "results.json").read_text()) == results
    private = results["DP-FedAvg, by user"]
    assert private["epsilon"] > 0
    assert private["epsilon_of_noise"] == private["epsilon"]
    assert (private["local_rate"], private["server_rate"]) == (base().work.learning_rate, base().server.learning_rate)
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
    monkeypatch.setattr(regimes, "_train_and_attack", None)
    assert compare_regimes(base(), plan, tmp_path, names=names, suffixes=20)[1]
    # The file of results alone says what is done: another folder for the runs makes no difference.
    elsewhere = tmp_path / "results.json"
    again = compare_regimes(base(), plan, tmp_path / "new", names=names, suffixes=20, results_path=elsewhere)
    assert again == (found, True)
    with pytest.raises(AuditError, match=r"--suffixes 20, .* got 21\."):
        compare_regimes(base(), plan, tmp_path, names=names, suffixes=21)
    with pytest.raises(RecipeError, match="'SGD'"):
        compare_regimes(base(), plan, tmp_path, names=["SGD"])


@pytest.mark.slow
def test_what_can_claim_nothing_still_tells_the_epsilon_of_its_noise(plan: Path, tmp_path: Path) -> None:
    names = ["DP-FedAvg, by user", "FedAvg + clip, by user"]
    seeded = base(run={"rounds": 2, "seed": 1})
    results, _ = compare_regimes(seeded, plan, tmp_path, names=names, suffixes=20)
    private, clipped = (results[name] for name in sorted(names))
    assert private["epsilon"] is None
    assert private["epsilon_of_noise"] > 0
    assert (clipped["epsilon"], clipped["epsilon_of_noise"]) == (None, None)
    _, rows = table_of(results)
    assert {row[0]: row[-1] for row in rows} == dict(
        zip(names, [f"∞ (noise: {private['epsilon_of_noise']:.2f})", "∞"], strict=True)
    )


@pytest.mark.parametrize("name", ["SGD, IID", "FedAvg, by user"])
def test_what_diverges_is_tried_with_half_the_step(
    name: str, plan: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    regime, rates = BY_NAME[name], []
    recipe = recipe_for(base(), regime, plan)

    def diverge(recipe: Recipe, *_: Any) -> Any:
        rates.append((recipe.work.learning_rate, recipe.server.learning_rate))
        raise DivergedError("It diverged.")

    monkeypatch.setattr(regimes, "_central", diverge)
    monkeypatch.setattr(regimes, "start_run", diverge)
    assert regimes._train_and_attack(recipe, regime, plan, tmp_path, 20) == {"diverged": "It diverged."}
    work, server = recipe.work.learning_rate, recipe.server.learning_rate
    central = regime.optimizer is not None
    assert rates == [(work * part, server) if central else (work, server * part) for part in (1, 0.5, 0.25)]


def test_a_run_that_diverged_is_not_gone_on_with(plan: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The state after a kill between the divergence and the end of the next attempt."""
    regime = BY_NAME["FedAvg, by user"]
    wild = {**base().model_dump(mode="json", exclude_none=True)}
    wild["work"] |= {"learning_rate": 1e30}
    recipe = recipe_for(parse_recipe(wild), regime, plan)
    with pytest.raises(DivergedError, match="Training diverged"):
        run_to_end(recipe, tmp_path / "run")
    monkeypatch.setattr(regimes, "resume_run", None)
    with pytest.raises(DivergedError, match="has diverged before"):
        run_to_end(recipe, tmp_path / "run")


def test_tables_count_what_was_memorised() -> None:
    found = [
        Attacked(0, "a", "rare", 1, 11, 3.0, None),
        Attacked(1, "b", "rare", 7, 11, 1.0, 2),
        Attacked(2, "c", "often", 1, 11, 3.0, 1),
    ]
    counted = summary_of(found, [None, None, 4])
    assert [counted[key] for key in ("random_sampling", "beam_search", "beam_search_from_one_word")] == [2, 2, 1]
    assert counted["settings"]["rare"]["beam_search_from_one_word"] == 0
    assert counted["settings"]["rare"]["ranks"] == [1, 7]
    about = {"top1": 0.25, "papers_top1": 0.2, "perplexity": 80.0, "epsilon": None}
    before = {"papers_top1": 0.2, "perplexity": 80.0, "epsilon": None}  # recorded by the papers' metric alone
    results = {"SGD": {**about, **counted}, "FedAvg": {"diverged": "So."}, "Adam": {**before, **counted}}
    heads, rows = table_of(results)
    assert heads[1:3] == ["RS, of 3", "BS, of 3"]
    assert heads[5:7] == ["top-1", "papers' top-1"]
    assert rows[0] == ["SGD", "2", "2", "1", "2.33", "25.00%", "20.00%", "80", "∞"]
    assert rows[1] == ["FedAvg", "diverged", *[""] * 7]
    assert rows[2] == ["Adam", "2", "2", "1", "2.33", "–", "20.00%", "80", "∞"]
