"""Plot simulated participation: rounds over days, and MinS, MaxP and check-ins by the devices' timer."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from tacit.plotting import load_pyplot, require_picture, save_figure
from tacit.runs.plots import ACCENT, FAINT, INK
from tacit.simulation.population.habits import DAY, HOUR, MINUTE
from tacit.simulation.population.summary import PopulationOutcome, available_share

SHADE, WARM, COOL = "#e9eef2", "#e8590c", "#74b9c4"
MOST_DAYS = 10  # days in the picture; with more, single days could not be seen


def plot_population(outcomes: Sequence[PopulationOutcome], out: Path) -> None:
    """Write a PNG or SVG: the rounds of the first outcome over time, and all outcomes side by side by timer."""
    require_picture(out)
    pyplot = load_pyplot()

    figure, axes = pyplot.subplot_mosaic(
        [["time", "time"], ["separation", "calls"]],
        figsize=(9.5, 6.6),
        height_ratios=[1, 1],
        width_ratios=[3, 2],
        layout="constrained",
        facecolor="white",
    )
    _rounds_over_days(axes["time"], outcomes[0])
    _separation(axes["separation"], outcomes)
    _calls(axes["calls"], outcomes)
    for each in axes.values():
        each.spines[["top", "right"]].set_visible(False)
    save_figure(figure, out)


def _rounds_over_days(axes: Any, outcome: PopulationOutcome) -> None:
    settings = outcome.settings
    days = min(outcome.finished_s[-1] / DAY, MOST_DAYS)
    shown = outcome.finished_s <= days * DAY
    began = (outcome.finished_s - outcome.took_s)[shown] / DAY
    minutes = outcome.took_s[shown] / MINUTE
    when = np.arange(0, int(days * DAY) + 1, HOUR // 2)
    backdrop = axes.twinx()
    backdrop.fill_between(when / DAY, 100 * available_share(outcome.habits, when), color=SHADE, lw=0)
    backdrop.set(ylim=(0, 100), ylabel="devices available, %")
    backdrop.yaxis.label.set_color(FAINT)
    backdrop.tick_params(axis="y", colors=FAINT)
    backdrop.spines[["top", "left", "right"]].set_visible(False)
    axes.set_zorder(backdrop.get_zorder() + 1)
    axes.patch.set_visible(False)
    axes.plot(began, minutes, ".", color=ACCENT, ms=4, alpha=0.7, mew=0)
    axes.set_yscale("log")
    low, high = 0.8 * minutes.min(), 1.6 * minutes.max()
    ticks = [tick for tick in (0.5, 1, 2, 5, 10, 20, 60, 120, 360, 720, 1440) if low <= tick <= high]
    axes.set_yticks(ticks, [_duration(tick) for tick in ticks])
    axes.set_yticks([], minor=True)
    axes.set(xlim=(0, days), ylim=(low, high), xlabel="simulated day (UTC)", ylabel="time a round takes")
    axes.set_title(
        f"{settings.report_goal:,} reports from {settings.devices:,} devices, timer {settings.timer_hours:g} h: "
        "rounds are quick while devices are available"
    )


def _separation(axes: Any, outcomes: Sequence[PopulationOutcome]) -> None:
    found = [
        (each.settings.timer_hours, each.realised.min_separation.rounds_between, each.realised.max_participation)
        for each in sorted(outcomes, key=lambda each: each.settings.timer_hours)
        if each.realised.min_separation is not None
    ]
    cap = outcomes[0].settings.largest_separation.rounds_between
    axes.axhline(cap, color=WARM, lw=1, ls="--")
    axes.annotate(
        f"no more than {cap:,}: devices / report goal",
        (0.98, cap),
        xycoords=("axes fraction", "data"),
        xytext=(0, 4),
        textcoords="offset points",
        ha="right",
        color=WARM,
        fontsize=9,
    )
    longest = max(each.settings.timer_hours for each in outcomes)
    if found:
        timer, separation, _ = found[0]
        if timer > 0 and separation > 0:
            reach = min(longest, cap * timer / separation)
            axes.plot([0, reach], [0, reach * separation / timer], color=FAINT, lw=1, ls=":")
            axes.annotate(
                "in proportion",
                (0.6 * reach, 0.6 * reach * separation / timer),
                xytext=(-6, 2),
                textcoords="offset points",
                ha="right",
                color=FAINT,
                fontsize=9,
            )
        axes.plot([each[0] for each in found], [each[1] for each in found], color=ACCENT, lw=2, marker="o", ms=5)
        for hours, value, most in found:
            axes.annotate(
                f"MaxP {most}",
                (hours, value),
                xytext=(4, -12),
                textcoords="offset points",
                fontsize=8,
                color=INK,
            )
    else:
        axes.text(0.5, 0.4, "nobody took part twice", transform=axes.transAxes, ha="center", color=INK)
    axes.set_xticks(sorted({each.settings.timer_hours for each in outcomes}))
    axes.set(xlim=(0, 1.12 * max(longest, 1)), ylim=(0, 1.16 * max(cap, 1)))
    axes.set(xlabel="timer, hours", ylabel="MinS, rounds between", title="MinS grows with the timer, up to a cap")


def _calls(axes: Any, outcomes: Sequence[PopulationOutcome]) -> None:
    """The fate of check-ins, per report that was used."""
    ordered = sorted(outcomes, key=lambda each: each.settings.timer_hours)
    reports = np.array([len(each.finished_s) * each.settings.report_goal for each in ordered])
    parts = {
        "report used": (reports, ACCENT),
        "report too late": (np.array([each.counts.late for each in ordered]), COOL),
        "dropped out": (np.array([each.counts.dropped_out for each in ordered]), WARM),
        "refused by limits": (np.array([each.counts.refused for each in ordered]), INK),
        "sent away": (np.array([each.counts.sent_away for each in ordered]), "#cbd2d9"),
    }
    place, base = np.arange(len(ordered)), np.zeros(len(ordered))
    for label, (count, color) in parts.items():
        if count.any():
            axes.bar(place, count / reports, bottom=base, color=color, label=label, width=0.7)
            base = base + count / reports
    axes.set_xticks(place, [f"{each.settings.timer_hours:g}" for each in ordered])
    axes.set(xlabel="timer, hours", ylabel="check-ins per report", title="The fate of check-ins")
    axes.set_ylim(0, 1.75 * base.max())
    handles, labels = axes.get_legend_handles_labels()
    axes.legend(handles[::-1], labels[::-1], frameon=False, fontsize=8, loc="upper right")


def _duration(minutes: float) -> str:
    if minutes < 60:
        return f"{minutes:g} min"
    return f"{minutes / 60:g} h"
