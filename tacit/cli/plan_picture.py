"""`tacit plan --plot`: the curves of Gboard's Figure 4 around the recommended row, and the mechanisms side by side."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tacit.errors import RecipeError
from tacit.numbers import rounded_up
from tacit.privacy.participation.limits import Gap
from tacit.privacy.planning.curves import (
    FACTORS,
    FEWEST_POINTS,
    INSTANT,
    POINTS,
    SEARCHED_POINTS,
    PlanCurves,
    spread,
)
from tacit.privacy.planning.planner import POISSON, PlanAnswer, Question
from tacit.privacy.planning.words import described
from tacit.runs.plots import ACCENT, FAINT, INK

# A family of curves from light to dark; the plan's own is ACCENT and thicker.
SHADES = ("#a5d8dd", "#5fb3bf", ACCENT, "#0a4d68", "#07263f")
BY_MECHANISM = {"tree": ACCENT, "blt": "#2b8a3e", "banded": "#b02a5b", "gaussian": "#c2571a", POISSON: "#7048a8"}
EPSILON_AXIS = "#616e7c"


def draw_plan(question: Question, answer: PlanAnswer, out: Path) -> None:
    """Four panels: ρ over report goal for several populations and rounds, ρ over MinS, ε over report goal by mechanism.

    As in the recommended row, noise is in proportion to the report goal, and MinS to the most the population can
    sustain. The first three panels are curves of the tree, as in the paper, unless the row's mechanism is as quick to
    compute. If it is not, its own curve at the plan's population and rounds is drawn beside them, with the same prefix error:
    the dot is on that curve, and its distance to the tree's shows what the mechanism gains.
    """
    if out.suffix not in (".png", ".svg"):
        raise RecipeError(f"Expected a --plot that ends in .png or .svg, got {out}.")
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    curves = PlanCurves(question, answer.recommended)
    figure, panels = pyplot.subplots(2, 2, figsize=(11, 8.2), layout="constrained", facecolor="white")
    with pyplot.rc_context({"axes.edgecolor": INK, "axes.labelcolor": INK, "text.color": INK}):
        _by_population(panels[0, 0], curves)
        _by_rounds(panels[0, 1], curves)
        _by_separation(panels[1, 0], curves)
        _by_mechanism(panels[1, 1], curves)
    for axes in panels.flat:
        axes.spines["top"].set_visible(False)
        axes.grid(which="major", color="#e4e7eb", lw=0.7)
        axes.set_axisbelow(True)
    row, ratio = curves.row, rounded_up(curves.noise(1), 3)
    beside = f" The curve of {row.mechanism} has the same error." if curves.searched else ""
    figure.suptitle(
        f"The dot is the recommended row: {described(row)}.{beside}\nAlong the curves of ρ, of {curves.mechanism}, the noise "
        f"multiplier is {ratio} times the report goal, and MinS + 1 is {curves.share:.0%} of population / report goal.",
        fontsize=10,
    )
    try:
        figure.savefig(out, dpi=150)
    except OSError as error:
        raise RecipeError(f"Cannot write --plot {out} ({error.strerror}).") from None
    finally:
        pyplot.close(figure)


def _by_population(axes: Any, curves: PlanCurves) -> None:
    families = [(factor, round(factor * curves.population)) for factor in FACTORS]
    for (factor, population), shade in zip(families, SHADES, strict=True):
        goals = [goal for goal in curves.goals() if goal <= population]
        rhos = [curves.rho(goal, curves.held_gap(goal, population, curves.rounds), curves.rounds) for goal in goals]
        _line(axes, goals, rhos, shade, f"{_short(population)} users", own=factor == 1)
    _searched_over_goal(axes, curves, f"{_short(curves.population)} users")
    _rho_over_goal(axes, curves, f"Report goal, by population ({curves.rounds:,} rounds)")


def _by_rounds(axes: Any, curves: PlanCurves) -> None:
    goals = curves.goals()
    for rounds, place, own in curves.rounds_beside():
        rhos = [curves.rho(goal, curves.held_gap(goal, curves.population, rounds), rounds) for goal in goals]
        _line(axes, goals, rhos, SHADES[place], f"{rounds:,} rounds", own=own)
    _searched_over_goal(axes, curves, f"{curves.rounds:,} rounds")
    _rho_over_goal(axes, curves, f"Report goal, by rounds ({_short(curves.population)} users)")


def _searched_over_goal(axes: Any, curves: PlanCurves, family: str) -> None:
    """The curve of the row's own mechanism over the report goal, if it is not one of the family."""
    if not curves.searched:
        return
    goals, name = curves.goals(SEARCHED_POINTS), curves.row.mechanism
    gaps = [curves.held_gap(goal, curves.population, curves.rounds) for goal in goals]
    rhos = [curves.rho_of(name, goal, gap) for goal, gap in zip(goals, gaps, strict=True)]
    _line(axes, goals, rhos, BY_MECHANISM.get(name, INK), f"{name}, {family}", own=True)


def _rho_over_goal(axes: Any, curves: PlanCurves, title: str) -> None:
    axes.set(xscale="log", yscale="log", xlabel="report goal")
    _plain_ticks(axes)
    _finish(axes, curves, title, at=curves.row.report_goal)


def _by_separation(axes: Any, curves: PlanCurves) -> None:
    goal = curves.row.report_goal
    sustained = curves.population // goal
    low = min(sustained / 16, curves.gap.index_difference / 2)
    chosen_gaps = spread(max(2, low), min(2 * curves.rounds, 4 * sustained))
    differences = sorted({curves.gap.index_difference, *chosen_gaps})
    gaps = [Gap.of_index_difference(each) for each in differences]
    for rounds, place, own in curves.rounds_beside():
        rhos = [curves.rho(goal, gap, rounds) for gap in gaps]
        _line(axes, [gap.rounds_between for gap in gaps], rhos, SHADES[place], f"{rounds:,} rounds", own=own)
    if curves.searched:
        chosen = sorted({*chosen_gaps[:: POINTS // FEWEST_POINTS], chosen_gaps[-1], curves.gap.index_difference})
        few, name = [Gap.of_index_difference(each) for each in chosen], curves.row.mechanism
        rhos = [curves.rho_of(name, goal, gap) for gap in few]
        label = f"{name}, {curves.rounds:,} rounds"
        _line(axes, [gap.rounds_between for gap in few], rhos, BY_MECHANISM.get(name, INK), label, own=True)
    limit = Gap.of_index_difference(sustained).rounds_between
    axes.set(xscale="log", yscale="log", xlabel="MinS: rounds strictly between two participations")
    _plain_ticks(axes)
    left, right = axes.get_xlim()
    if left < limit < right:
        axes.axvspan(limit, right, color=FAINT, alpha=0.2, lw=0)
        axes.set_xlim(left, right)
    title = f"MinS, by rounds (report goal {goal:,}; grey: too few users)"
    _finish(axes, curves, title, at=curves.gap.rounds_between)


def _by_mechanism(axes: Any, curves: PlanCurves) -> None:
    names = list(dict.fromkeys([*curves.question.mechanisms, curves.mechanism]))
    for name in names:
        goals = curves.goals(POINTS if name in INSTANT else SEARCHED_POINTS)
        values = [curves.epsilon(name, goal) for goal in goals]
        _line(axes, goals, values, BY_MECHANISM.get(name, INK), name, own=name == curves.row.mechanism)
    delta = curves.question.delta
    axes.set(xscale="log", yscale="log", xlabel="report goal")
    axes.set_ylabel(f"ε at δ = {delta:g}")
    _plain_ticks(axes)
    if curves.question.target is not None:
        _level(axes, curves.question.target.epsilon)
    _dot(axes, curves.row.report_goal, curves.row.epsilon, curves.row.mechanism)
    axes.set_title("Report goal, by mechanism (equal noise in running sums)", fontsize=11)
    axes.legend(frameon=False, fontsize=8.5)
    axes.spines["right"].set_visible(False)


def _finish(axes: Any, curves: PlanCurves, title: str, *, at: int) -> None:
    """Title, legend, the target, the recommended row as a dot, and ε on the right-hand side."""
    question, row = curves.question, curves.row
    axes.set_ylabel("ρ (zCDP)" if curves.searched else f"ρ (zCDP), {curves.mechanism}")
    axes.set_title(title, fontsize=11)
    if question.target is not None:
        _level(axes, question.target.rho)
    if row.rho is not None:
        _dot(axes, at, row.rho, row.mechanism)
    axes.legend(frameon=False, fontsize=8.5, loc="upper right")
    low, high = axes.get_ylim()
    marks = {each: rho for each, rho in curves.epsilon_marks.items() if low < rho < high}
    right = axes.twinx()
    right.set(yscale="log", ylim=(low, high))
    right.set_yticks(list(marks.values()), [f"{each:g}" for each in marks])
    right.minorticks_off()
    right.spines["top"].set_visible(False)
    right.set_ylabel(f"ε at δ = {question.delta:g}", color=EPSILON_AXIS)
    right.tick_params(colors=EPSILON_AXIS)


def _line(axes: Any, x: Sequence[int], y: Sequence[float], colour: str, label: str, *, own: bool) -> None:
    axes.plot(x, y, color=colour, lw=2.6 if own else 1.4, label=label, zorder=3 if own else 2)


def _dot(axes: Any, x: float, y: float, mechanism: str) -> None:
    colour = BY_MECHANISM.get(mechanism, INK)
    axes.plot([x], [y], "o", color=colour, markeredgecolor=INK, markeredgewidth=1.5, ms=9, zorder=5)
    axes.annotate(mechanism, (x, y), xytext=(-7, -7), textcoords="offset points", ha="right", va="top", fontsize=9)


def _level(axes: Any, height: float) -> None:
    axes.axhline(height, color=INK, lw=1, ls="--", zorder=1)
    axes.annotate(
        " target", (0, height), xycoords=("axes fraction", "data"), ha="left", va="bottom", color=INK, fontsize=8.5
    )


def _plain_ticks(axes: Any) -> None:
    """Figures as people write them, in place of powers of ten."""
    from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

    axes.xaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: _short(value)))
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_minor_formatter(NullFormatter())


def _short(value: float) -> str:
    """1,500 or 4.21M."""
    return f"{value / 1e6:.3g}M" if value >= 1e6 else f"{value:,.0f}" if value >= 1 else f"{value:g}"
