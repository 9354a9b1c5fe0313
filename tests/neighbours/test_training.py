"""Whole training commands on D and D′: nothing public may tell whether somebody who contributes nothing was there."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tacit.data.views import Subset
from tacit.training import datasets
from tests.support.neighbour_runs import DATA, EVERYBODY, PRIVACY, recipe, stating, write
from tests.support.neighbours import PEOPLE, World, compared, write_listed_store

CHECK_IN = {**PRIVACY, "sampling": "check_in", "cohort": 6, "min_separation": 2, "max_participation": 2}
KINDS: dict[str, dict[str, Any]] = {
    "poisson": {},
    "fixed": {"privacy": {**PRIVACY, "sampling": "fixed"}},
    "check_in": {"privacy": CHECK_IN},
    "tree": {"privacy": {**CHECK_IN, "mechanism": "tree"}},
    "cyclic": {"privacy": {**PRIVACY, "mechanism": "banded", "sampling": "cyclic_poisson", "bands": 3}},
    "adaptive": {"privacy": {**PRIVACY, "adaptive": {"quantile": 0.5, "count_noise": 2.0}}},
    "pretrained": {"pretrain": {"world": "keyboard", "users": 20, "steps": 2}},
    "weighted": {"privacy": {**PRIVACY, "example_cap": 12.0, "estimator": "clipped", "total_weight": 40.0}},
}


def training(text: str) -> Any:
    def commands(world: World) -> None:
        (world.folder / "recipe.toml").write_text(text)
        world.run("train", "recipe.toml", "--out", "runs/one")
        stating(world, "runs/one")

    return commands


# Each kind trains two worlds and runs eight commands on each.
@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_training(kind: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    found = compared(tmp_path, capfd, write, list(EVERYBODY), training(recipe(**KINDS[kind])))
    assert not found, "\n".join(found)


@pytest.mark.slow
def test_somebody_who_is_drawn_and_has_nothing(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """With everybody in every round: the one without examples takes part and adds zero to every block."""
    rng = np.random.default_rng(1)
    users = {user: rng.integers(4, 64, (3, 5)).tolist() for user in range(PEOPLE)} | {41: []}
    everybody = {
        "privacy": {**PRIVACY, "cohort": 60.0, "adaptive": {"quantile": 0.5, "count_noise": 2.0}},
        "engine": {"chunk": 128},
    }

    def store(folder: Path, who: Sequence[int]) -> None:
        write_listed_store(folder, {user: users[user] for user in who})

    found = compared(tmp_path, capfd, store, sorted(users), training(recipe(**everybody)), gone=41)
    assert not found, "\n".join(found)


@pytest.mark.slow
def test_somebody_who_is_drawn_with_much_text_and_an_update_of_zero(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """With a learning rate that moves nothing, everybody takes part and adds zero, the one with the most text too."""
    rng = np.random.default_rng(1)
    users = {user: rng.integers(4, 64, (3, 5)).tolist() for user in range(PEOPLE)}
    users[41] = rng.integers(4, 64, (40, 5)).tolist()
    everybody = {
        "privacy": {**PRIVACY, "cohort": 60.0},
        "work": {"learning_rate": 1e-30},
        "data": {**DATA, "tokens_per_user": 240},
    }

    def store(folder: Path, who: Sequence[int]) -> None:
        write_listed_store(folder, {user: users[user] for user in who})

    found = compared(tmp_path, capfd, store, sorted(users), training(recipe(**everybody)), gone=41)
    assert not found, "\n".join(found)


@pytest.mark.slow
def test_comparing_runs(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    def commands(world: World) -> None:
        for kind in ("poisson", "fixed"):
            (world.folder / f"{kind}.toml").write_text(recipe(**KINDS[kind]))
            world.run("train", f"{kind}.toml", "--out", f"runs/{kind}")
        world.run("compare", "runs/poisson", "runs/fixed", "--on", "store", "--buckets", 3)
        world.run("runs", "compare", "runs/poisson", "runs/fixed")

    found = compared(tmp_path, capfd, write, list(EVERYBODY), commands)
    assert not found, "\n".join(found)


def _by_row_numbers(store: Any, most: int | None = None) -> tuple[Subset, Subset]:
    """The split that this harness was built against: a permutation of row numbers, whose seed is in the recipe."""
    aside = np.sort(np.random.default_rng(1).permutation(len(store))[:most])
    return Subset(store, np.delete(np.arange(len(store)), aside)), Subset(store, aside)


@pytest.mark.slow
def test_the_harness_sees_a_hold_out_by_row_numbers(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(datasets, "split_users", _by_row_numbers)
    found = compared(tmp_path, capfd, write, list(EVERYBODY), training(recipe()), gone=next(iter(EVERYBODY)))
    # Baselines and metrics on other people, without noise, and another training set.
    assert any(each.startswith("runs/one/summary.json") for each in found), found
    assert any(each.startswith("runs/one/metrics.jsonl") for each in found), found


@pytest.mark.slow
def test_the_harness_sees_a_count_of_the_users(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    before = datasets._store

    def counted(recipe: Any) -> Any:
        found = before(recipe)
        return datasets.replace(
            found, description=dataclasses.replace(found.description, vocabulary=f"the words of {found.people}")
        )

    monkeypatch.setattr(datasets, "_store", counted)
    found = compared(tmp_path, capfd, write, list(EVERYBODY), training(recipe()))
    assert any("ledger.jsonl" in each and "the words of" in each for each in found), found
