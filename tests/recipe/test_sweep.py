"""The file of a sweep: which cases come out, how they are named, and one sentence for every mistake."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tacit.errors import RecipeError
from tacit.recipe.sweep import SweepCase, checked, grid_of, load_grid
from tests.support.tiny_recipe import tiny


@pytest.fixture
def here(tmp_path: Path) -> Path:
    (tmp_path / "tiny.toml").write_text(tiny().to_toml())
    return tmp_path


def cases(here: Path, **grid: Any) -> list[SweepCase]:
    return grid_of({"recipe": "tiny.toml", **grid}, here)[1]


def test_axes_are_crossed_with_variants_and_repeats(here: Path) -> None:
    found = cases(
        here,
        set={"run": {"rounds": 4}},
        axes={"privacy": {"clip_norm": [0.2, 0.4]}, "epsilon": [2, 8]},
        variants={"plain": {}, "momentum": {"server": {"momentum": 0.5}}},
        repeats=2,
    )
    assert len(found) == 16
    assert len({case.name for case in found}) == 16
    assert found[0].name == "plain,clip_norm=0.2,epsilon=2,r1"
    last = found[-1]
    assert last.name == "momentum,clip_norm=0.4,epsilon=8,r2"
    assert (last.recipe.run.rounds, last.recipe.server.momentum, last.epsilon) == (4, 0.5, 8.0)
    assert last.recipe.privacy.clip_norm == 0.4
    assert last.recipe.server.optimizer == "momentum"  # what a variant does not name stays
    assert last.settings == {"variant": "momentum", "privacy.clip_norm": 0.4, "epsilon": 8}
    assert all(case.recipe.run.seed is None for case in found)


def test_keys_with_one_ending_are_named_in_full(here: Path) -> None:
    found = cases(here, axes={"work": {"learning_rate": [0.5]}, "server": {"learning_rate": [1.0]}}, seeds=[3])
    assert [case.name for case in found] == ["work.learning_rate=0.5,server.learning_rate=1.0,s3"]
    assert found[0].recipe.run.seed == 3


def test_a_sweep_without_axes_is_one_case(here: Path) -> None:
    assert [case.name for case in cases(here)] == ["base"]


def test_a_file_is_read_with_its_recipe_beside_it(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = 'name = "cells"\nrecipe = "tiny.toml"\n[axes]\nwork.trainable = [["cell"], ["cell", "output"]]\n'
    (here / "cells.toml").write_text(text)
    (here / "else").mkdir()
    monkeypatch.chdir(here / "else")
    name, found = load_grid(here / "cells.toml")
    assert name == "cells"
    assert [case.name for case in found] == ["trainable=cell", "trainable=cell+output"]


def test_a_case_is_the_same_after_json(here: Path) -> None:
    [case] = cases(here, epsilon=4)
    assert SweepCase.from_dict(case.as_dict()) == case


@pytest.mark.parametrize(
    ("grid", "sentence"),
    [
        ({"axes": {"privacy": {"clip_nrm": [1]}}}, "Case clip_nrm=1: Unknown key privacy.clip_nrm in the recipe."),
        ({"axes": {"privacy": {"clip_norm": [0.2, 0]}}}, "Case clip_norm=0: Expected privacy.clip_norm > 0, got 0."),
        ({"axes": {"privacy": {"clip_norm": []}}}, "Expected axes.privacy.clip_norm to be a list of values, got []."),
        ({"axes": {"privacy": {"clip_norm": 0.2}}}, "Expected axes.privacy.clip_norm to be a list of values, got 0.2."),
        ({"axes": {"run": {"rounds": [2, 3, 2]}}}, "Expected each value of axes.run.rounds once, got 2 twice."),
        ({"axes": {"epsilon": [-1]}}, "Case epsilon=-1: Expected epsilon > 0, got -1."),
        ({"variants": {"a": {"epsilon": "much"}}}, "Case a: Expected epsilon > 0, got 'much'."),
        ({"variants": {"A": {}, "a": {}}}, "Two cases have the name 'A': each needs one of its own."),
        (
            {"variants": {"private": {}}},
            "The name 'private' of a case is that of a file which every sweep has: choose another.",
        ),
        (
            {"variants": {"a": {}, "a-words": {}}},
            "The case a-words has the name of the folder for the words of the case a.",
        ),
        (
            {"variants": {"../a": {}}},
            "Expected the name of a case to be up to 150 letters, digits and any of . _ + = , - got '../a'.",
        ),
        ({"seeds": [1, 1]}, "Expected each of seeds once, got [1, 1]."),
        ({"seeds": [1], "repeats": 2}, "Expected either seeds or repeats, got seeds and repeats = 2."),
        ({"repeats": 0}, "Expected repeats ≥ 1, got 0."),
        ({"axis": {}}, "Unknown key axis in the sweep."),
        ({"epsilon": 0}, "Expected epsilon > 0, got 0."),
        ({"repeats": 1000, "axes": {"run": {"rounds": [*range(1, 12)]}}}, "Expected at most 10,000 cases, got 11,000."),
        ({"variants": {"a": {"data": 3}}}, "Case a: Expected data to be a section of the recipe, got 3."),
        ({"data": {}}, "Expected the file of a sweep, got a recipe."),
    ],
)  # fmt: skip
def test_a_mistake_is_one_sentence_that_names_the_case(here: Path, grid: dict[str, Any], sentence: str) -> None:
    with pytest.raises(RecipeError) as raised:
        cases(here, **grid)
    assert raised.value.sentence == sentence


def test_a_recipe_that_is_not_there_and_no_recipe(here: Path) -> None:
    with pytest.raises(RecipeError, match="Expected a recipe file, got 'nothing'"):
        grid_of({"recipe": "nothing"}, here)
    with pytest.raises(RecipeError, match="The sweep has no recipe, which is required"):
        grid_of({}, here)
    with pytest.raises(RecipeError, match="does not exist"):
        load_grid(here / "none.toml")


def test_a_list_of_cases_has_names_and_is_not_empty() -> None:
    with pytest.raises(RecipeError, match="at least one case, got none"):
        checked([])
    with pytest.raises(RecipeError, match="Two cases have the name 'a'"):
        checked([SweepCase("a", tiny()), SweepCase("a", tiny(run={"rounds": 2}))])
