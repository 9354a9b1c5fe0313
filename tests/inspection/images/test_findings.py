"""The conclusion from both sides' images, and who may see it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tacit.inspection.fault_scores import InversionScore
from tacit.inspection.images.findings import ImageFindings
from tacit.runs.report.blocks import Bars, Image, Table

NORMAL, INVERTED = InversionScore(0.13, 0.0, 0.8, 0.3), InversionScore(0.86, 0.97, 0.4, 0.7)
IMAGES = {side: np.zeros((70, 28, 28), np.uint8) for side in ("high", "low")}


def found(high: InversionScore, low: InversionScore, epsilon: float | None = 2.5, **changes: Any) -> ImageFindings:
    spent = {"epsilon": 1.5, "delta": 1e-6, "releases": 3}
    cost = {
        "epsilon": epsilon,
        "delta": 1e-6,
        "models": 4,
        "releases": 9,
        "unit": "user",
        "adjacency": "add or remove one user",
    }
    cost |= {} if epsilon is not None else {"reasons_not_private": ["no noise is added (run x)"]}
    fields = {
        "by": "user",
        "scores": {"high": high, "low": low},
        "made": 70,
        "histogram": (0.5, -0.01, 0.1, 0.4),
        "thresholds": (0.25, 0.75),
        "accuracy": (0.9, 0.5),
        "privacy": {"low": spent, "high": {**spent, "epsilon": None}},
        "together": cost,
    }
    return ImageFindings(**{**fields, **changes})


@pytest.mark.parametrize(
    ("high", "low", "says"),
    [
        (NORMAL, INVERTED, "exchanged among the users with low accuracy"),
        (INVERTED, NORMAL, "exchanged among the users with high accuracy"),
        (INVERTED, INVERTED, "Both have a bright background"),
        (NORMAL, NORMAL, "Neither has a bright background"),
    ],
)
def test_the_conclusion_says_what_differs(high: InversionScore, low: InversionScore, says: str) -> None:
    conclusion = found(high, low).conclusion()
    assert says in conclusion
    assert "50.0% of held-out images right, and 90.0% of images without the fault" in conclusion
    assert "\n" not in conclusion


def test_the_section_shows_both_sides_the_histogram_and_the_price() -> None:
    section = found(NORMAL, INVERTED).section(IMAGES)
    assert not section.private
    pictures = [block for block in section.blocks if isinstance(block, Image)]
    assert [block.caption for block in pictures] == [
        "Generated after users with high accuracy",
        "Generated after users with low accuracy",
    ]
    (bars,) = (block for block in section.blocks if isinstance(block, Bars))
    assert bars.bars == [("0%", 0.5), ("25%", 0.0), ("50%", 0.1), ("75%", 0.4)]
    texts = [getattr(block, "text", "") for block in section.blocks]
    below = "Bins that the noise left below zero are shown as zero."
    assert f"Low accuracy is at most 25.0%, high accuracy at least 75.0%. {below}" in texts
    scores, prices = (block for block in section.blocks if isinstance(block, Table))
    assert scores.rows[1] == ["users with low accuracy", "97.0%", "0.860", "0.400", "0.700"]
    assert prices.rows == [["low", "1.50", "1e-06", "3"], ["high", "∞", "1e-06", "3"]]
    (price,) = (text for text in texts if "All 4 models together: ε = 2.50" in text)
    assert price.startswith("The ε of each run takes the releases of earlier runs as given.")


def test_without_privacy_the_section_is_the_owners() -> None:
    findings = found(NORMAL, INVERTED, None)
    assert findings.section(IMAGES).private
    assert "no noise is added" in findings.price()
    assert findings.as_dict()["privacy"]["together"]["epsilon"] is None


def test_by_example_the_words_are_others() -> None:
    findings = found(NORMAL, INVERTED, by="example", thresholds=None)
    assert "images classified wrongly" in findings.conclusion()
    assert findings.as_dict()["thresholds"] is None
    texts = [getattr(block, "text", "") for block in findings.section(IMAGES).blocks]
    assert not any(text.startswith("Low accuracy is") for text in texts)
