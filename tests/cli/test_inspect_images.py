"""`tacit inspect images` as a person uses it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.support.commands import Tacit, everything
from tests.support.tiny_images import tiny_images

pytestmark = pytest.mark.usefixtures("small_networks")


@pytest.fixture
def inspected(here: Path) -> Path:
    """A folder with the recipe digits.toml, a few rounds of very small models."""
    (here / "digits.toml").write_text(tiny_images().to_toml())
    return here


@pytest.mark.slow
def test_from_a_recipe_to_a_report(tacit: Tacit, inspected: Path) -> None:
    shown = tacit("inspect", "images", "digits.toml")
    assert shown.code == 0, shown.err
    for part in (
        "classifier, round 2/2: ",
        "accuracy, round 1/1",
        "low, round 3/3: ",
        "have a bright background, ε if planned to end here",
    ):
        assert part in shown.err
    parts = (
        "users with low accuracy",
        "The classifier gets",
        "All 4 models together: ε =",
        "tacit report runs/tiny-images-1/low",
    )
    for part in parts:
        assert part in shown.out
    again = tacit("inspect", "images", "--resume", "tiny-images-1", "--json").object
    assert again["folder"] == "runs/tiny-images-1"
    assert again["conclusion"] in shown.out.replace("\n", " ")
    saved = json.loads((inspected / "runs/tiny-images-1/findings.json").read_text())
    assert saved == {name: each for name, each in again.items() if name != "folder"}
    listed = tacit("runs", "--json").object["runs"]
    assert [run["run"] for run in listed] == [
        f"runs/tiny-images-1/{stage}" for stage in ("accuracy", "classifier", "high", "low")
    ]
    assert {run["state"] for run in listed} == {"finished"}
    assert "inverted" in tacit("runs", "show", "runs/tiny-images-1/low", "--json").object["metrics"]
    assert tacit("report", "runs/tiny-images-1/low", "--share", "--out", "page.html").code == 0
    assert "of images it makes up" in (inspected / "page.html").read_text()
    assert tacit("runs", "plot", "runs/tiny-images-1/low", "--out", "low.svg").code == 0
    assert "one for an inspection" in tacit("train", "--resume", "runs/tiny-images-1/low").refusal(2)


def test_mistakes_are_one_sentence(tacit: Tacit, inspected: Path) -> None:
    before = everything(inspected)
    images = ("inspect", "images", "digits.toml")
    assert "fault.share ≤ 1, got 3" in tacit(*images, "--set", "fault.share=3").refusal(2)
    assert "--resume alone" in tacit(*images, "--resume", "x").refusal(2)
    assert "does not exist" in tacit("inspect", "images", "--resume", "x").refusal(4)
    assert "Expected data.classes with data.store" in tacit(*images, "--data", "x").refusal(2)
    refused = tacit(*images, "--data", "x", "--set", "data.classes=10").refusal(3)
    assert "There is no store x" in refused
    assert "Expected the folder of a run" in tacit(*images, "--classifier", "x").refusal(4)
    assert "Unknown key inspect" not in tacit("inspect", "images", "tiny.toml").refusal(2)
    assert everything(inspected) == before


def test_help_says_what_there_is(tacit: Tacit, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "120")
    assert "images" in tacit("inspect", "--help").out
    for word in ("--data", "--classifier", "--set", "--resume", "--json", "Example: tacit inspect images"):
        assert word in tacit("inspect", "images", "--help").out
