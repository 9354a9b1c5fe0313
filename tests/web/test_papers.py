"""The page of the papers: current, honest about its sources, and nothing but what was recorded."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from tacit.web.papers import RECORDED, PaperCurve, PaperTable, recorded
from tests.support.boards import client_of

ROOT = Path(__file__).parents[2]
MODULES = ("papers", "papers_accuracy", "papers_privacy", "papers_recorded")
COVERED = {
    "dp_fedavg",
    "gboard",
    "gboard_privacy",
    "memorization",
    "keyboard",
    "cohort_size",
    "real_epsilon",
    "secagg",
}


@pytest.fixture
def papers(monkeypatch: pytest.MonkeyPatch) -> Iterator[ModuleType]:
    """The script that collects the results; its files find each other beside themselves."""
    monkeypatch.syspath_prepend(str(ROOT / "experiments"))
    import papers

    yield papers
    for name in MODULES:
        sys.modules.pop(name, None)


def test_the_packaged_file_is_current(papers: Any) -> None:
    assert RECORDED.read_text(encoding="utf-8") == papers.collect(), "run: python experiments/papers.py"


def test_every_experiment_names_what_is_there() -> None:
    found = recorded().experiments
    assert {each.name for each in found} >= COVERED
    for each in found:
        assert (ROOT / each.page).is_file()
        assert all((ROOT / source).is_file() for source in each.sources)
        for command in each.commands:
            program = re.match(r"python (\S+)|tacit \w+", command)
            assert program, command
            assert program[1] is None or (ROOT / program[1]).is_file(), command


def test_what_a_paper_found_is_what_the_page_prints_of_it() -> None:
    compared = 0
    for each in recorded().experiments:
        page = " ".join((ROOT / each.page).read_text(encoding="utf-8").split())
        for table in each.tables:
            for place in [place for place, name in enumerate(table.columns) if name.endswith(": paper")]:
                for row in table.rows:
                    if row[place]:
                        compared += 1
                        assert re.search(rf"(?<![\d.]){re.escape(row[place])}(?![\d.]*\d)", page), (each.name, row)
    assert compared > 40


def test_every_point_is_a_recorded_number() -> None:
    """Those of one chart: each share of accuracy stands in the file of results, to the digits that are drawn."""
    text = (ROOT / "docs/experiments/real_epsilon/results.jsonl").read_text(encoding="utf-8")
    numbers = {f"{float(each):.5g}" for each in re.findall(r"(?<=[ :\[])\d+\.\d+(?=[,\]}])", text)}
    curve = next(each for each in recorded().experiments if each.name == "real_epsilon").charts[0].curves[0]
    assert len(curve.points) == 4
    for epsilon, top1 in curve.points:
        assert f"{epsilon:.5g}" in numbers
        assert f"{top1:.5g}" in numbers


def test_the_file_holds_no_path_and_no_text_of_a_run() -> None:
    text = RECORDED.read_text(encoding="utf-8")
    assert not re.search(r"/(?:tmp|home|root|work|runs|stores)/", text)
    assert '"sentences"' not in text


def test_the_route_answers_with_them(tmp_path: Path) -> None:
    with client_of(tmp_path) as client:
        found = client.get("/api/papers").json()
    assert [each["name"] for each in found["experiments"]] == [each.name for each in recorded().experiments]
    json.dumps(found, allow_nan=False)


def test_labels_and_cells_must_fit() -> None:
    with pytest.raises(ValueError, match="expected 2 labels"):
        PaperCurve(name="c", points=[(0, 1), (1, 2)], labels=["one"])
    with pytest.raises(ValueError, match="expected 2 cells"):
        PaperTable(title="t", columns=["a", "b"], rows=[["1"]])
    with pytest.raises(ValueError, match="finite"):
        PaperCurve(name="c", points=[(0, float("nan"))])
