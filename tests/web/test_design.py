"""One design: the report and the documentation have the colours of the board."""

from __future__ import annotations

import re
from pathlib import Path

from tacit.runs.report import page

ROOT = Path(__file__).parents[2]


def variables(text: str) -> list[dict[str, str]]:
    """The colours of each block that defines some, by their names."""
    blocks = [dict(re.findall(r"--([\w-]+): (#[0-9a-f]{6})", block)) for block in re.findall(r"\{([^{}]*)\}", text)]
    return [block for block in blocks if block]


def test_the_report_has_the_colours_of_the_board() -> None:
    light, dark = variables((ROOT / "web" / "src" / "style.css").read_text(encoding="utf-8"))[:2]
    shown, shown_dark, printed = variables(page._STYLE)
    assert len(shown) > 15
    assert shown.items() <= light.items()
    assert shown_dark.items() <= dark.items()
    assert printed.items() - {("ground", "#ffffff")} <= light.items()
    assert shown.keys() == shown_dark.keys() == printed.keys()


def test_the_documentation_has_the_colours_of_the_board() -> None:
    light, dark = variables((ROOT / "web" / "src" / "style.css").read_text(encoding="utf-8"))[:2]
    docs, docs_dark = variables((ROOT / "docs" / "assets" / "tacit.css").read_text(encoding="utf-8"))[:2]
    assert docs.keys() == docs_dark.keys()
    assert set(docs.values()) <= set(light.values())
    assert set(docs_dark.values()) <= set(dark.values())


def test_every_colour_that_the_report_uses_is_defined() -> None:
    used = set(re.findall(r"var\(--([\w-]+)\)", page._STYLE))
    assert used <= variables(page._STYLE)[0].keys()
