"""`tacit recipe`: list, show and schema."""

from __future__ import annotations

import json

from tacit.recipe.reading import RECIPES, find_recipe
from tacit.recipe.training import load_recipe


def test_show_prints_a_recipe_that_makes_the_same_run(tacit, here):
    answer = tacit("recipe", "show", "demo", "--set", "run.rounds=40")
    assert answer.code == 0
    (here / "shown.toml").write_text(answer.out, encoding="utf-8")
    assert load_recipe(here / "shown.toml") == load_recipe(find_recipe("demo"), ["run.rounds=40"])
    assert "rounds = 40                   # rounds of training" in answer.out


def test_show_as_json_has_every_default(tacit):
    shown = tacit("recipe", "show", "inspect_images", "--json").object
    assert shown["inspect"] == "images"
    assert shown["gan"]["privacy"]["mechanism"] == "gaussian"


def test_show_refuses_what_training_would_refuse(tacit):
    answer = tacit("recipe", "show", "demo", "--set", "privacy.clip_norm=-1")
    assert answer.refusal(2) == "Expected privacy.clip_norm > 0, got -1."
    assert tacit("recipe", "show", "nowhere").refusal(2).startswith("Expected a recipe file, got 'nowhere'")


def test_schema_is_json_for_each_kind(tacit):
    assert "privacy" in json.loads(tacit("recipe", "schema").out)["properties"]
    assert "gan" in json.loads(tacit("recipe", "schema", "images").out)["properties"]
    assert "look" in json.loads(tacit("recipe", "schema", "text").out)["properties"]
    assert tacit("recipe", "schema", "sound").refusal(2).startswith("Expected a kind of recipe among training")


def test_list_names_every_recipe_with_its_command_and_survives_a_broken_file(tacit, here):
    (here / "recipes").mkdir()
    (here / "recipes" / "broken.toml").write_text("name = \n")
    rows = {row["recipe"]: row for row in tacit("recipe", "list", "--json").object["recipes"]}
    assert {path.stem for path in RECIPES.glob("*.toml")} | {"broken"} == set(rows)
    assert rows["demo"]["commands"] == ["tacit train"]
    assert rows["fleet"]["commands"] == ["tacit serve", "tacit train"]
    assert rows["inspect_text"]["commands"] == ["tacit inspect text"]
    assert "is not valid TOML" in rows["broken"]["problem"]
    assert rows["demo"]["about"].startswith("A private next-word model")
    printed = tacit("recipe", "list")
    assert printed.code == 0
    assert "gboard_adaptive" in printed.out
