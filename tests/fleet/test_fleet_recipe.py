"""A [fleet] section and what it asks of the rest of a recipe."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from tacit.errors import FleetError, PrivacyError, RecipeError
from tacit.fleet.server.serving import ServeSettings
from tacit.recipe.reading import find_recipe
from tacit.recipe.training import load_recipe, parse_recipe
from tacit.training.datasets import open_dataset
from tests.support.fleet.worlds import recipe_tree


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        (
            {"privacy": {"sampling": "poisson", "min_separation": None, "max_participation": None}},
            "Expected privacy.sampling = 'check_in' with a [fleet], whose devices come when they are available, got 'poisson'.",
        ),
        ({"fleet": {"over_selection": 0.9}}, "Expected fleet.over_selection ≥ 1, got 0.9."),
        ({"fleet": {"deadline_s": 0}}, "Expected fleet.deadline_s > 0, got 0."),
        (
            {"fleet": {"evaluates": "runs/x"}},
            "Expected privacy.clip_norm = 1 and clipping = 'flat', without adaptive clipping or a clipped estimator, with "
            "fleet.evaluates: a device's metrics are one vector of norm at most 1.",
        ),
        (
            {"audit": {"plan": "plan.json"}},
            "Expected neither [audit] nor [scale] with a [fleet]: both need simulated users.",
        ),
    ],
)
def test_one_sentence_a_mistake(changes: dict[str, Any], sentence: str) -> None:
    tree = {**recipe_tree(), "fleet": {}}
    for name, section in changes.items():
        tree[name] = {**tree.get(name, {}), **section}
    with pytest.raises(RecipeError) as caught:
        parse_recipe(tree)
    assert caught.value.sentence == sentence


def test_a_recipe_without_a_fleet_reads_as_it_did_before_there_was_one() -> None:
    assert "fleet" not in parse_recipe(recipe_tree()).to_toml()


def test_the_projects_recipe_claims_privacy() -> None:
    recipe = load_recipe(find_recipe("fleet"))
    assert recipe.fleet is not None
    assert recipe.reasons_not_private() == ()


def test_devices_are_not_counted_in_the_servers_own_data() -> None:
    few = recipe_tree(data={"users": 3})
    with pytest.raises(PrivacyError, match="users in the data"):
        open_dataset(parse_recipe(few))
    open_dataset(parse_recipe({**few, "fleet": {}}))


def documented(*more: str) -> ServeSettings:
    """What docs/fleet.md has a reader serve first, with further settings."""
    page = (Path(__file__).parent.parent.parent / "docs" / "fleet.md").read_text()
    (command,) = re.findall(r"^tacit serve fleet --out server((?:.*\\\n)*.*)$", page, re.M)
    changes = re.findall(r"--set (\S+)", command)
    return ServeSettings(out=Path("server"), recipe=load_recipe(find_recipe("fleet"), [*changes, *more]))


def test_the_documented_server_works_and_with_secure_aggregation_it_needs_one_device_more() -> None:
    secure = "privacy.secagg={bits = 24}"
    documented().check()
    with pytest.raises(FleetError, match="can end with a goal of 2 reports") as raised:
        documented(secure).check()
    assert raised.value.hint == "Set privacy.cohort to 3 or more, or lower fleet.dropout."
    documented(secure, "privacy.cohort=3").check()
