"""The results of a sweep in one picture: what its cases reached, over the first axis of numbers, or case by case."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import mean
from typing import Any

from tacit.errors import RunError
from tacit.plotting import load_pyplot, require_picture, save_figure
from tacit.runs.plots import MEASURES
from tacit.simulation.sweep.cases import CaseResult

INKS = ("#0b7285", "#c2410c", "#4d7c0f", "#6d28d9", "#9aa5b1", "#be123c")
# A point's label says which values it has; with more groups than this the labels hide the points.
MOST_LINES = 12


def plot_sweep(results: Sequence[CaseResult], out: Path) -> None:
    """Draw what the cases reached, as a PNG or SVG; RunError if none was measured yet."""
    require_picture(out)
    shown = [result for result in results if result.metrics]
    measure = next((name for name in MEASURES if shown and all(name in each.metrics for each in shown)), None)
    if measure is None:
        raise RunError("No case of the sweep has been measured yet, so there is nothing to draw.")
    label, title = MEASURES[measure]
    factor = 1 if measure == "loss" else 100
    values = [(each, factor * float(each.metrics[measure])) for each in shown]
    pyplot = load_pyplot()
    axis = _axis_of_numbers([each.settings for each in shown])
    if axis is None:
        figure, axes = pyplot.subplots(figsize=(7, 1.2 + 0.3 * len(values)), layout="constrained")
        places = range(len(values))
        axes.barh(places, [value for _, value in values], color=INKS[0], height=0.6)
        axes.set_yticks(places, [each.name for each, _ in values], fontsize=8)
        axes.invert_yaxis()
        axes.set(xlabel=label, title=title)
    else:
        figure, axes = pyplot.subplots(figsize=(7, 4), layout="constrained")
        _lines(axes, axis, values)
        axes.set(xlabel=axis, ylabel=label, title=title)
    axes.spines[["top", "right"]].set_visible(False)
    save_figure(figure, out)


def _lines(axes: Any, axis: str, values: Sequence[tuple[CaseResult, float]]) -> None:
    """A line for each combination of the other settings, through the mean of its runs; each run is a point."""
    groups: dict[str, dict[float, list[float]]] = defaultdict(lambda: defaultdict(list))
    for each, value in values:
        others = ", ".join(f"{_short(key)} {each.settings[key]}" for key in each.settings if key != axis)
        groups[others][float(each.settings[axis])].append(value)
    for number, (name, points) in enumerate(sorted(groups.items())):
        ink, places = INKS[number % len(INKS)], sorted(points)
        style = ("-", "--", ":")[number // len(INKS) % 3]
        axes.plot(places, [mean(points[place]) for place in places], style, color=ink, lw=1.6, label=name or None)
        for place in places:
            axes.plot([place] * len(points[place]), points[place], "o", color=ink, ms=4)
    numbers = sorted({place for points in groups.values() for place in points})
    if numbers[0] > 0 and numbers[-1] / numbers[0] >= 8:
        axes.set_xscale("log")
    axes.set_xticks(numbers, [f"{number:g}" for number in numbers])
    axes.minorticks_off()
    if any(groups) and len(groups) <= MOST_LINES:
        axes.legend(fontsize=8, frameon=False)


def _axis_of_numbers(settings: Sequence[Mapping[str, Any]]) -> str | None:
    """The first setting that is a number in every case, and not the same in all."""
    for key in settings[0]:
        found = [each.get(key) for each in settings]
        if all(isinstance(each, int | float) and not isinstance(each, bool) for each in found) and len(set(found)) > 1:
            return key
    return None


def _short(key: str) -> str:
    return key.rpartition(".")[2]
