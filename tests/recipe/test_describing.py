"""Every key of every recipe is described, and the description agrees with what is checked."""

from __future__ import annotations

import tomllib

import pytest

from tacit.errors import RecipeError
from tacit.recipe.describing import Key, json_schema, keys_of, section_text, sections_of
from tacit.recipe.kinds import KINDS, heading_of, kind_of_recipe, known_recipes, load_any
from tacit.recipe.reading import RECIPES, find_recipe, read_toml
from tacit.recipe.training import Recipe, load_recipe, parse_recipe
from tacit.recipe.writing import commented_toml

OWN = sorted(RECIPES.glob("*.toml"))
SCHEMAS = [pytest.param(kind.schema, id=name) for name, kind in KINDS.items()]


def keys_by_name(schema) -> dict[str, Key]:
    return {
        f"{name}.{key.name}" if name else key.name: key
        for name, section in sections_of(schema)
        for key in keys_of(section)
    }


@pytest.mark.parametrize("schema", SCHEMAS)
def test_every_key_and_section_says_what_it_means(schema):
    assert [name for name, key in keys_by_name(schema).items() if not key.meaning] == []
    assert [name for name, section in sections_of(schema) if not section_text(section)] == []


def test_a_key_has_type_default_range_and_choices():
    keys = keys_by_name(Recipe)
    assert (keys["run.rounds"].required, keys["run.rounds"].default_text, keys["run.rounds"].bounds) == (
        True,
        "",
        "> 0",
    )
    assert keys["data.held_out"].bounds == "> 0 and ≤ 100,000"
    assert keys["data.world_seed"].bounds == "≥ 0 and < 4,294,967,296"  # from the type, which fields share
    assert keys["privacy.clip_norm"].bounds == "> 0"  # inside an optional type
    assert keys["server.optimizer"].choices == ('"sgd"', '"momentum"', '"nesterov"', '"adam"')
    assert keys["data.layout"].default_text == '"windows"'
    assert keys["privacy.clip_schedule"].kind == "list of {round, clip_norm}"
    assert keys["privacy.restarts"].kind == "list of whole numbers"
    assert keys["privacy.adaptive"].section is not None
    assert "privacy.adaptive.quantile" in keys


@pytest.mark.parametrize("path", OWN, ids=lambda path: path.stem)
def test_a_recipe_written_with_comments_reads_as_the_same_recipe(path, tmp_path):
    recipe = load_any(path)
    text = commented_toml(recipe)
    assert max(map(len, text.partition("[paper]")[0].splitlines())) <= 120
    (tmp_path / "written.toml").write_text(text, encoding="utf-8")
    assert load_any(tmp_path / "written.toml") == recipe


def test_every_line_with_a_value_is_explained():
    text = commented_toml(load_recipe(find_recipe("demo")))
    plain = [line for line in text.splitlines() if " = " in line and "# " not in line]
    assert plain == []


def test_only_the_wanted_keys_are_written_and_the_rest_are_defaults():
    recipe = load_recipe(find_recipe("gboard_adaptive"))
    text = commented_toml(recipe, only=["name", "data", "privacy.population", "privacy.adaptive.quantile"])
    tree = tomllib.loads(text)
    assert set(tree) == {"name", "data", "privacy"}
    assert tree["data"] == recipe.data.model_dump(exclude_none=True)
    assert tree["privacy"] == {"population": 100_000, "adaptive": {"quantile": 0.5}}
    assert "[privacy.adaptive]" in text
    nested = commented_toml(recipe, only=["privacy.adaptive.quantile"])
    assert "[privacy]" not in nested


def test_the_clip_of_later_rounds_and_notes_are_written():
    recipe = load_recipe(find_recipe("dp_fedavg"), ["privacy.clip_schedule=[{round=60, clip_norm=2.0}]"])
    assert parse_recipe(tomllib.loads(commented_toml(recipe))) == recipe
    assert recipe.paper


@pytest.mark.parametrize("schema", SCHEMAS)
def test_the_json_schema_describes_every_property_and_has_no_examples_of_python(schema):
    found = json_schema(schema)
    for part in (found, *found["$defs"].values()):
        assert part["description"]
        assert ">>>" not in part["description"]
        assert part["additionalProperties"] is False
        for name, each in part["properties"].items():
            assert "description" in each or "$ref" in each or "anyOf" in each, name


def test_the_kind_of_a_recipe_is_told_by_its_file():
    assert {kind_of_recipe(read_toml(path)).command for path in OWN} == {kind.command for kind in KINDS.values()}
    with pytest.raises(RecipeError, match="among training, text, images, bias, got 'sound'"):
        kind_of_recipe({"inspect": "sound"})


def test_the_heading_of_a_recipe_stops_at_the_first_full_stop_or_colon(tmp_path, monkeypatch):
    path = tmp_path / "recipes" / "mine.toml"
    path.parent.mkdir()
    path.write_text("# The method of Miller et al. (2018), on\n# our data. It takes long.\nname = 'x'\n# never")
    assert heading_of(path) == "The method of Miller et al. (2018), on our data"
    path.write_text("# Ours: short\n")
    assert heading_of(path) == "Ours"
    path.write_text("name = 'x'\n")
    assert heading_of(path) == ""
    monkeypatch.chdir(tmp_path)
    assert known_recipes()["mine"].resolve() == path
    assert "demo" in known_recipes()
