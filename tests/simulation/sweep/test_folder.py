"""The folder of a sweep: its cases never change, and only one process runs it."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from tacit.errors import RecipeError, RunError, StoreError
from tacit.recipe.sweep import SweepCase
from tacit.simulation.sweep.folder import MARKER, SweepFolder, reused_case
from tests.support.swept import begun, cases_with_noise, on_store, small_store
from tests.support.tiny_recipe import tiny


@pytest.fixture
def asked(tmp_path: Path) -> list[SweepCase]:
    return cases_with_noise(small_store(tmp_path / "store"), [2.0, 3.0])


def test_what_was_settled_is_read_again(tmp_path: Path, asked: list[SweepCase]) -> None:
    made = begun(tmp_path / "sweep", asked)
    again = SweepFolder.open(made.path)
    assert again == made
    assert again.compared(asked, add=False) == []
    assert not again.adaptive


def test_the_noise_for_an_epsilon_is_settled_once(tmp_path: Path) -> None:
    cases = [SweepCase("four", tiny(), epsilon=4.0), SweepCase("eight", tiny(), epsilon=8.0)]
    four, eight = begun(tmp_path / "sweep", cases).cases
    assert four.case.recipe.privacy.noise_multiplier == 0.8
    assert four.recipe.privacy.noise_multiplier > eight.recipe.privacy.noise_multiplier
    assert four.opened.plan["noise_multiplier"] == four.recipe.privacy.noise_multiplier


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        (lambda cases: cases[:1], "was begun with the case z3, which is not in the list any more"),
        (lambda cases: [*cases, replace(cases[0], name="z9")], "was begun without the case z9"),
        (
            lambda cases: [replace(cases[0], recipe=cases[1].recipe), cases[1]],
            "noise_multiplier = 2.0, and now has 3.0",
        ),
        (lambda cases: [replace(cases[0], epsilon=4.0), cases[1]], "with epsilon = None, and now has 4.0"),
    ],
)
def test_another_list_of_cases_is_refused(tmp_path: Path, asked: list[SweepCase], change, sentence: str) -> None:  # type: ignore[no-untyped-def]
    made = begun(tmp_path / "sweep", asked)
    with pytest.raises(RunError, match=sentence):
        made.compared(change(asked), add=False)


def test_cases_that_are_added_are_marked(tmp_path: Path, asked: list[SweepCase]) -> None:
    made = begun(tmp_path / "sweep", asked)
    new = replace(asked[0], name="z9")
    assert made.compared([*asked, new], add=True) == [new]
    made.with_cases([replace(made.cases[0], case=new)]).write()
    again = SweepFolder.open(made.path)
    assert [case.added for case in again.cases] == [0, 0, 1]
    assert again.adaptive


def test_folders_that_are_taken_are_refused(tmp_path: Path, asked: list[SweepCase]) -> None:
    made = begun(tmp_path / "sweep", asked)
    with pytest.raises(RunError, match="There is a sweep in"):
        SweepFolder.create(made.path, made.cases)
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "file").touch()
    with pytest.raises(RunError, match="Expected an empty or a new folder"):
        SweepFolder.create(tmp_path / "full", made.cases)
    with pytest.raises(RunError, match="which is no sweep"):
        SweepFolder.open(tmp_path / "full")
    with pytest.raises(RunError, match="which does not exist"):
        SweepFolder.open(tmp_path / "nowhere")


@pytest.mark.parametrize("text", ["{", "[]", '{"tacit sweep": 1}', '{"tacit sweep": 1, "cases": [{}], "places": []}'])
def test_a_damaged_list_of_cases_is_one_sentence(tmp_path: Path, text: str) -> None:
    (tmp_path / MARKER).write_text(text)
    with pytest.raises(RunError, match="damaged"):
        SweepFolder.open(tmp_path)


def test_a_list_of_another_format_is_one_sentence(tmp_path: Path) -> None:
    (tmp_path / MARKER).write_text(json.dumps({"tacit sweep": 2}))
    with pytest.raises(RunError, match="has format 2: this version of Tacit reads format 1"):
        SweepFolder.open(tmp_path)


def test_one_process_runs_a_sweep(tmp_path: Path, asked: list[SweepCase]) -> None:
    made = begun(tmp_path / "sweep", asked)
    with made.locked(), pytest.raises(RunError, match="Another process runs the sweep"), made.locked():
        pass
    with made.locked():
        pass


def test_a_sweep_that_moved_knows_both_places(tmp_path: Path, asked: list[SweepCase]) -> None:
    made = begun(tmp_path / "sweep", asked)
    made.path.rename(tmp_path / "moved")
    moved = SweepFolder.open(tmp_path / "moved").here()
    assert moved.places == (str(tmp_path / "sweep"), str(tmp_path / "moved"))
    assert SweepFolder.open(moved.path) == moved


def test_a_mistake_that_shows_only_when_a_case_is_built_names_the_case(tmp_path: Path) -> None:
    store = small_store(tmp_path / "store")
    cases = [SweepCase("good", on_store(store)), SweepCase("bad", on_store(tmp_path / "none"))]
    with pytest.raises(StoreError, match=r"Case bad: .*none"):
        begun(tmp_path / "sweep", cases)
    with pytest.raises(RecipeError, match="Case much: Expected a recipe with noise for epsilon 4"):
        begun(
            tmp_path / "sweep", [SweepCase("much", tiny(privacy={"mechanism": "none", "noise_multiplier": 0.0}), 4.0)]
        )
    assert not (tmp_path / "sweep").exists()


def test_a_case_that_reuses_another_ones_model_waits_for_it(tmp_path: Path) -> None:
    recipe = tiny()
    assert reused_case(recipe, tmp_path) is None
    public = {"world": "keyboard", "world_seed": 2, "steps": 1, "reuse": str(tmp_path / "first")}
    reusing = type(recipe).model_validate({**recipe.model_dump(mode="json", exclude_none=True), "pretrain": public})
    assert reused_case(reusing, tmp_path) == "first"
    assert reused_case(reusing, tmp_path / "else") is None
