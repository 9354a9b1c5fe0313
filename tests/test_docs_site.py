"""The docs site: commands in pages exist, generated pages are complete, and every page is in the navigation.

`make docs` builds it, and checks links and anchors.
"""

from __future__ import annotations

import importlib
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import typer
import yaml

import tacit
from tacit.cli.app import complete
from tacit.recipe.describing import keys_of, sections_of
from tacit.recipe.kinds import KINDS
from tests.support.command_lines import lines_in, problem_of

ROOT = Path(__file__).parent.parent
DOCS = ROOT / "docs"
PAGES = [*ROOT.glob("*.md"), *DOCS.glob("**/*.md"), *ROOT.glob("tacit/**/*.md"), *ROOT.glob("examples/*.md")]


@pytest.fixture
def site(monkeypatch):
    """Imports a module of docs/site."""
    monkeypatch.syspath_prepend(str(ROOT / "examples"))
    monkeypatch.syspath_prepend(str(DOCS / "site"))
    return importlib.import_module


# The changelog also names commands that are gone.
@pytest.mark.parametrize(
    "page", sorted({*PAGES} - {ROOT / "CHANGELOG.md"}), ids=lambda page: str(page.relative_to(ROOT))
)
def test_every_command_of_a_page_parses(page):
    wrong = {line: problem_of(line) for line in lines_in(page.read_text(encoding="utf-8")) if problem_of(line)}
    assert wrong == {}


def test_every_example_of_the_help_parses(site):
    helps = [command.help or "" for _, command in site("commands").walk(typer.main.get_command(complete()), "tacit")]
    found = [
        " ".join(line.split()) for text in helps for line in re.findall(r"Example: (tacit .*?)(?:\n\n|\Z)", text, re.S)
    ]
    assert len(found) > 20
    assert {line: problem_of(line) for line in found if problem_of(line)} == {}


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        ("tacit train demo --set run.rounds=2 --out runs/x # comment", None),
        ("tacit --import mynoise account run runs/mine", None),
        ("tacit account odometer server    | head", None),
        ("tacit serve --role selector $shared --set 'privacy.secagg={bits = 24}' &", None),
        ("tacit train demo --rounds 3", "No such option"),
        ("tacit trian demo", "no command 'trian'"),
        ("tacit data imports x", "no command 'imports'"),
        ("tacit predict run words more", "no further argument 'more'"),
        ("tacit train --out", None),
    ],
)
def test_what_is_wrong_with_a_command_is_found(line, problem):
    found = problem_of(line)
    assert found is None if problem is None else problem in (found or "")


def test_lines_of_blocks_and_of_code_are_found():
    page = "```\n$ tacit runs \\\n  show x\nout\nT=$(tacit fleet token)\n```\n`tacit plan`\n```python\ntacit nonsense\n```\n"
    assert list(lines_in(page)) == ["tacit runs    show x", "tacit fleet token", "tacit plan"]


def test_long_examples_are_broken_and_stay_the_same_command(site):
    pages = site("commands").pages()
    blocks = [block for page in pages.values() for block in re.findall(r"^```\n(\$ tacit .*?)\n```", page, re.M | re.S)]
    assert len(blocks) > 20
    assert max(len(line) for block in blocks for line in block.splitlines()) <= 100
    population = next(block for block in blocks if block.startswith("$ tacit population"))
    assert population.count("\n") == 1
    assert "--timer-hours 24 --timer-hours 144 --plot population.png" in " ".join(
        population.replace("\\\n", "").split()
    )


def test_the_reference_of_commands_has_every_command_and_option(site):
    commands = site("commands")
    pages = commands.pages()
    whole = typer.main.get_command(complete())
    for top, command in whole.commands.items():
        page = pages[f"reference/commands/{top}.md"]
        for name, each in commands.walk(command, f"tacit {top}"):
            assert f"{name} {{ #" in page
            for parameter in each.params:
                shown = (
                    parameter.opts if parameter.param_type_name == "option" else [parameter.metavar or parameter.name]
                )
                assert any(f"`{option}" in page for option in shown), (name, shown)
    assert "| `--rare VOCABULARY|RUN` |" in pages["reference/commands/data.md"]  # in code a backslash would be shown
    assert "| `--timer-hours <float>` |" in pages["reference/commands/plan.md"]
    train = pages["reference/commands/train.md"]
    assert "| `--resume RUN` | Continue a run that was stopped or killed. " in train
    assert "| `recipe <str>` | A recipe file, or the name of one that comes with Tacit. | `demo` |" in train
    assert "*required*" in pages["reference/commands/plan.md"]
    assert not re.search(r"\[(default|required|x[<>])", "".join(pages.values()))
    assert "Range: `x>=1`. | `100` |" in pages["reference/commands/init.md"]


def test_the_reference_of_recipes_has_every_key(site):
    pages = site("recipe_pages").pages()
    training = pages["reference/recipes.md"]
    for name, section in sections_of(KINDS["training"].schema):
        table = training.partition(f"{{ #{name.replace('.', '-') or 'top'} }}")[2].partition("\n## ")[0]
        for key in keys_of(section):
            row = rf"^\| \[?`{key.name}`[^|]* \| {re.escape(key.meaning)} \|.*\|$"
            assert re.search(row, table, re.MULTILINE), key.name
    inspections = pages["reference/inspection_recipes.md"]
    for name in ("text-look", "images-gan-generator", "images-selection", "text-fault", "images-classifier-work"):
        assert f"{{ #{name} }}" in inspections
    assert "recipes.md#privacy" in inspections
    assert "[`fleet`]" not in inspections  # refused in an inspection


def test_every_public_name_and_script_has_a_place(site):
    pages = site("python_names").pages()
    text = "".join(pages.values())
    for name in tacit.__all__:
        assert text.count(f"heading: tacit.{name}\n") == 1
    tutorials = site("tutorials").pages()
    assert set(tutorials) == {f"tutorials/{path.stem}.md" for path in (ROOT / "examples").glob("*.py")} - {
        "tutorials/make_notebooks.md"
    }
    for uri, page in tutorials.items():
        script = (ROOT / "examples" / uri.removeprefix("tutorials/")).with_suffix(".py").read_text(encoding="utf-8")
        code = [line for line in script.splitlines() if line.startswith(("import ", "run = ", "print("))]
        assert code
        assert all(line in page for line in code), uri


def test_a_name_without_a_group_stops_the_build(site, monkeypatch):
    monkeypatch.setattr(tacit, "__all__", [*tacit.__all__, "brand_new"])
    with pytest.raises(ValueError, match="brand_new"):
        site("python_names").pages()


def test_links_out_of_docs_lead_to_pages_of_the_site(site):
    mended = site("links").mended
    page = "[a](../examples/README.md) [b](../recipes/fleet.toml) [c](noise.md#x) [d](../tacit/files.py) [e](#here) [f](http://x)"
    assert mended(page, Path("docs/fleet.md"), "fleet.md") == (
        "[a](tutorials/index.md) [b](reference/recipe_files.md#fleet) [c](noise.md#x) [d](source/tacit/files.py.md) "
        "[e](#here) [f](http://x)"
    )
    assert mended("[a](docs/noise.md)", Path("CHANGELOG.md"), "changelog.md") == "[a](noise.md)"
    assert mended("[a](nowhere.md)", Path("docs/fleet.md"), "fleet.md") == "[a](nowhere.md)"


def test_the_drawings_are_those_of_the_script_and_become_part_of_the_page(site):
    draw, drawings = site("draw"), site("drawings")
    for make in (draw.gate, draw.ledger, draw.unit, draw.secagg, draw.mechanisms):
        kept = (DOCS / "drawings" / f"{make.__name__}.svg").read_text(encoding="utf-8")
        texts, numbers = _parts(kept)
        made_texts, made_numbers = _parts(make().svg())
        assert texts == made_texts, f"run python docs/site/draw.py: {make.__name__}.svg"
        # Strategies are optimised numerically, which may differ in the last digits on another machine.
        np.testing.assert_allclose(numbers, made_numbers, rtol=0.01, atol=0.02)
    html = drawings.inlined('<p><img alt="A &amp; B" src="../drawings/gate.svg" /></p>', DOCS / "drawings")
    assert html.startswith('<div class="drawing"><svg role="img" aria-label="A &amp; B"')
    assert "<style>" not in html


def test_the_navigation_has_every_page(site):
    config = yaml.safe_load((ROOT / "mkdocs.yml").read_text(encoding="utf-8"))
    named = {*_pages_of(config["nav"]), *_pages_of(site("experiment_pages").nav())}
    written = {str(path.relative_to(DOCS)) for path in DOCS.glob("**/*.md")}
    assert written <= named, "list the page in mkdocs.yml"
    made = {"changelog.md", "contributing.md", "concepts/notation.md"}
    made |= {"@commands", "@tutorials", "@python", "@experiments"}
    assert {name for name in named - written if not name.startswith("reference/")} == made
    assert config["theme"]["font"] is False
    assert set(config["validation"]["links"].values()) == {"warn"}


def test_assets_of_the_site_load_nothing_from_elsewhere():
    for path in (DOCS / "assets").iterdir():
        assert not re.search(r"https?://|@import|url\(", path.read_text(encoding="utf-8")), path


def _parts(svg: str) -> tuple[list[str], list[float]]:
    """The words of a drawing and the numbers between them."""
    number = r"(?<![\w#])-?\d+(?:\.\d+)?"
    return re.split(number, svg), [float(each) for each in re.findall(number, svg)]


def _pages_of(nav: Any) -> list[str]:
    if isinstance(nav, list):
        return [page for each in nav for page in _pages_of(each)]
    return _pages_of(list(nav.values())) if isinstance(nav, dict) else [nav]
