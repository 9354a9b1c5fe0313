"""Documents say what is there: no blank left to fill, and every file they link to exists."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PAGES = [*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"), *ROOT.glob("tacit/**/*.md")]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_no_blank_and_no_dead_link(page):
    text = page.read_text(encoding="utf-8")
    assert not re.findall(r"@[A-Z]+@|TODO|TBD", text)
    for link in re.findall(r"\]\(([^)#]+)\)", text):
        assert (page.parent / link).exists(), link
