"""What a run cost is one number: every command that states it states the same, and says which participation it is from."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from safetensors import safe_open

from tacit.keyboard import comparison_users as comparison_users
from tacit.privacy.statement.wording import epsilon_text, round_up
from tacit.runs.cost import HAPPENED
from tacit.runs.folder import RunFolder
from tacit.runs.journal import RunJournal
from tests.support.commands import Tacit
from tests.support.tiny_recipe import tiny

# Users may come every other round. In six rounds of two users hardly anybody comes three times (one run in 5,000), so what
# happened costs less than what was promised.
CHECK_IN = {
    "mechanism": "tree",
    "sampling": "check_in",
    "population": 400,
    "cohort": 2,
    "min_separation": 1,
    "max_participation": 3,
}


@pytest.fixture
def recipe(here: Path) -> Path:
    (here / "check_in.toml").write_text(tiny(privacy=CHECK_IN).to_toml())
    return here / "check_in.toml"


def test_every_command_states_the_same_epsilon(
    tacit: Tacit, recipe: Path, here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(comparison_users, "WORLD_READ", 300)
    trained = tacit("train", recipe, "--out", "run", "--json").object
    stated, happened = trained["privacy"]["epsilon"], trained[HAPPENED]["epsilon"]
    assert happened < stated
    assert json.loads((here / "run/summary.json").read_text())["privacy"]["epsilon"] == stated
    assert HAPPENED not in (here / "run/summary.json").read_text()

    account = tacit("account", "run", "run", "--json").object
    assert (account["epsilon"], account[HAPPENED]["epsilon"]) == (stated, happened)
    composed = tacit("account", "compose", "run", "--json").object
    assert (composed["epsilon"], composed[HAPPENED]["epsilon"]) == (stated, happened)
    shown = tacit("runs", "show", "run", "--json").object["privacy"]
    assert (shown["epsilon"], shown[HAPPENED]["epsilon"]) == (stated, happened)
    assert tacit("runs", "list", ".", "--json").object["runs"][0]["privacy"]["epsilon"] == stated
    guarantee = tacit("guarantee", "run", "--json").object
    assert guarantee["epsilon"] == stated
    assert guarantee["computed_from"].startswith("the participation that the plan promises (at most 3 times a user")
    tacit("export", "run", "--safetensors", "model.safetensors")
    with safe_open("model.safetensors", "numpy") as file:
        card = json.loads(file.metadata()["card"])
    assert card["guarantee"]["epsilon"] == stated
    few = ("--users", 12, "--buckets", 4)
    compared = tacit("compare", "run", "ngram", "--on", "keyboard", *few, "--json").object
    assert compared["models"][0]["privacy"]["epsilon"] == stated

    # What people read: the headline everywhere, the second figure where the owner looks and nowhere else.
    second = f"ε = {round_up(happened)}"
    tacit("report", "run")
    tacit("report", "run", "--share")
    owner, shared = (here / "run" / name for name in ("private/report.html", "report.html"))
    for page in (owner.read_text(), shared.read_text()):
        assert f"ε = {round_up(stated)} at δ" in page
        assert "the participation that the plan promises" in page
    assert f"{second}, ρ" in owner.read_text()
    assert "the participation that happened" not in shared.read_text()
    assert "the participation that happened" not in tacit("guarantee", "run").out
    for command in (("account", "run", "run"), ("runs", "show", "run"), ("account", "compose", "run")):
        out = " ".join(tacit(*command).out.split())
        assert f"epsilon {epsilon_text(stated)} at delta" in out
        assert "the participation that happened" in out
        assert re.search(rf"(ε =|epsilon) {re.escape(round_up(happened))}", out)


def test_a_person_who_trains_reads_both_figures_under_their_names(tacit: Tacit, recipe: Path) -> None:
    out = " ".join(tacit("train", recipe, "--out", "run").out.split())
    found = RunFolder.open(Path("run")).summary() or {}
    assert f"ε = {epsilon_text(found['privacy']['epsilon'])} at δ" in out
    assert "It was computed from the participation that the plan promises (at most 3 times a user" in out
    assert "For the owner, from the participation that happened (" in out


def test_a_run_that_was_stopped_states_its_planned_rounds_everywhere(
    tacit: Tacit, recipe: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = tacit("train", recipe, "--out", "whole", "--json").object["privacy"]["epsilon"]
    before = RunJournal.before

    def stop_at_the_fourth(self: RunJournal, cohort: Any, norms: Any) -> None:
        before(self, cohort, norms)
        self.stop_requested = cohort.round == 3

    monkeypatch.setattr(RunJournal, "before", stop_at_the_fourth)
    assert tacit("train", recipe, "--out", "early").code == 130
    commands = (
        ("account", "run", "early", "--json"),
        ("guarantee", "early", "--json"),
        ("runs", "show", "early", "--json"),
    )
    for command in commands:
        out = tacit(*command).object
        found = out.get("privacy", out)
        assert found["epsilon"] == whole, command
        assert (found["rounds_planned"], found["rounds_run"]) == (6, 4)
        assert found.get(HAPPENED) is None  # who will come in the other rounds is not known
    assert tacit("account", "compose", "early", "--json").object["epsilon"] == whole
    assert tacit("runs", "list", ".", "--json").object["runs"][0]["privacy"]["epsilon"] == whole
    said = "for the 6 rounds that were planned; 4 of them have run"
    tacit("report", "early", "--share")
    assert said in Path("early/report.html").read_text()
    for command in (("guarantee", "early"), ("account", "run", "early")):
        assert said in tacit(*command).out
