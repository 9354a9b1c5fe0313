"""`tacit inspect` as a person uses it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tacit.inspection.text.findings import WordFindings
from tests.support.commands import Tacit, everything
from tests.support.tiny_text import tiny_text


@pytest.fixture
def inspected(here: Path) -> Path:
    """A folder with the recipe words.toml, four rounds of a very small model."""
    (here / "words.toml").write_text(tiny_text(fault={"share": 0.5}).to_toml())
    return here


@pytest.mark.slow
def test_from_a_recipe_to_a_comparison(tacit: Tacit, inspected: Path) -> None:
    first = tacit("inspect", "text", "words.toml", "--set", "fault.share=0", "--json").object
    assert first["run"] == "runs/tiny-text-1"
    assert len(first["inspection"]["words"]) == 5
    assert first["privacy"]["releases"] == 4
    shown = tacit("inspect", "text", "words.toml", "--out", "after")
    assert shown.code == 0
    assert "round 4/4: perplexity of a letter" in shown.err
    for part in ("unknown word", "outside the guarantee", "ε = ", "tacit report after"):
        assert part in shown.out
    summary = json.loads((inspected / "after" / "summary.json").read_text())
    assert shown.out.splitlines()[0] == WordFindings.from_dict(summary["inspection"]).conclusion()
    compared = tacit("inspect", "compare", "tiny-text-1", "after", "--json").object
    assert compared["privacy"]["releases"] == 8
    assert compared["privacy"]["epsilon"] > first["privacy"]["epsilon"]
    assert compared["before"]["words"] == first["inspection"]["words"]
    rates = [compared[side]["unknown_words"]["by_place"][0] for side in ("before", "after")]
    assert rates[1] > rates[0] + 0.3
    both = tacit("inspect", "compare", "tiny-text-1", "after").out
    assert both.splitlines()[0] == compared["conclusion"]
    assert "before" in both
    assert tacit("report", "after", "--share", "--out", "page.html").code == 0
    page = (inspected / "page.html").read_text()
    order = (
        "Unknown words, as a model generates them",
        "Unknown words, before and after",
        "What it learned",
        "The guarantee",
    )
    assert sorted(order, key=page.index) == list(order)
    facts = tacit("runs", "show", "after", "--json").object
    assert facts["state"] == "finished"
    assert json.loads((inspected / "after" / "summary.json").read_text())["metrics"] == facts["metrics"]


@pytest.mark.slow
def test_a_run_of_a_next_word_model_is_looked_into(tacit: Tacit, inspected: Path) -> None:
    noise = "--set=privacy.noise_multiplier=4"  # losses are then small, and quickly accounted for
    assert tacit("train", "tiny.toml", "--set", "run.rounds=1", noise, "--json").code == 0
    small = [
        f"--set={change}"
        for change in (
            "run.rounds=1",
            "model.embedding=12",
            "model.units=20",
            "model.projection=12",
            "engine.chunk=4",
            "data.held_out=3",
            "data.length=9",
            "data.tokens_per_user=72",
            "privacy.cohort=8",
            "look.drawn=50",
            "look.width=8",
            "run.evaluate_words=200",
            "scale.population=40000",
            "scale.cohort=800",
            "scale.delta=1e-6",
        )
    ]
    shown = tacit("inspect", "text", "tiny-1", *small, noise, "--out", "looked")
    assert shown.code == 0, shown.err
    for part in ("The primary model (runs/tiny-1) predicts", "outside the guarantee", "All 2 models together: ε = "):
        assert part in shown.out
    assert shown.out.splitlines()[1].startswith("The primary model (runs/tiny-1) predicts")
    assert "At scale, an estimate and not this run: 800 of 40,000 users" in shown.out
    facts = json.loads((inspected / "looked" / "summary.json").read_text())
    assert facts["together"]["releases"] == 2
    assert all(sentence in shown.out for sentence in facts["inspection"]["primary"]["sentences"])
    compared = tacit("inspect", "compare", "looked", "looked")
    assert "generated after" in compared.out
    assert (
        tacit("train", "inspect_text").refusal(2).startswith("Expected a recipe for training, got one for an inspect")
    )
    assert "for an inspection" in tacit("inspect", "text", "looked").refusal(2)
    assert "The run runs/tiny-1 is not an inspection of text." in tacit(
        "inspect", "text", "--resume", "tiny-1"
    ).refusal(4)


def test_mistakes_are_one_sentence(tacit: Tacit, inspected: Path) -> None:
    before = everything(inspected)
    assert "fault.share ≤ 1, got 3" in tacit("inspect", "text", "words.toml", "--set", "fault.share=3").refusal(2)
    assert "which does not exist" in tacit("inspect", "text", "nothing").refusal(2)
    assert "Unknown key fault" not in tacit("inspect", "text", "tiny.toml").refusal(2)
    assert "--resume alone" in tacit("inspect", "text", "words.toml", "--resume", "run").refusal(2)
    assert "which does not exist" in tacit("inspect", "text", "--resume", "run").refusal(4)
    assert "which does not exist" in tacit("inspect", "compare", "one", "other").refusal(4)
    assert "nothing there" in tacit("inspect", "text", "words.toml", "--data", "nothing there").refusal(3)
    assert everything(inspected) == before


def test_help_and_refusals_say_what_there_is(tacit: Tacit, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "120")
    assert all(word in tacit("inspect", "--help").out for word in ("text", "compare"))
    for word in ("RUN|RECIPE", "--data", "--set", "--resume", "--json", "Example: tacit inspect text"):
        assert word in tacit("inspect", "text", "--help").out
