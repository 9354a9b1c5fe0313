"""The conclusion from generated words, who may see it, and what it costs."""

from __future__ import annotations

import dataclasses
import json
from typing import Any

import jax
import pytest

from tacit.inspection.text import findings
from tacit.inspection.text.comparison import InspectionComparison
from tacit.inspection.text.findings import WordFindings, look_at
from tacit.inspection.text.primary import PrimaryFindings
from tacit.inspection.text.unknown_words import UnknownRates
from tacit.models.char_lm import CharLMConfig, build
from tacit.recipe.text_inspection import TextLook
from tacit.runs.report.blocks import Lines, Paragraph, Section, Table

RATES = UnknownRates(0.08, (0.11, 0.05))
SOUND = WordFindings(
    (("marco", 0.004), ("fern", 0.003), ("toby", 0.002)), 100, 0.0, 0.0, UnknownRates(0.06, (0.01, 0.05))
)
JOINED = WordFindings((("i have", 0.01), ("see you", 0.006), ("marco", 0.004)), 100, 0.4, 0.0, RATES)
SPENT: dict[str, Any] = {"privacy": {"epsilon": 1.234, "delta": 1e-6, "unit": "user"}}
COST: dict[str, Any] = {
    "epsilon": 2.5,
    "delta": 1e-6,
    "adjacency": "add or remove one user",
    "unit": "user",
    "releases": 200,
    "models": 2,
}
RATES = UnknownRates(0.04, (0.02, 0.06))
SAID = PrimaryFindings("runs/words", "a1b2", 0.125, 0.1, 400, ("see you UNK",), RATES, 3.0, 1e-6)
SAID_AFTER = dataclasses.replace(SAID, sentences=("UNK you soon",), rates=UnknownRates(0.09, (0.12,)))


def the_words(found: WordFindings, summary: dict[str, Any]) -> Section:
    """The section with the words, the only one without a primary model."""
    (section,) = found.sections(summary)
    return section


def texts(section: Any) -> str:
    return "\n".join(block.text for block in section.blocks if isinstance(block, Paragraph))


def test_spaces_point_to_joined_tokens() -> None:
    assert "separate tokens are joined" in JOINED.conclusion()
    assert "Of the 3 most likely unknown words 2 contain a space" in JOINED.conclusion()
    assert "11.0% of the first words" in JOINED.conclusion()
    assert "Nothing in these words points to" in SOUND.conclusion()
    early = dataclasses.replace(SOUND, rates=UnknownRates(0.02, (0.04, 0.01)))
    assert "Words that begin a sentence are unknown far more often" in early.conclusion()


def test_capitals_point_to_case_that_is_kept() -> None:
    cased = dataclasses.replace(SOUND, words=(("Marco", 0.1), *SOUND.words))
    assert "lower-cased" in cased.conclusion()
    assert "tokens are joined" not in cased.conclusion()


def test_findings_survive_json() -> None:
    assert WordFindings.from_dict(JOINED.as_dict()) == JOINED
    looked_into = dataclasses.replace(JOINED, primary=SAID)
    assert WordFindings.from_dict(json.loads(json.dumps(looked_into.as_dict()))) == looked_into
    assert JOINED.as_dict()["with_space"] == pytest.approx(2 / 3)


def test_a_section_shows_the_words_the_price_and_what_is_outside() -> None:
    section = the_words(JOINED, SPENT)
    assert not section.private
    table = next(block for block in section.blocks if isinstance(block, Table))
    assert table.rows[0] == ["i␣have", "10"]
    assert "ε = 1.24 at δ = 1e-06" in texts(section)
    assert "outside the guarantee" in texts(section)


def test_without_a_claim_the_section_is_the_owners() -> None:
    section = the_words(JOINED, {"privacy": {**SPENT["privacy"], "epsilon": None}})
    assert section.private
    assert "may be somebody's" in texts(section)


def test_a_run_that_stands_for_a_larger_one_says_what_that_would_cost() -> None:
    there = {"epsilon": 0.5, "delta": 1e-8}
    scale = {"population": 2_000_000, "cohort": 1000.0, "noise_multiplier": 1.5, "privacy": there}
    section = the_words(JOINED, {**SPENT, "at_scale": scale})
    assert "an estimate and not this run: 1,000 of 2,000,000 users" in texts(section)
    assert "ε = 0.50 at δ = 1e-08" in texts(section)


def test_a_primary_model_has_a_section_of_its_own() -> None:
    words, primary = dataclasses.replace(JOINED, primary=SAID).sections({**SPENT, "together": COST})
    assert words == the_words(JOINED, SPENT)
    assert "predicts 12.5% of 400 words of held-out users (10.0% by the papers' metric)." in texts(primary)
    assert "2.0% of their first words" in texts(primary)
    assert "outside the guarantee" in texts(primary)
    assert "All 2 models together: ε = 2.50" in texts(primary)
    assert [block.rows for block in primary.blocks if isinstance(block, Table)] == [[["see you UNK"]]]
    assert not primary.private
    unclaimed = dataclasses.replace(JOINED, primary=dataclasses.replace(SAID, epsilon=None))
    words, primary = unclaimed.sections({**SPENT, "together": COST})
    assert (words.private, primary.private) == (False, True)


def test_what_the_primary_models_say_is_compared_where_both_have_one() -> None:
    before, after = dataclasses.replace(SOUND, primary=SAID), dataclasses.replace(JOINED, primary=SAID_AFTER)
    found = InspectionComparison(before, after, COST)
    assert found.place_columns() == ["place", "before", "after", "generated before", "generated after"]
    assert found.place_rows() == [["1", "1.0%", "11.0%", "2.0%", "12.0%"], ["2", "5.0%", "5.0%", "6.0%", ""]]
    assert "of those that the primary models generate 2.0% and 12.0%" in found.conclusion()
    tables = [block.rows for block in found.section().blocks if isinstance(block, Table)]
    assert tables[1] == [["see you UNK", "UNK you soon"]]
    pictures = [[each.name for each in block.series] for block in found.section().blocks if isinstance(block, Lines)]
    assert pictures == [["before", "after"], ["generated before", "generated after"]]
    assert InspectionComparison(SOUND, after, COST).place_columns() == ["place", "before", "after"]


def test_what_differs_is_said_in_one_paragraph() -> None:
    found = InspectionComparison(SOUND, JOINED, COST)
    assert found.new_words == ["i have", "see you"]
    assert "tokens are joined now that were separate before" in found.conclusion()
    assert "of the first words of sentences 1.0% and 11.0%" in found.conclusion()
    assert "Neither spaces nor capitals" in InspectionComparison(JOINED, SOUND, COST).conclusion()  # it was mended
    assert found.rows()[0] == ["marco", "4", "i␣have", "10"]
    section = found.section()
    assert not section.private
    assert "ε = 2.50 at δ = 1e-06" in texts(section)


def test_one_run_without_a_claim_makes_the_comparison_the_owners() -> None:
    cost = {**COST, "epsilon": None, "reasons_not_private": ["no noise was added"]}
    found = InspectionComparison(SOUND, JOINED, cost)
    assert found.section().private
    assert found.as_dict()["privacy"]["epsilon"] is None
    assert "no noise was added" in found.price()


def test_what_a_model_without_privacy_says_is_not_in_a_summary_that_is_released() -> None:
    unclaimed = dataclasses.replace(JOINED, primary=dataclasses.replace(SAID, epsilon=None))
    released = unclaimed.released(claimed=True)
    assert "see you UNK" not in json.dumps(released.as_dict())
    assert WordFindings.from_dict(json.loads(json.dumps(released.as_dict()))) == released
    assert released.primary is not None
    assert "No privacy is claimed for it" in released.primary.metric()
    assert InspectionComparison(released, released, COST).place_columns() == ["place", "before", "after"]
    assert unclaimed.released(claimed=False) == unclaimed  # then nothing is, and all of it is the owner's
    private = dataclasses.replace(JOINED, primary=SAID)
    assert private.released(claimed=True) == private


def test_words_without_a_letter_are_no_words(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(findings, "sample_words", lambda *_, **__: [("", 0.9), ("a b", 0.1), ("c", 0.01)])
    model = build(CharLMConfig(1, 12, 20, 12), key=jax.random.key(1))
    found = look_at(model, TextLook(top=2), RATES, longest=4)
    assert (found.drawn, found.drawn_with_space) == (2, 0.5)


def test_what_a_terminal_would_obey_is_not_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(findings, "likely_words", lambda *_, **__: [("", 0.9), ("a\x1b[2Jb", 0.1), ("c d", 0.01)])
    model = build(CharLMConfig(1, 12, 20, 12), key=jax.random.key(1))
    found = look_at(model, TextLook(top=2, drawn=50), RATES, longest=8)
    assert [word for word, _ in found.words] == ["a\N{REPLACEMENT CHARACTER}[2Jb", "c d"]
    assert found == look_at(model, TextLook(top=2, drawn=50), RATES, longest=8)
