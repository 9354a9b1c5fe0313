"""Settings that a search may try: which lie next to each other, and the noise that each needs."""

from __future__ import annotations

import tomllib
from typing import Any

import pytest

from tacit.errors import RecipeError
from tacit.learning.averaging import LastAverage
from tacit.recipe.target import at_epsilon
from tacit.recipe.training import parse_recipe
from tacit.recipe.tuning import ROUNDS, SCALED, Setting, Tunable, differences
from tests.support.public_text import tree_with

PARTS = ("embedding", "cell", "output_bias")


def tunable(epsilon: float = 4.0, **sections: dict[str, Any]) -> Tunable:
    return Tunable(tree_with("public", "private", **sections), epsilon, PARTS)


def values(setting: Setting) -> dict[str, Any]:
    return dict(setting)


def test_neighbours_differ_in_one_key() -> None:
    own = tunable().own
    found = list(tunable().neighbours(own))
    assert all(len(differences(each, own)) == 1 for each in found)
    changed = [(key, value) for each in found for key, value in differences(each, own).items()]
    assert {key for key, _ in changed} == set(values(own))
    rates = {(key, value) for key, value in changed if key in SCALED}
    assert rates == {(key, values(own)[key] * factor) for key in SCALED for factor in (0.5, 2.0)}
    assert {value for key, value in changed if key == ROUNDS} == {1, 6}
    assert ("work.trainable", ("cell", "output_bias")) in changed


def test_a_search_stays_near_the_recipes_own_values() -> None:
    able = tunable()
    seen, new = {able.own}, {able.own}
    clips = set()
    while new:
        new = {
            each
            for setting in new
            for each in able.neighbours(setting)
            if set(differences(each, able.own)) <= {"privacy.clip_norm"} and each not in seen
        }
        seen |= new
        clips |= {values(each)["privacy.clip_norm"] for each in new}
    assert max(clips) == pytest.approx(8 * 0.3)
    assert min(clips) == pytest.approx(0.3 / 8)


def test_a_setting_has_the_noise_of_the_target_for_its_rounds() -> None:
    able = tunable()
    for rounds in (3, 6):
        setting = tuple((key, rounds if key == ROUNDS else value) for key, value in able.own)
        found = able.targeted(setting)
        tree = tree_with("public", "private", run={"rounds": rounds})
        assert (
            found.recipe.privacy.noise_multiplier == at_epsilon(parse_recipe(tree), 4.0).recipe.privacy.noise_multiplier
        )
        assert found.planned.epsilon <= 4.0
        assert found.recipe.run.rounds == rounds
    longer = tuple((key, 6 if key == ROUNDS else value) for key, value in able.own)
    assert (
        able.targeted(longer).recipe.privacy.noise_multiplier > able.targeted(able.own).recipe.privacy.noise_multiplier
    )


def test_the_words_share_of_the_epsilon_is_counted() -> None:
    with_words = tunable(vocabulary={"epsilon": 1.0, "size": 50}).targeted(tunable().own)
    assert (
        with_words.recipe.privacy.noise_multiplier > tunable().targeted(tunable().own).recipe.privacy.noise_multiplier
    )


def test_more_rounds_of_users_who_check_in_are_possible() -> None:
    """How often a user may take part follows from the rounds, so the file's tree is changed, and not the filled-in recipe."""
    plan = {"sampling": "check_in", "mechanism": "blt", "min_separation": 3, "cohort": 400}
    able = tunable(privacy=plan, run={"rounds": 8})
    assert {values(each)[ROUNDS] for each in able.neighbours(able.own)} == {4, 8, 16}


@pytest.mark.parametrize(
    "privacy",
    [{"adaptive": {"count_noise": 25.0}}, {"clip_schedule": [{"round": 1, "clip_norm": 0.2}]}],
    ids=["adaptive", "schedule"],
)
def test_a_clip_that_changes_by_itself_is_left_alone(privacy: dict[str, Any]) -> None:
    able = tunable(privacy=privacy)
    assert able._others("privacy.clip_norm", 0.3) == []
    assert able._others("work.learning_rate", 0.5) == [0.25, 1.0]


def test_a_setting_that_the_plan_cannot_run_is_left_out() -> None:
    plan = {"sampling": "check_in", "mechanism": "tree", "min_separation": 3, "cohort": 400, "restarts": [5]}
    able = tunable(privacy=plan, run={"rounds": 8})
    assert {values(each)[ROUNDS] for each in able.neighbours(able.own)} == {8, 16}  # 4 rounds end before the restart


def test_an_epsilon_that_no_noise_reaches_is_refused_before_anything_is_tried() -> None:
    with pytest.raises(RecipeError, match="The discovery of words alone costs"):
        tunable(vocabulary={"epsilon": 9.0})


def test_a_tuned_recipe_reads_as_it_was_chosen_and_keeps_the_others_keys() -> None:
    able = tunable(server={"average": "exponential", "average_decay": 0.5})
    setting = tuple((key, {ROUNDS: 6, "work.trainable": ("cell",)}.get(key, value)) for key, value in able.own)
    recipe = able.targeted(setting, LastAverage(2).settings()).recipe
    assert (recipe.server.average, recipe.server.average_rounds) == ("last", 2)
    text = able.written(recipe, ["made for a test"])
    assert text.startswith("# made for a test\n")
    assert parse_recipe(tomllib.loads(text)) == recipe
    assert "average_decay" not in text
    plain = able.targeted(able.own, {}).recipe
    assert plain.server.average == "none"
