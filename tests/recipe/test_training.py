"""Recipes: every mistake is one sentence that names field, value and remedy."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest

from tacit.errors import RecipeError
from tacit.privacy.record.reasons import Why
from tacit.recipe.reading import RECIPES, find_recipe
from tacit.recipe.training import load_recipe, parse_recipe

DEMO = RECIPES / "demo.toml"


@pytest.mark.parametrize(
    "path", sorted(set(RECIPES.glob("*.toml")) - set(RECIPES.glob("inspect_*.toml"))), ids=lambda path: path.stem
)
def test_the_projects_recipes_are_valid_and_survive_a_round_trip(path):
    recipe = load_recipe(path)
    assert parse_recipe(tomllib.loads(recipe.to_toml())) == recipe


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ("privacy.clip_norm=-1.0", "Expected privacy.clip_norm > 0, got -1.0."),
        ("privacy.cohort=600000", "Expected privacy.cohort ≤ privacy.population = 500000, got 600000."),
        ("privacy.clipnorm=1", "Unknown key privacy.clipnorm in the recipe."),
        ("colour=1", "Unknown key colour in the recipe."),
        (
            "server.optimizer=adagrad",
            "Expected server.optimizer to be 'sgd', 'momentum', 'nesterov' or 'adam', got \"adagrad\".",
        ),
        ("run.rounds=0", "Expected run.rounds > 0, got 0."),
        ("run.rounds=many", 'Expected run.rounds to be a whole number, got "many".'),
        ("run.rounds=2.5", "Expected run.rounds to be a whole number, got 2.5."),
        ("work.learning_rate=fast", 'Expected work.learning_rate to be a number, got "fast".'),
        (
            "work={learning_rate=0.5, update_penalty=2}",
            "Expected work.update_penalty < 1/work.learning_rate = 2, got 2.",
        ),
        (
            "work={kind='fedsgd', update_penalty=0.1}",
            "Expected work.update_penalty = 0 with 'fedsgd', whose one gradient is taken where the update is still zero, "
            "got 0.1.",
        ),
        ("data.iid=perhaps", 'Expected data.iid to be true or false, got "perhaps".'),
        ("data.shuffle_seed=-1", "Expected data.shuffle_seed ≥ 0, got -1."),
        ("model.init_seed=4294967296", "Expected model.init_seed < 4294967296, got 4294967296."),
        ("data=1", "Expected data to be a section of the recipe, got 1."),
        ("data.vocabulary=0", "Expected data.vocabulary ≥ 100, got 0."),
        ("data.store=somewhere", "Expected either data.world or data.store, got both."),
        (
            'privacy.sampling="replacement"',
            "Expected privacy.sampling to be 'poisson', 'fixed', 'check_in' or 'cyclic_poisson', got \"replacement\".",
        ),
        ("server.momentum=1.0", "Expected server.momentum < 1, got 1.0."),
        ('name="../up"', "Expected name to be letters, digits, dots, dashes and underscores, got"),
        ("nonsense", "Expected --set section.key=value, got 'nonsense'."),
        ("name.x=1", "Expected --set section.key=value, got 'name.x=1', where name is not a section."),
    ],
)
def test_one_sentence_a_mistake(change, sentence):
    with pytest.raises(RecipeError) as caught:
        load_recipe(DEMO, [change])
    assert caught.value.sentence.startswith(sentence)
    assert "\n" not in caught.value.sentence


def test_a_recipe_for_an_inspection_says_which_command_it_is_for():
    with pytest.raises(RecipeError) as caught:
        load_recipe(find_recipe("inspect_text"))
    assert caught.value.sentence == 'Expected a recipe for training, got one for an inspection (inspect = "text").'
    assert caught.value.hint == "Use it with: tacit inspect text"


def test_a_near_miss_is_suggested():
    with pytest.raises(RecipeError) as caught:
        load_recipe(DEMO, ["privacy.clipnorm=1"])
    assert caught.value.hint == "Did you mean clip_norm?"


def test_an_epsilon_in_the_recipe_is_told_where_it_goes():
    with pytest.raises(RecipeError, match=r"Unknown key privacy\.epsilon in the recipe") as caught:
        load_recipe(DEMO, ["privacy.epsilon=4"])
    assert "--epsilon" in str(caught.value.hint)


def test_a_large_number_is_shown_as_it_was_typed():
    with pytest.raises(RecipeError, match="got 2000000"):
        load_recipe(DEMO, ["privacy.cohort=2000000"])


@pytest.mark.parametrize(
    ("section", "sentence"),
    [
        ({"epochs": 1}, "Expected either pretrain.world or pretrain.store, got neither."),
        (
            {"world": "keyboard", "store": "s", "public": True, "epochs": 1},
            "Expected either pretrain.world or pretrain.store, got both.",
        ),
        ({"world": "keyboard"}, "Expected either pretrain.epochs or pretrain.steps, got neither."),
        (
            {"world": "keyboard", "epochs": 1, "steps": 1},
            "Expected either pretrain.epochs or pretrain.steps, got both.",
        ),
        (
            {"store": "letters", "epochs": 1},
            "Expected pretrain.public = true, which asserts that the text of pretrain.store = 'letters' is public, got false: "
            "a store is private unless you say otherwise.",
        ),
        (
            {"store": "s", "public": True, "epochs": 1, "style": "tidy"},
            "Expected pretrain.style with a world only, got 'tidy'.",
        ),
        ({"world": "keyboard", "epochs": 0}, "Expected pretrain.epochs > 0, got 0."),
        ({"world": "keyboard", "epochs": 1, "learning_rate": -1}, "Expected pretrain.learning_rate > 0, got -1."),
        ({"world": "moon", "epochs": 1}, "Expected pretrain.world to be 'keyboard', got \"moon\"."),
        ({"world": "keyboard", "epoch": 1}, "Unknown key pretrain.epoch in the recipe."),
    ],
)
def test_pretraining_has_one_source_and_one_length_and_a_store_must_be_called_public(section, sentence):
    tree = load_recipe(DEMO).model_dump(mode="json")
    with pytest.raises(RecipeError) as caught:
        parse_recipe({**tree, "pretrain": section})
    assert caught.value.sentence == sentence
    if "Unknown key" in sentence:
        assert caught.value.hint == "Did you mean epochs?"


def test_pretraining_survives_a_round_trip_and_a_recipe_without_it_is_as_it_was():
    recipe = load_recipe(DEMO, ["pretrain.world=keyboard", "pretrain.steps=5"])
    assert parse_recipe(tomllib.loads(recipe.to_toml())) == recipe
    assert "pretrain" not in load_recipe(DEMO).to_toml()


def test_a_missing_section_is_named():
    with pytest.raises(RecipeError, match="The recipe has no privacy, which is required"):
        parse_recipe({"data": {"world": "keyboard"}, "run": {"rounds": 1}})


def test_values_are_toml_or_plain_text():
    recipe = load_recipe(DEMO, ["work.learning_rate=0.25", "model.preset=benchmark", "run.seed=3"])
    assert (recipe.work.learning_rate, recipe.model.preset, recipe.run.seed) == (0.25, "benchmark", 3)


def test_recipes_are_found_by_name_or_path(tmp_path: Path):
    assert find_recipe("demo").name == "demo.toml"
    assert find_recipe(str(DEMO)) == DEMO
    with pytest.raises(RecipeError, match="got 'no-such', which does not exist") as caught:
        find_recipe("no-such")
    assert "demo" in str(caught.value.hint)
    broken = tmp_path / "broken.toml"
    broken.write_text("a = = 1")
    with pytest.raises(RecipeError, match="is not valid TOML"):
        load_recipe(broken)


def test_what_is_not_private_says_why():
    assert load_recipe(DEMO).reasons_not_private() == ()
    (reason,) = load_recipe(DEMO, ["run.seed=1"]).reasons_not_private()
    assert reason.code == Why.SEEDED
    assert "replayed" in reason.sentence


def test_devices_that_come_when_they_can_leave_no_room_for_another_participation():
    tree = load_recipe(DEMO).model_dump(mode="json")
    limits = {"sampling": "check_in", "min_separation": 3, "max_participation": 500}
    privacy = {**tree["privacy"], **limits, "participation": "ours:Rota"}
    with pytest.raises(RecipeError, match=r"no privacy\.participation with a \[population\] or a \[fleet\]"):
        parse_recipe({**tree, "privacy": privacy, "population": {}})
    assert parse_recipe({**tree, "privacy": privacy}).privacy.participation == "ours:Rota"
