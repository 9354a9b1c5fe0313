"""Recipes of inspections of text: their keys, and one sentence for each mistake."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tacit.errors import RecipeError
from tacit.recipe.reading import find_recipe
from tacit.recipe.text_inspection import TEXT, load_text_inspection
from tests.support.tiny_text import tiny_text


def test_the_recipe_that_comes_along_is_sound_and_private() -> None:
    recipe = load_text_inspection(TEXT)
    assert recipe.reasons_not_private() == ()
    assert recipe.fault is not None
    assert (recipe.fault.kind, recipe.fault.share) == ("concatenated", 0.1)
    assert recipe.longest == recipe.data.length - 1
    assert load_text_inspection(TEXT, ["fault.share=0"]).fault.share == 0  # type: ignore[union-attr]


def test_it_says_what_it_is_for() -> None:
    assert 'inspect = "text"' in tiny_text().to_toml()
    with pytest.raises(
        RecipeError, match='Expected the recipe of an inspection of text, got one with inspect = "images"'
    ):
        load_text_inspection(find_recipe("inspect_images"))


def test_a_small_run_may_stand_for_a_larger_one() -> None:
    recipe = tiny_text(scale={"population": 20_000, "cohort": 80, "delta": 1e-6})
    assert recipe.scale is not None
    assert recipe.scale.cohort == 80


def test_it_is_written_and_read_back_whole(tmp_path: Path) -> None:
    recipe = tiny_text(fault={"share": 0.5}, model={"layers": 2})
    (tmp_path / "recipe.toml").write_text(recipe.to_toml())
    assert load_text_inspection(tmp_path / "recipe.toml") == recipe


def test_a_store_takes_the_place_of_the_world_and_of_its_fault() -> None:
    recipe = load_text_inspection(TEXT, ["data.held_out=7"], store=Path("my store"))
    assert (recipe.data.store, recipe.data.world, recipe.data.held_out) == ("my store", None, 7)
    assert recipe.fault is None
    again = load_text_inspection(TEXT, ["fault.share=0.2"], store=Path("my store"))
    assert again.fault is not None  # asked for


@pytest.mark.parametrize(
    ("sections", "sentence"),
    [
        ({"fault": {"share": 1.5}}, "Expected fault.share ≤ 1, got 1.5."),
        ({"fault": {"share": 0.1, "kind": "upside_down"}}, "Expected fault.kind to be"),
        ({"fault": {"shares": 0.1}}, "The recipe has no fault.share"),
        ({"look": {"tops": 3}}, "Unknown key look.tops in the recipe."),
        ({"data": {"layout": "windows"}}, "Expected data.layout = 'sentences'"),
        ({"data": {"length": 1}}, "Expected data.length ≥ 2"),
        ({"data": {"world": None, "store": "x", "iid": True}}, "Expected data.iid = false"),
        ({"model": {"cell": "lstm"}}, "Expected no model.cell"),
        ({"audit": {"plan": "plan.json"}}, "Expected no [audit]"),
        (
            {"fleet": {}, "privacy": {"sampling": "check_in", "min_separation": 1, "max_participation": 9}},
            "Expected no [fleet]",
        ),
    ],
)
def test_a_mistake_is_one_sentence(sections: dict[str, Any], sentence: str) -> None:
    with pytest.raises(RecipeError) as refused:
        tiny_text(**sections)
    assert refused.value.sentence.startswith(sentence)


def test_an_unknown_key_comes_with_the_keys_of_the_inspections_own_section() -> None:
    with pytest.raises(RecipeError) as refused:
        tiny_text(look={"tops": 3})
    assert refused.value.hint == "Did you mean top?"
    with pytest.raises(RecipeError) as refused:
        tiny_text(look={"zoom": 3})
    assert refused.value.hint == "Known keys here: top, width, drawn, seed."
