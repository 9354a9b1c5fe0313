"""Documents say what is there: no blank left to fill, and every file they link to or name exists."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PAGES = [*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"), *ROOT.glob("tacit/**/*.md")]
# Where a name in a page may be seen from: the repository, the package, the page's own folder.
MADE = ("reference/", "../reference/")
NAMED = re.compile(r"`((?:\w+/)+\w+\.(?:py|toml))`")


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_no_blank_and_no_dead_link(page):
    text = page.read_text(encoding="utf-8")
    assert not re.findall(r"@[A-Z]+@|TODO|TBD", text)
    for link in re.findall(r"\]\(([^)#]+)\)", text):
        # Pages of the reference are made when the site is built; `make docs` checks links to them.
        assert link.startswith(MADE) or (page.parent / link).exists(), link


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_named_file_exists(page):
    for name in NAMED.findall(page.read_text(encoding="utf-8")):
        assert any((folder / name).exists() for folder in (ROOT, ROOT / "tacit", page.parent)), name


def test_every_word_of_the_glossary_has_its_owner():
    rows = re.findall(
        r"^\| ([^|]+) \|.*\| `(\w+)` in `([\w/.]+)` \|$", (ROOT / "docs" / "glossary.md").read_text(), re.M
    )
    assert len(rows) > 40
    assert len({word for word, _, _ in rows}) == len(rows)
    for word, owner, file in rows:
        code = (ROOT / "tacit" / file).read_text(encoding="utf-8")
        assert re.search(rf"^(class|def) {owner}\b|^{owner} = ", code, re.M), f"{word}: no {owner} in {file}"


def test_the_floor_plan_shows_every_room_and_the_layers_that_the_linter_holds():
    design = (ROOT / "docs" / "design.md").read_text(encoding="utf-8")
    plan, layers = re.findall(r"^```\n((?:tacit/|cli \| testing)\n.*?)^```", design, re.M | re.S)
    rooms = {path.parent.name for path in ROOT.glob("tacit/*/__init__.py")}
    assert rooms <= set(re.findall(r"^  (\w+)/", plan, re.M))
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["importlinter"][
        "contracts"
    ]
    held = [layer.replace("tacit.", "") for layer in contracts[0]["layers"]]
    shown = iter(layers.splitlines())
    assert all(layer in shown for layer in held), "the layers of pyproject.toml, in their order"
