"""`tacit sweep`: a plan before anything runs, one table, one picture and one statement after it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tacit.api.sweep import Where
from tacit.cli.sweep import _options
from tacit.privacy.statement.wording import round_up
from tacit.runs.journal import RunJournal
from tests.support.commands import Tacit, everything
from tests.support.stopping import stop_after
from tests.support.swept import on_store, small_store

GRID = """
name = "noise"
recipe = "store.toml"
[axes]
privacy.noise_multiplier = [2.0, 3.0]
"""


@pytest.fixture
def grid(here: Path) -> Path:
    """Two cases of two rounds on a store."""
    small_store(here / "store")
    (here / "store.toml").write_text(on_store(Path("store")).to_toml())
    (here / "noise.toml").write_text(GRID)
    return here / "noise.toml"


def test_a_sweep_from_its_plan_to_its_statement(tacit: Tacit, grid: Path, here: Path) -> None:
    before = everything(here)
    planned = tacit("sweep", grid, "--dry-run", "--json").object
    assert everything(here) == before
    assert [case["state"] for case in planned["cases"]] == ["waiting", "waiting"]
    [cost] = planned["cost"]
    assert (cost["people"], cost["runs"], cost["to_come"]) == ("store", 2, 2)

    ran = tacit("sweep", grid, "--only", "noise_multiplier=2")
    assert ran.code == 0
    said = f"store: the sweep costs any one of its people ε = {round_up(cost['epsilon'])} at δ = 1e-05."
    assert said in ran.err  # before anything ran
    assert said in ran.out
    assert "of 2 runs, 1 of which has not begun" in ran.out
    assert "noise_multiplier=2.0: finished" in ran.err

    again = tacit("sweep", "runs/noise")
    assert "Sweep: 2 cases in runs/noise, 1 of them done." in again.err
    assert "noise_multiplier=3.0: run 1 of 1 begins" in again.err
    done = tacit("sweep", grid, "--report", "--json").object
    assert [case["state"] for case in done["cases"]] == ["finished", "finished"]
    assert done["cost"][0]["epsilon"] == cost["epsilon"]
    assert done["cost"][0]["to_come"] == 0
    composed = tacit(
        "account", "compose", *(f"runs/noise/noise_multiplier={z}" for z in ("2.0", "3.0")), "--json"
    ).object
    assert composed["epsilon"] == cost["epsilon"]
    assert json.loads((here / "runs/noise/results.json").read_text()) == done
    assert (here / "runs/noise/results.png").stat().st_size > 1_000
    assert said in (here / "runs/noise/statement.txt").read_text()


def test_a_sweep_that_is_stopped_says_how_to_go_on(
    tacit: Tacit, grid: Path, here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(RunJournal, "before", stop_after(RunJournal.before, 0))
        stopped = tacit("sweep", grid, "--at-once", 1)
    assert stopped.code == 130
    assert "Stopped; the runs under way are saved. Go on with: tacit sweep runs/noise --at-once 1\n" in stopped.err
    assert "stopped" in stopped.out
    assert tacit("sweep", "runs/noise").code == 0


def test_where_the_runs_were_is_part_of_how_to_go_on() -> None:
    assert _options(Where()) == ""
    assert (
        _options(Where(2, "ray", "head:6379", 0.25))
        == " --at-once 2 --engine ray --address head:6379 --gpus-per-run 0.25"
    )


def test_a_run_that_fails_is_told_and_the_exit_code_says_so(tacit: Tacit, grid: Path, here: Path) -> None:
    (here / "runs/noise").mkdir(parents=True)
    assert tacit("sweep", grid, "--minutes", 0).code == 0
    (here / "runs/noise/noise_multiplier=2.0").mkdir()
    (here / "runs/noise/noise_multiplier=2.0/mine.txt").touch()
    failed = tacit("sweep", grid)
    assert failed.code == 1
    assert "noise_multiplier=2.0 failed: The folder runs/noise/noise_multiplier=2.0 is not empty" in failed.out
    assert "noise_multiplier=3.0: finished" in failed.err


def test_mistakes_are_told_before_anything_is_written(tacit: Tacit, grid: Path, here: Path) -> None:
    before = everything(here)
    refusals = {
        ("nothing.toml",): "or the folder of one that has begun, got 'nothing.toml', which does not exist.",
        (here,): "which is a folder without a sweep.",
        (grid, "--set", "privacy.clip_norm=0"): "Case noise_multiplier=2.0: Expected privacy.clip_norm > 0, got 0.",
        (grid, "--set", "data.store=none"): "Case noise_multiplier=2.0: ",
        (grid, "--only", "y"): "No case of the sweep begins with 'y'.",
        (grid, "--out", "store"): "Expected an empty or a new folder for the sweep, got store",
        (here / "store.toml",): "Expected the file of a sweep, got a recipe.",
    }
    for arguments, sentence in refusals.items():
        answer = tacit("sweep", *arguments)
        assert answer.out == ""
        assert answer.code in (2, 3, 4), answer.err
        assert sentence in answer.err
    assert tacit("sweep", grid, "--report").code == 4
    assert everything(here) == before


def test_cases_that_changed_are_refused_and_new_ones_need_add(tacit: Tacit, grid: Path) -> None:
    tacit("sweep", grid, "--minutes", 0)
    assert "was begun with server.learning_rate" in tacit("sweep", grid, "--set", "server.learning_rate=0.5").refusal(4)
    grid.write_text(GRID.replace("3.0]", "3.0, 4.0]"))
    assert "was begun without the case noise_multiplier=4.0" in tacit("sweep", grid).refusal(4)
    planned = tacit("sweep", grid, "--add", "--dry-run", "--json").object
    assert planned["cost"][0]["adaptive"]
    assert tacit("sweep", grid, "--report", "--json").code == 0
    added = tacit("sweep", grid, "--add", "--minutes", 0, "--json").object
    assert len(added["cases"]) == 3
    assert added["cost"] == planned["cost"]
    assert "got the sweep runs/noise" in tacit("sweep", "runs/noise", "--add").refusal(2)
