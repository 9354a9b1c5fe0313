"""Charts: every point lies inside its frame, whatever the numbers; axes are round and begin where they should."""

from __future__ import annotations

import re
from itertools import pairwise
from xml.etree import ElementTree

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tacit.runs.report.blocks import Bars, Level, Lines, Series
from tacit.runs.report.svg import draw_bars, draw_lines

HEIGHTS = st.floats(-1e9, 1e9, allow_nan=False)


def corners(svg: str) -> list[tuple[float, float]]:
    (points,) = re.findall(r'points="([^"]*)"', svg)
    return [(float(x), float(y)) for x, y in (point.split(",") for point in points.split())]


def ticks(svg: str) -> list[str]:
    return [
        each.text or ""
        for each in ElementTree.fromstring(svg).iter("text")
        if each.get("class") == "tick" and each.get("text-anchor") == "end"
    ]


@given(heights=st.lists(HEIGHTS, min_size=1, max_size=30), log=st.booleans())
def test_curves_stay_inside(heights, log):
    points = [(float(number), height) for number, height in enumerate(heights)]
    level = Level(name="<level>", y=heights[0])
    svg = draw_lines(Lines(x="x", y="y", series=[Series(name="a", points=points)], levels=[level], log=log))
    ElementTree.fromstring(svg)
    for x, y in corners(svg):
        assert 50 <= x <= 426
        assert 34 <= y <= 222


def test_no_curve_strikes_through_the_name_of_a_level():
    curve = Series(name="a", points=[(0.0, 1.0), (1.0, 1.0)])
    svg = draw_lines(Lines(x="x", y="y", series=[curve], levels=[Level(name="level", y=0.95)]))
    assert svg.index("<polyline") < svg.index(">level<")


@given(amounts=st.lists(st.floats(0, 1e9), min_size=1, max_size=60))
def test_bars_stay_inside(amounts):
    svg = draw_bars(Bars(x="x", y="y", bars=[(str(number), amount) for number, amount in enumerate(amounts)]))
    bars = list(ElementTree.fromstring(svg).iter("rect"))
    assert len(bars) == len(amounts)
    for bar in bars:
        top, height = float(bar.get("y", "")), float(bar.get("height", ""))
        assert top >= 33.9
        assert abs(top + height - 222) < 0.2


def test_a_higher_value_stands_higher_and_twice_as_high_where_the_axis_begins_at_zero():
    points = [(0.0, 0.0), (1.0, 5.0), (2.0, 10.0)]
    low, middle, high = (y for _, y in corners(draw_lines(Lines(x="", y="", series=[Series(name="", points=points)]))))
    assert low - high == pytest.approx(2 * (low - middle), abs=0.2)
    assert low - high > 100


@pytest.mark.parametrize(
    ("heights", "log", "percent", "expected"),
    [
        ([0.0, 0.53], False, True, ["0%", "20%", "40%", "60%"]),
        ([2.6], False, False, ["0", "1", "2", "3"]),
        ([0.4, 12_000], True, False, ["0.1", "1", "10", "100", "1,000", "10k", "100k"]),
        ([2e4, 3e13], True, False, ["10k", "1M", "100M", "1e10", "1e12", "1e14"]),
        ([3.0, 3.0], True, False, ["1", "10"]),
    ],
)
def test_ticks_are_round(heights, log, percent, expected):
    points = [(float(number), height) for number, height in enumerate(heights)]
    chart = Lines(x="x", y="y", series=[Series(name="a", points=points)], log=log, percent=percent)
    assert ticks(draw_lines(chart)) == expected


def labels_below(svg: str) -> list[tuple[float, str]]:
    """The labels of bars, from left to right; the last line of text below them names the axis."""
    placed = [
        (float(each.get("x", "")), float(each.get("y", "")), each.text or "")
        for each in ElementTree.fromstring(svg).iter("text")
        if each.get("class") == "tick" and each.get("text-anchor") == "middle"
    ]
    lowest = max(y for _, y, _ in placed)
    return [(x, text) for x, y, text in placed if y < lowest]


@pytest.mark.parametrize("number", [1, 2, 5, 12, 20, 40])
@pytest.mark.parametrize("label", ["{}", "{0}–{0}9", "{0}00–{0}99", "from {0} to more than {0}9 times"])
def test_labels_of_bars_do_not_run_into_each_other(number: int, label: str) -> None:
    bars = [(label.format(10 + each), 1.0) for each in range(number)]
    shown = labels_below(draw_bars(Bars(x="times", y="users", bars=bars)))
    ends = [(x - 4 * len(text), x + 4 * len(text)) for x, text in shown]  # digits are 0.64 em of 12.5 px wide
    assert shown[0][1] == bars[0][0]
    assert all(right + 4 <= left for (_, right), (left, _) in pairwise(ends))
    assert ends[0][0] >= 0
    assert ends[-1][1] <= 440
    if label == "{}" and number <= 12:
        assert len(shown) == number  # where there is room, every bar has its label
