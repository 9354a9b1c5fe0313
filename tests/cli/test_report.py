"""`tacit report` and `tacit guarantee` as a person uses them, on a run's folder."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tacit.runs.odometer import register
from tests.support.commands import Tacit, everything
from tests.support.made_runs import made_run


def test_both_copies_and_the_guarantee(tacit: Tacit, here: Path):
    run = made_run(Path("runs") / "tiny").path
    before = everything(run)
    answer = tacit("report", "tiny")
    assert answer.code == 0, answer.err
    assert "runs/tiny/private/report.html: the owner's copy" in answer.out
    assert tacit("report", "tiny", "--share", "--out", "shared.html").out == "Wrote shared.html: anybody may see it.\n"
    after = everything(run)
    owner = after.pop("private/report.html").decode()
    assert after == before
    shared = Path("shared.html").read_text()
    assert "Who took part" in owner
    assert "Who took part" not in shared

    stated = tacit("guarantee", "tiny", "--json").object
    account = tacit("account", "run", "tiny", "--json").object
    assert stated["epsilon"] == account["epsilon"]
    assert stated["ledger_head"] == json.loads((run / "ledger.jsonl").read_text().splitlines()[-1])["digest"]
    for page in (owner, shared, tacit("guarantee", "tiny", "--html").out):
        assert stated["headline"].split(",")[0] in page
        assert stated["ledger_head"] in page
    said = tacit("guarantee", "tiny", "--paragraph").out
    assert said == stated["paragraph"] + "\n"
    text = tacit("guarantee", "tiny").out
    assert said.strip() in text.replace("\\", "")
    assert text.startswith("# The guarantee of run ")
    assert "nobody took part more" in owner
    assert "nobody took part more" not in text  # it does not look into private/


def test_a_run_that_was_really_trained_departs_in_nothing_from_its_plan(tacit: Tacit, here: Path):
    trained = tacit("train", "tiny.toml", "--set", "run.rounds=2", "--out", "runs/tiny", "--json").object
    stated = tacit("guarantee", "tiny", "--json").object
    assert stated["reasons_not_private"] == []
    assert stated["epsilon"] == trained["privacy"]["epsilon"]


def test_the_list_of_other_runs_is_counted_where_it_can_be_read_and_is_no_part_of_a_shared_copy(
    tacit: Tacit, here: Path
) -> None:
    recipe = 'name = "small"\n\n[data]\nstore = "data/forum"\n\n'
    Path("data/forum").mkdir(parents=True)
    for name in ("a", "b", "c"):
        folder = made_run(Path("runs") / name, recipe=recipe, store="ab12")
        register(Path("data/forum"), run_id=folder.run_id, run=folder.path, claims_privacy=True)
    said, typed = "2 other runs on these users are listed", "tacit account odometer data/forum"
    assert said in (text := tacit("guarantee", "a").out)
    assert typed in text
    tacit("report", "a")
    tacit("report", "a", "--share")
    owner, shared = (Path("runs/a", name).read_text() for name in ("private/report.html", "report.html"))
    assert said in owner
    assert said not in shared
    assert "Whoever holds the store of these users has a list of every run on them" in shared
    Path("data/forum/odometer.jsonl").unlink()
    assert "Whoever holds the store" in tacit("guarantee", "a").out


@pytest.mark.parametrize("command", ["report", "guarantee"])
def test_a_folder_that_is_no_run(tacit: Tacit, here: Path, command: str):
    assert "which does not exist" in tacit(command, "nowhere").refusal(4)
    assert "which is no run" in tacit(command, here).refusal(4)


def test_one_format_at_a_time(tacit: Tacit, here: Path):
    assert "got --html and --json" in tacit("guarantee", "x", "--html", "--json").refusal(4)
