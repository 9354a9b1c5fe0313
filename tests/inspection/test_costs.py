"""The cost of several models together: each counts once, and nothing is claimed that is not proven."""

from __future__ import annotations

from pathlib import Path

import pytest

import tacit
from tacit.inspection.costs import cost_together, price_together
from tacit.privacy.record.ledger import Ledger, read_ledger
from tacit.simulation.training import start_run
from tests.support.tiny_recipe import tiny


@pytest.fixture(scope="module")
def ledgers(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Ledger]:
    """Two runs on sampled users, and one whose users check in."""
    here = tmp_path_factory.mktemp("runs")
    quick = {"noise_multiplier": 4.0}
    promised = {"sampling": "check_in", "min_separation": 1, "max_participation": 1}
    recipes = {
        "one": tiny(run={"rounds": 1}, privacy=quick),
        "other": tiny(run={"rounds": 2}, privacy=quick),
        "checked in": tiny(run={"rounds": 1}, privacy={**quick, **promised}),
    }
    for name, recipe in recipes.items():
        start_run(recipe, here / name, tacit.Callback())
    return {name: read_ledger(Path(here / name / "ledger.jsonl")) for name in recipes}


def test_models_add_up_and_each_counts_once(ledgers: dict[str, Ledger]) -> None:
    one, other = ledgers["one"], ledgers["other"]
    alone, both = cost_together([other]), cost_together([one, other])
    assert 0 < alone["epsilon"] < both["epsilon"]
    assert (both["models"], both["releases"]) == (2, 3)
    assert cost_together([one, other, one]) == both
    assert "All 2 models together: ε = " in price_together(both)
    assert "over 3 releases" in price_together(both)


def test_models_under_different_neighbours_are_no_sum(ledgers: dict[str, Ledger]) -> None:
    cost = cost_together([ledgers["one"], ledgers["checked in"]])
    assert cost["epsilon"] is None
    assert "adjacency" in price_together(cost)
    assert price_together(cost).startswith("No privacy can be claimed for all models together: ")
