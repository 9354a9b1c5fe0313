"""What is said about made-up words, when it is said to everybody, and what it costs."""

from __future__ import annotations

import dataclasses
import math
from typing import Any

import jax
import pytest

from tacit.inspection import findings
from tacit.inspection.findings import WordFindings, look_at
from tacit.inspection.held_out import UnknownRates
from tacit.inspection.text_comparison import Comparison
from tacit.inspection.text_recipe import LookSection
from tacit.models.char_lm import CharLMConfig, build
from tacit.privacy.accounting.several_runs import Together
from tacit.runs.report.blocks import Paragraph, Table

RATES = UnknownRates(0.08, (0.11, 0.05))
SOUND = WordFindings(
    (("marco", 0.004), ("fern", 0.003), ("toby", 0.002)), 100, 0.0, 0.0, UnknownRates(0.06, (0.01, 0.05))
)
JOINED = WordFindings((("i have", 0.01), ("see you", 0.006), ("marco", 0.004)), 100, 0.4, 0.0, RATES)
SPENT: dict[str, Any] = {"epsilon": 1.234, "delta": 1e-6, "unit": "user"}
COST = Together(2.5, 1e-6, None, "pld", "add or remove one user", "user", 200)


def texts(section: Any) -> str:
    return "\n".join(block.text for block in section.blocks if isinstance(block, Paragraph))


def test_spaces_point_to_joined_tokens() -> None:
    assert "somewhere tokens are joined" in JOINED.conclusion()
    assert "Of the 3 most likely unknown words 2 contain a space" in JOINED.conclusion()
    assert "11.0% of the first words" in JOINED.conclusion()
    assert "Nothing points to" in SOUND.conclusion()


def test_capitals_point_to_case_that_is_kept() -> None:
    cased = dataclasses.replace(SOUND, words=(("Marco", 0.1), *SOUND.words))
    assert "lower-cased" in cased.conclusion()
    assert "joined that" not in cased.conclusion()


def test_findings_survive_json() -> None:
    assert WordFindings.from_dict(JOINED.as_dict()) == JOINED
    assert JOINED.as_dict()["with_space"] == pytest.approx(2 / 3)


def test_a_section_shows_the_words_the_price_and_what_is_outside() -> None:
    section = JOINED.section(SPENT)
    assert not section.private
    table = next(block for block in section.blocks if isinstance(block, Table))
    assert table.rows[0] == ["i␣have", "10"]
    assert "ε = 1.24 at δ = 1e-06" in texts(section)
    assert "outside the guarantee" in texts(section)


def test_without_a_claim_the_section_is_the_owners() -> None:
    section = JOINED.section({**SPENT, "epsilon": None})
    assert section.private
    assert "may be somebody's" in texts(section)


def test_what_differs_is_said_in_one_paragraph() -> None:
    found = Comparison(SOUND, JOINED, COST)
    assert found.new_words == ["i have", "see you"]
    assert "tokens are joined now that were apart before" in found.conclusion()
    assert "of the first words of sentences 1.0% and 11.0%" in found.conclusion()
    assert "Neither spaces nor capitals" in Comparison(JOINED, SOUND, COST).conclusion()  # it was mended
    assert found.rows()[0] == ["marco", "4", "i␣have", "10"]
    section = found.section()
    assert not section.private
    assert "ε = 2.50 at δ = 1e-06" in texts(section)


def test_one_run_without_a_claim_makes_the_comparison_the_owners() -> None:
    cost = dataclasses.replace(COST, epsilon=math.inf, reasons_not_private=("no noise was added",))
    found = Comparison(SOUND, JOINED, cost)
    assert found.section().private
    assert found.as_dict()["privacy"]["epsilon"] is None
    assert "no noise was added" in found.price()


def test_what_a_terminal_would_obey_is_not_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(findings, "likely_words", lambda *_, **__: [("", 0.9), ("a\x1b[2Jb", 0.1), ("c d", 0.01)])
    model = build(CharLMConfig(1, 12, 20, 12), key=jax.random.key(1))
    found = look_at(model, LookSection(top=2, drawn=50), RATES, longest=8)
    assert [word for word, _ in found.words] == ["a\N{REPLACEMENT CHARACTER}[2Jb", "c d"]
    assert found == look_at(model, LookSection(top=2, drawn=50), RATES, longest=8)
