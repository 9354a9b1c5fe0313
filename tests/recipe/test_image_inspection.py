"""Recipes of inspections of images: their keys, and the mistakes that they refuse."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest

from tacit.errors import RecipeError, RunError
from tacit.recipe.image_inspection import (
    IMAGES,
    RECIPE,
    image_inspection_of,
    load_image_inspection,
    parse_image_inspection,
    refuse_if_inspected,
)
from tacit.recipe.reading import find_recipe
from tacit.recipe.training import load_recipe
from tests.support.tiny_images import tiny_images


def test_the_shipped_recipe_is_one_and_says_all() -> None:
    recipe = load_image_inspection(IMAGES)
    assert recipe.fault is not None
    assert (recipe.fault.kind, recipe.fault.share) == ("inverted", 0.5)
    assert parse_image_inspection(tomllib.loads(recipe.to_toml())) == recipe
    with pytest.raises(RecipeError, match="got one for an inspection"):
        load_recipe(find_recipe("inspect_images"))


def test_a_store_replaces_the_world_and_its_fault() -> None:
    with pytest.raises(RecipeError, match=r"Expected data\.classes with data\.store"):
        load_image_inspection(IMAGES, store=Path("digits"))
    recipe = load_image_inspection(IMAGES, ["data.classes=10"], store=Path("digits"), classifier=Path("runs/x"))
    assert (recipe.data.store, recipe.data.world, recipe.data.classes) == ("digits", None, 10)
    assert recipe.fault is None
    assert recipe.classifier.trained == "runs/x"


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ("fault.share=2", "fault.share ≤ 1, got 2"),
        ("data.store=x", "either data.world or data.store, got both"),
        ("data.color=1", "Unknown key data.color"),
        ("selection.percentiles=[0.2, 0.8]", "either selection.percentiles or selection.thresholds, got both"),
        ("selection.thresholds=[0.8, 0.2]", "0 < low ≤ high < 1 in selection.thresholds, got 0.8 and 0.2"),
        ("selection.privacy.clip_norm=2.0", "selection.privacy.clip_norm = 1: a user counts in one bin, got 2"),
        ("selection.privacy.total_weight=20", "no selection.privacy.total_weight: every user adds 1 to one bin"),
        ("selection.privacy.clip_schedule=[{round=0, clip_norm=0.1}]", "no selection.privacy.clip_schedule"),
        ("selection.minimum_examples=9", "selection.minimum_examples ≤ data.most_images = 8, got 9: no user has"),
        (
            "gan.privacy.delta=0.03",
            "gan.privacy.delta < 1/selection.privacy.population = 0.025, because all users are sampled",
        ),
        ("gan.privacy.sampling=fixed", "privacy.sampling = 'poisson' in an inspection, got 'fixed'"),
        ("gan.privacy.adaptive={count_noise=5.0}", "neither privacy.adaptive nor privacy.secagg"),
        ("gan.server.average=last", "server.average = 'none' in an inspection"),
        ("classifier.server.average=exponential", "server.average = 'none' in an inspection"),
        ("gan.generator.batch_size=1", "gan.generator.batch_size ≥ 2, got 1"),
        ("look.made=3", "look.made ≥ 64, got 3"),
    ],
)
def test_mistakes_are_one_sentence(change: str, sentence: str) -> None:
    with pytest.raises(RecipeError) as found:
        tiny_images(change)
    assert sentence in found.value.sentence


def test_without_noise_a_user_still_counts_one_in_their_bin() -> None:
    silent = ("selection.privacy.mechanism=none", "selection.privacy.noise_multiplier=0.0")
    with pytest.raises(RecipeError, match=r"selection\.privacy\.clip_norm = 1: a user counts in one bin, got 0\.5"):
        tiny_images(*silent, "selection.privacy.clip_norm=0.5")


def test_folders_that_are_not_inspections(tmp_path: Path) -> None:
    with pytest.raises(RunError, match="does not exist"):
        image_inspection_of(tmp_path / "nothing")
    with pytest.raises(RunError, match="is not an inspection of images"):
        image_inspection_of(tmp_path)
    (tmp_path / RECIPE).write_text("name = [")
    with pytest.raises(RunError, match="is damaged"):
        image_inspection_of(tmp_path)
    with pytest.raises(RunError, match="holds an inspection already"):
        refuse_if_inspected(tmp_path)
