"""The noise for a target epsilon: never too little, hardly ever too much, and for everything that the run counts."""

from __future__ import annotations

import math
from typing import Any

import pytest

from tacit.errors import RecipeError
from tacit.recipe.target import at_epsilon
from tacit.recipe.training import Recipe, parse_recipe

POISSON: dict[str, Any] = {"population": 5_000, "cohort": 200, "clip_norm": 0.5, "noise_multiplier": 1.0, "delta": 1e-6}
PRIVACY = {
    "poisson": POISSON,
    "fixed": POISSON | {"sampling": "fixed"},
    "check_in": POISSON | {"sampling": "check_in", "min_separation": 9, "max_participation": 2},
    "tree": POISSON | {"mechanism": "tree", "sampling": "check_in", "min_separation": 9, "max_participation": 2},
    "adaptive": POISSON | {"adaptive": {}},
}


def recipe(privacy: dict[str, Any], **sections: Any) -> Recipe:
    return parse_recipe({"data": {"store": "nowhere"}, "privacy": privacy, "run": {"rounds": 20}, **sections})


@pytest.mark.parametrize("privacy", PRIVACY.values(), ids=PRIVACY.keys())
@pytest.mark.parametrize("words", [None, {"epsilon": 0.5}], ids=["public words", "discovered words"])
def test_the_target_is_met_and_used(privacy: dict[str, Any], words: dict[str, Any] | None) -> None:
    found = at_epsilon(recipe(privacy, **({} if words is None else {"vocabulary": words})), 3.0)
    assert 0.97 * 3.0 < found.planned.epsilon <= 3.0
    assert found.recipe.privacy.noise_multiplier != 1.0
    assert found.recipe.run.rounds == 20


def test_discovered_words_leave_less_for_training() -> None:
    alone = at_epsilon(recipe(POISSON), 2.0).recipe.privacy.noise_multiplier
    less = at_epsilon(recipe(POISSON, vocabulary={"epsilon": 1.0}), 2.0).recipe.privacy.noise_multiplier
    assert less > alone


@pytest.mark.parametrize(
    ("changes", "target", "said"),
    [
        ({"privacy": POISSON | {"mechanism": "none", "noise_multiplier": 0}}, 1.0, "a recipe with noise"),
        ({"run": {"rounds": 20, "seed": 1}}, 1.0, "because the noise can be replayed"),
        ({"vocabulary": {"epsilon": 2.0}}, 1.0, "The discovery of words alone costs epsilon"),
        ({}, 1e-9, "No noise multiplier up to"),
        ({}, 0.0, "Expected an epsilon above 0"),
        ({}, math.inf, "Expected an epsilon above 0"),
        ({}, math.nan, "Expected an epsilon above 0"),
    ],
)
def test_what_no_noise_can_reach_is_refused(changes: dict[str, Any], target: float, said: str) -> None:
    sections = {"privacy": POISSON} | changes
    with pytest.raises(RecipeError, match=said):
        at_epsilon(recipe(sections.pop("privacy"), **sections), target)
