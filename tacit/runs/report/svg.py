"""Two kinds of charts as SVG: curves and bars. Colours are the page's, so they follow light, dark and paper.

A chart is drawn for a width of about 440 pixels: a column on a desk, a whole phone. Its numbers are also in its
description, for people who cannot see it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from itertools import pairwise

from tacit.privacy.statement.wording import escaped
from tacit.runs.report.blocks import Bars, Lines

Share = Callable[[float], float]

_WIDTH, _HEIGHT = 440, 264
_LEFT, _RIGHT, _TOP, _BOTTOM = 50, 14, 34, 42
# The width of a character of a tick label, and the least space between two labels.
_CHARACTER, _GAP = 8.0, 6.0
_PLOT_WIDTH, _PLOT_HEIGHT = _WIDTH - _LEFT - _RIGHT, _HEIGHT - _TOP - _BOTTOM


def draw_lines(chart: Lines) -> str:
    """The curves, their names at the top, levels as dashed lines."""
    scale = 100.0 if chart.percent else 1.0
    points = [point for series in chart.series for point in series.points]
    heights = [scale * y for _, y in points] + [scale * level.y for level in chart.levels]
    right = max(1.0, *(x for x, _ in points))
    x_ticks = [tick for tick in _ticks(right, 6, whole=True) if tick <= right]
    y_ticks, share = _log_axis(heights) if chart.log else _axis(heights)

    def place(x: float, y: float) -> tuple[float, float]:
        return _LEFT + _PLOT_WIDTH * x / right, _TOP + _PLOT_HEIGHT * (1 - share(y))

    unit = "%" if chart.percent else ""
    pieces = [_y_axis(y_ticks, share, unit), _x_axis([(place(x, 0)[0], _number(x)) for x in x_ticks], chart.x)]
    names: list[str] = []  # drawn last: a curve that passes behind a name must not strike it through
    for level in chart.levels:
        _, y = place(0, scale * level.y)
        pieces.append(f'<line class="level" x1="{_LEFT}" x2="{_WIDTH - _RIGHT}" y1="{y:.1f}" y2="{y:.1f}"/>')
        names.append(_text(_WIDTH - _RIGHT, y - 5, level.name, "end", "faint"))
    for number, series in enumerate(chart.series):
        corners = [place(x, scale * y) for x, y in series.points]
        pieces.append(f'<polyline class="c{number}" points="{" ".join(f"{x:.1f},{y:.1f}" for x, y in corners)}"/>')
        shown = corners if len(corners) <= 24 else corners[-1:]
        pieces += [f'<circle class="c{number}" cx="{x:.1f}" cy="{y:.1f}" r="2.6"/>' for x, y in shown]
    last = [f"{each.name} {scale * each.points[-1][1]:.4g}{unit}" for each in chart.series]
    description = f"{chart.y} over {chart.x}; at the end: {', '.join(last)}"
    return _figure(description, chart.y, [series.name for series in chart.series], pieces + names)


def draw_bars(chart: Bars) -> str:
    """One bar for each label, with its amount where there is room."""
    y_ticks, share = _axis([amount for _, amount in chart.bars])
    step = _PLOT_WIDTH / len(chart.bars)
    middles = [_LEFT + step * (number + 0.5) for number in range(len(chart.bars))]
    marks = _apart([(_inside(middle, label), label) for middle, (label, _) in zip(middles, chart.bars, strict=True)])
    pieces = [_y_axis(y_ticks, share, ""), _x_axis(marks, chart.x)]
    for middle, (_, amount) in zip(middles, chart.bars, strict=True):
        height = _PLOT_HEIGHT * share(amount)
        y = _TOP + _PLOT_HEIGHT - height
        width = min(0.72 * step, 64)
        pieces.append(
            f'<rect class="bar" x="{middle - width / 2:.1f}" y="{y:.1f}" width="{width:.1f}" height="{height:.1f}"/>'
        )
        if len(chart.bars) <= 8:
            pieces.append(_text(middle, y - 5, _number(amount), "middle", "amount"))
    amounts = ", ".join(f"{label}: {_number(amount)}" for label, amount in chart.bars)
    return _figure(f"{chart.y} by {chart.x}: {amounts}", chart.y, [], pieces)


def _apart(marks: Sequence[tuple[float, str]]) -> Sequence[tuple[float, str]]:
    """Every mark, or every second, third, ... one: the most of which no two labels run into each other."""
    for every in range(1, len(marks)):
        shown = marks[::every]
        pairs = pairwise(shown)
        if all((_length(one) + _length(other)) / 2 + _GAP <= right - left for (left, one), (right, other) in pairs):
            return shown
    return marks[:1]


def _inside(x: float, label: str) -> float:
    """The place nearest to x at which the whole label is in the picture."""
    half = _length(label) / 2
    return max(half, min(x, _WIDTH - half))


def _length(label: str) -> float:
    return _CHARACTER * len(label)


def _figure(description: str, title: str, names: Sequence[str], pieces: Sequence[str]) -> str:
    heading = [_text(2, 14, title, "start", "title")]
    x = float(_WIDTH - _RIGHT)
    for number, name in reversed(list(enumerate(names)) if len(names) > 1 else []):
        heading.append(_text(x, 14, name, "end", f"name n{number}"))
        x -= 7.2 * len(name) + 18
    return (
        f'<svg viewBox="0 0 {_WIDTH} {_HEIGHT}" role="img" aria-label="{escaped(description)}">'
        f"{''.join(heading)}{''.join(pieces)}</svg>"
    )


def _y_axis(ticks: Sequence[float], share: Share, unit: str) -> str:
    pieces = []
    for tick in ticks:
        y = _TOP + _PLOT_HEIGHT * (1 - share(tick))
        kind = "axis" if tick == ticks[0] else "grid"
        pieces.append(f'<line class="{kind}" x1="{_LEFT}" x2="{_WIDTH - _RIGHT}" y1="{y:.1f}" y2="{y:.1f}"/>')
        pieces.append(_text(_LEFT - 8, y + 4, f"{_number(tick)}{unit}", "end", "tick"))
    return "".join(pieces)


def _x_axis(marks: Sequence[tuple[float, str]], label: str) -> str:
    low = _TOP + _PLOT_HEIGHT
    pieces = [_text(x, low + 17, text, "middle", "tick") for x, text in marks]
    return "".join([*pieces, _text(_LEFT + _PLOT_WIDTH / 2, low + 36, label, "middle", "tick")])


def _text(x: float, y: float, text: str, anchor: str, kind: str) -> str:
    return f'<text class="{kind}" x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">{escaped(text)}</text>'


def _axis(values: Sequence[float]) -> tuple[list[float], Share]:
    """Ticks from zero up, and a function from a value to its height, from 0 to 1."""
    ticks = _ticks(max(values), 5)
    return ticks, lambda value: max(value, 0.0) / ticks[-1]


def _log_axis(values: Sequence[float]) -> tuple[list[float], Share]:
    """The same in powers of ten; values of zero or less are drawn on the axis."""
    positive = [value for value in values if value > 0] or [1.0]
    low, high = math.floor(math.log10(min(positive))), math.ceil(math.log10(max(positive)))
    high = max(high, low + 1)
    ticks = [10.0**power for power in range(low, high + 1, -(-(high - low) // 6))]
    return ticks, lambda value: max(0.0, math.log10(value) - low) / (high - low) if value > 0 else 0.0


def _ticks(largest: float, about: int, *, whole: bool = False) -> list[float]:
    """Round numbers from 0 to the first at or above `largest`."""
    largest = largest if largest > 1e-300 else 1.0
    rough = largest / about
    power = 10.0 ** math.floor(math.log10(rough))
    step = next(factor * power for factor in (1, 2, 2.5, 5, 10) if factor * power >= rough * (1 - 1e-9))
    if whole:
        step = max(1.0, math.ceil(step))
    return [step * number for number in range(math.ceil(largest / step - 1e-9) + 1)]


def _number(value: float) -> str:
    if abs(value) >= 1e9:
        return f"{value:.3g}".replace("e+", "e")
    if abs(value) >= 10_000:
        return f"{value / 1000:,.4g}k" if abs(value) < 1e6 else f"{value / 1e6:,.4g}M"
    return f"{value:,.0f}" if value == int(value) else f"{value:.3g}"
