"""The `scale_up` line of a recipe: what turns it into the paper's run. Each of them can be trained as it stands."""

from __future__ import annotations

import shlex
import tomllib
from pathlib import Path

import pytest

from tacit.recipe.training import load_recipe
from tacit.simulation.training import setup_of_recipe

RECIPES = Path(__file__).parents[2] / "recipes"
SCALED = [
    path for path in sorted(RECIPES.glob("*.toml")) if "scale_up" in tomllib.loads(path.read_text()).get("paper", {})
]


def changes_of(path: Path) -> list[str]:
    words = shlex.split(tomllib.loads(path.read_text())["paper"]["scale_up"])
    assert words[::2] == ["--set"] * (len(words) // 2)
    return words[1::2]


@pytest.mark.slow
@pytest.mark.parametrize("path", SCALED, ids=lambda path: path.stem)
def test_a_recipe_at_the_papers_size_can_be_trained(path: Path, tmp_path: Path):
    recipe = load_recipe(path, changes_of(path))
    assert recipe.privacy.population >= 700_000
    setup = setup_of_recipe(recipe, tmp_path / "run")
    assert setup.plan.claims
    assert len(setup.dataset.train) >= recipe.privacy.population - (recipe.data.held_out or 0)


def test_seven_recipes_say_how_to_scale_up():
    assert len(SCALED) == 7
