"""The pages of docs/experiments: every table is rendered from recorded results, and the index keeps its promises."""

from __future__ import annotations

import json
import re
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

ROOT = Path(__file__).parent.parent
RESULTS = ROOT / "docs" / "experiments"


@pytest.fixture
def pages(monkeypatch: pytest.MonkeyPatch) -> Iterator[ModuleType]:
    """The script that renders the tables; its files find each other beside themselves."""
    monkeypatch.syspath_prepend(str(ROOT / "experiments"))
    before = set(sys.modules)
    import pages

    yield pages
    for name in set(sys.modules) - before:
        if str(ROOT / "experiments") in str(getattr(sys.modules[name], "__file__", "")):
            sys.modules.pop(name)


def test_every_table_of_every_page_is_what_the_results_say(pages: Any) -> None:
    for path in pages.pages():
        text = path.read_text(encoding="utf-8")
        assert pages.render(text) == text, f"{path.name} is not current: python experiments/pages.py"


def test_every_table_is_on_one_page_and_no_page_has_a_table_that_nobody_makes(pages: Any) -> None:
    named = [name for path in RESULTS.glob("*.md") for name in re.findall(r"<!-- table: (\S+) -->", path.read_text())]
    assert sorted(named) == sorted(set(named))
    made = {name for name in pages.TABLES if not name.startswith("verdicts/")}
    assert made <= set(named) <= set(pages.TABLES)
    for path in RESULTS.glob("*.md"):
        assert path.read_text().count("<!-- table: ") == path.read_text().count("<!-- end -->")


@pytest.mark.parametrize(
    ("name", "file", "change"),
    [
        ("dp_fedavg/noise", "dp_fedavg/results.json", ("clip 0.8", "metrics", "papers_top1")),
        ("memorization/regimes", "memorization/regimes.json", ("Adam, IID", "papers_top1")),
        ("secagg", "secagg/results.json", ("keyboard, plain", "papers_top1")),
    ],
)
def test_a_table_follows_its_results(pages: Any, tmp_path: Path, name: str, file: str, change: tuple[str, ...]) -> None:
    results = tmp_path / "experiments"
    shutil.copytree((RESULTS / file).parent, (results / file).parent)
    found = whole = json.loads((RESULTS / file).read_text())
    for key in change[:-1]:
        found = found[key]
    found[change[-1]] = 0.12346
    (results / file).write_text(json.dumps(whole))
    assert "12.35%" in pages.TABLES[name](results)
    assert "12.35%" not in pages.TABLES[name](RESULTS)


def test_a_fedavg_below_the_clipped_one_is_marked_and_no_other(pages: Any) -> None:
    table = pages.TABLES["memorization/regimes"](RESULTS)
    assert re.findall(r"\| ([^|]+) † \|", table) == ["FedAvg, IID", "FedAvg, by user"]
    from page_tables_privacy import undertrained

    runs = {"FedAvg, IID": {"papers_top1": 0.3}, "FedAvg + clip, IID": {"papers_top1": 0.3}}
    assert not undertrained("FedAvg, IID", runs)


def test_the_index_is_honest(pages: Any) -> None:
    from paper_index import NOT_RECORDED, REPRODUCED, ROWS, VERDICTS
    from steps import STEPS

    for row in ROWS:
        assert row.verdict in VERDICTS, row.item
        assert not row.page or (RESULTS / f"{row.page}.md").is_file(), row.item
        assert row.step is None or row.step in STEPS, row.item
        if row.verdict == NOT_RECORDED:
            assert row.step is not None, f"nothing would record {row.item}"
        if row.verdict == REPRODUCED:
            assert row.page, f"{row.item} has no page"
    names = [(row.paper, row.item) for row in ROWS if row.item != "Section 2.2"]
    assert len(set(names)) == len(names)
    assert {row.step for row in ROWS if row.step} == set(STEPS)
    linked = re.findall(r"\]\((\w+)\.md\)", (RESULTS / "index.md").read_text())
    assert {path.stem for path in RESULTS.glob("*.md")} - set(linked) <= {"index"}


def test_the_conventions_give_what_the_papers_print() -> None:
    """Table 1, Table 2, the text, Table 5 and Debugging's populations, by each paper's own way to count."""
    found = json.loads((RESULTS / "privacy_numbers" / "results.json").read_text())
    compared = [each for each in found if not each["item"].startswith("Memorization")]
    assert len(compared) == 64
    for each in compared:
        assert each["by_convention"] == pytest.approx(each["printed"], abs=0.0101), each["what"]


def test_the_recorded_epsilons_are_those_of_today(pages: Any) -> None:
    """A few of them; the others take longer."""
    import privacy_numbers

    recorded = json.loads(privacy_numbers.RESULTS.read_text())
    numbers = list(privacy_numbers.numbers())
    assert len(numbers) == len(recorded)
    for place in (3, 24, 42, len(numbers) - 1):
        assert numbers[place].by_convention() == pytest.approx(recorded[place]["by_convention"], rel=1e-6)
    assert numbers[42].proven() == pytest.approx(recorded[42]["proven"], rel=1e-3)


def test_the_pictures_with_the_papers_points_are_drawn(pages: Any, tmp_path: Path) -> None:
    import paper_figures

    for folder in ("dp_fedavg", "memorization"):
        shutil.copytree(RESULTS / folder, tmp_path / folder, ignore=shutil.ignore_patterns("*.png"))
    for draw in (paper_figures.loss_by_noise, paper_figures.memorised):
        assert draw(tmp_path).stat().st_size > 1_000


def test_gboards_figures_regenerate(pages: Any) -> None:
    import gboard_privacy

    recorded = json.loads((RESULTS / "gboard_privacy" / "results.json").read_text())
    assert gboard_privacy.tables() == recorded["rows"]
    assert sum(round(row["rho"], 2) == row["printed_rho"] for row in recorded["rows"]) == 19
