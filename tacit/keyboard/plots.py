"""A picture of a comparison: the relative change of every metric against the baseline, with its interval."""

from __future__ import annotations

import math
from pathlib import Path

from tacit.keyboard.comparison import KeyboardComparison
from tacit.keyboard.replay import LESS_IS_BETTER, METRICS
from tacit.plotting import load_pyplot, save_figure
from tacit.runs.plots import ACCENT, FAINT, INK


def plot_comparison(comparison: KeyboardComparison, out: Path) -> None:
    """Write a PNG or SVG with one panel per metric, each on its own scale, and one mark per model."""
    pyplot = load_pyplot()

    baseline, *others = comparison.results
    figure, panels = pyplot.subplots(
        2,
        -(-len(METRICS) // 2),
        figsize=(11, 2.6 + 0.5 * len(others)),
        layout="constrained",
        facecolor="white",
        sharey=True,
    )
    for axes, metric in zip(panels.flat, METRICS, strict=True):
        axes.axvline(0, color=FAINT, lw=1)
        for row, result in enumerate(others):
            change = result.changes[metric]
            if math.isfinite(change.relative):
                axes.plot([100 * change.low, 100 * change.high], [row, row], color=ACCENT, lw=2)
                axes.plot([100 * change.relative], [row], "o", color=ACCENT, ms=5)
        axes.set_yticks(range(len(others)), [result.name for result in others])
        axes.set_ylim(len(others) - 0.5, -0.5)
        axes.set_title(f"{metric}, less is better" if metric in LESS_IS_BETTER else metric, color=INK, fontsize=9)
        axes.spines[["top", "right"]].set_visible(False)
    figure.supxlabel(
        f"change against {baseline.name}, %, with 95% intervals ({comparison.users:,} held-out users)", fontsize=9
    )
    save_figure(figure, out)
