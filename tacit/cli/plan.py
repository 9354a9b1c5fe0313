"""`tacit plan`: report goal, noise and MinS for a fleet of devices (Gboard, section 2.5). Computes, and touches no data."""

from __future__ import annotations

import math
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.measure import Measurement
from rich.table import Table

from tacit.cli.options import Delta, Json
from tacit.cli.plan_words import assumptions, notes, why
from tacit.cli.results import emit
from tacit.cli.results.planning import PlanResult
from tacit.errors import RecipeError
from tacit.numbers import finite_or_none, rounded_up
from tacit.privacy.accounting.zcdp import epsilon_of_gaussian
from tacit.privacy.noise.tail import apart_from_tail
from tacit.privacy.planning.costs import MECHANISMS, rho_of_epsilon
from tacit.privacy.planning.planner import (
    DAYS_TO_MINUTES,
    POISSON,
    DeviceSupply,
    PlanAnswer,
    Question,
    Row,
    Simulation,
    Target,
)
from tacit.privacy.planning.planner import plan as planned
from tacit.privacy.statement.wording import epsilon_text

# Banded noise has to be asked for: it is hardly better than blt and keeps hundreds of models in memory.
USUAL = ("tree", "blt", "gaussian", POISSON)
# How many report goals the table has at most: the largest one, its half, a quarter, ...
MOST_GOALS = 6
# The search for a tree's sensitivity takes minutes beyond this, with small gaps.
MOST_ROUNDS = 20_000
MOST_USERS = 10**12
LEAST_FIGURE, MOST_FIGURE = 1e-9, 1e6
# The table shows a larger epsilon as "> 1000".
LARGE_EPSILON = 1000
MOST_COLUMNS = 200


OURS = "Target"
SIMULATED = "Noise with which a small simulation learned well"
FLEET = "Devices"


def plan(
    population: Annotated[int, typer.Option("--population", help="How many users there are: a public estimate.")],
    rounds: Annotated[int, typer.Option("--rounds", help="How many rounds of training.")],
    delta: Delta,
    epsilon: Annotated[
        float | None, typer.Option("--epsilon", help="The epsilon to stay at or below.", rich_help_panel=OURS)
    ] = None,
    rho: Annotated[
        float | None, typer.Option("--rho", help="Or the rho (zCDP) to stay at or below.", rich_help_panel=OURS)
    ] = None,
    simulated_noise: Annotated[
        float | None,
        typer.Option(
            "--simulated-noise",
            help="The largest noise multiplier with which it learned well.",
            rich_help_panel=SIMULATED,
        ),
    ] = None,
    simulated_report_goal: Annotated[
        int | None,
        typer.Option("--simulated-report-goal", help="How many users a round it had.", rich_help_panel=SIMULATED),
    ] = None,
    noise_on_mean: Annotated[
        float | None,
        typer.Option(
            "--noise-on-mean", help="Or their ratio, noise multiplier / report goal.", rich_help_panel=SIMULATED
        ),
    ] = None,
    simulated_mechanism: Annotated[
        str, typer.Option("--simulated-mechanism", help="The mechanism that was simulated.", rich_help_panel=SIMULATED)
    ] = "tree",
    devices_per_round: Annotated[
        int | None,
        typer.Option("--devices-per-round", help="How many reports a round can gather at most.", rich_help_panel=FLEET),
    ] = None,
    devices_per_day: Annotated[
        float | None,
        typer.Option(
            "--devices-per-day", help="How many reports all devices together make a day.", rich_help_panel=FLEET
        ),
    ] = None,
    round_minutes: Annotated[
        float | None,
        typer.Option("--round-minutes", help="How many minutes a round takes at least.", rich_help_panel=FLEET),
    ] = None,
    timer_hours: Annotated[
        list[float] | None,
        typer.Option(
            "--timer-hours",
            help="How many hours a device waits after a report; may be repeated.",
            rich_help_panel=FLEET,
        ),
    ] = None,
    min_separation: Annotated[
        list[int] | None,
        typer.Option(
            "--min-separation",
            help="Or MinS itself: rounds strictly between two participations of one user; may be repeated. "
            "By default the largest that the population can sustain.",
            rich_help_panel=FLEET,
        ),
    ] = None,
    max_participation: Annotated[
        int | None,
        typer.Option(
            "--max-participation",
            help="MaxP, if devices count their participations; by default what rounds and MinS allow.",
            rich_help_panel=FLEET,
        ),
    ] = None,
    report_goal: Annotated[
        list[int] | None,
        typer.Option("--report-goal", help="A report goal to consider; may be repeated.", rich_help_panel=FLEET),
    ] = None,
    uniform_sampling: Annotated[
        bool,
        typer.Option(
            "--uniform-sampling",
            help="You declare that rounds can draw users uniformly and in secret: then poisson may be recommended.",
            rich_help_panel=FLEET,
        ),
    ] = False,
    mechanism: Annotated[
        list[str] | None,
        typer.Option(
            "--mechanism", help=f"{', '.join([*MECHANISMS, POISSON])}; may be repeated. By default all but banded."
        ),
    ] = None,
    plot: Annotated[
        Path | None, typer.Option("--plot", help="Draw the curves of Gboard's Figure 4: .png or .svg.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Choose report goal, noise multiplier and MinS, for a target or for the noise with which a simulation learned well.

    Example: tacit plan --population 4210000 --rounds 1900 --delta 1e-10 --simulated-noise 0.54
    --simulated-report-goal 500 --devices-per-round 6500 --epsilon 8
    """
    for option, whole, most in (("--population", population, MOST_USERS), ("--rounds", rounds, MOST_ROUNDS)):
        if not 1 <= whole <= most:
            raise RecipeError(f"Expected {option} from 1 to {most}, got {whole}.")
    if not 0 < delta < 1:
        raise RecipeError(f"Expected --delta between 0 and 1, got {delta:g}.")
    for option, value in (
        ("--devices-per-day", devices_per_day),
        ("--round-minutes", round_minutes),
        *(("--timer-hours", hours) for hours in timer_hours or []),
    ):
        if value is not None and not (value > 0 and math.isfinite(value)):
            raise RecipeError(f"Expected {option} above 0, got {value:g}.")
    for option, whole_or_none, least in (
        ("--devices-per-round", devices_per_round, 1),
        ("--max-participation", max_participation, 1),
        *(("--min-separation", each, 0) for each in min_separation or []),
        *(("--report-goal", each, 1) for each in report_goal or []),
    ):
        if whole_or_none is not None and whole_or_none < least:
            raise RecipeError(f"Expected {option} of at least {least}, got {whole_or_none}.")
    for name in mechanism or []:
        _one_of("--mechanism", name, [*MECHANISMS, POISSON])
    _one_of("--simulated-mechanism", simulated_mechanism, list(MECHANISMS))
    if timer_hours and round_minutes is None and devices_per_day is None:
        raise RecipeError(
            f"Expected --round-minutes or --devices-per-day with --timer-hours, here {timer_hours[0]:g}: "
            "without the time a round takes, hours cannot be turned into rounds."
        )
    target = _target(epsilon, rho, delta)
    simulation = _simulation(simulated_noise, simulated_report_goal, noise_on_mean, simulated_mechanism)
    if target is None and simulation is None:
        raise RecipeError(
            "Expected --epsilon or --rho, or the noise of a simulation (--simulated-noise with "
            "--simulated-report-goal, or --noise-on-mean), got none of them."
        )
    gathered = _largest_goal(population, devices_per_round, devices_per_day, round_minutes)
    goals = _goals(report_goal, gathered, 1 if simulated_report_goal is None else simulated_report_goal)
    devices = DeviceSupply(
        population,
        goals,
        devices_per_day,
        round_minutes,
        tuple(timer_hours or ()),
        tuple(min_separation or ()),
        max_participation,
    )
    mechanisms = tuple(dict.fromkeys(mechanism or USUAL))
    question = Question(rounds, delta, devices, simulation, target, mechanisms, uniform_sampling)
    answer = planned(question)
    if plot is not None:
        from tacit.cli.plan_picture import draw_plan

        draw_plan(question, answer, plot)
    if as_json:
        emit(PlanResult, _as_dict(question, answer))
        return
    _print_table(answer, with_target=target is not None)
    typer.echo(f"\nRecommended: {why(question, answer)}\n")
    for note in notes(question, answer):
        typer.echo(f"  {note}")
    if plot is not None:
        typer.echo(f"Wrote {plot}.")


def _target(epsilon: float | None, rho: float | None, delta: float) -> Target | None:
    if epsilon is not None and rho is not None:
        raise RecipeError(f"Expected --epsilon or --rho, got both: {epsilon:g} and {rho:g}.")
    if rho is not None:
        _sensible("--rho", rho)
        return Target(rho, epsilon_of_gaussian(rho, delta), "rho")
    if epsilon is not None:
        _sensible("--epsilon", epsilon)
        found = rho_of_epsilon(epsilon, apart_from_tail(delta))
        if found == 0:
            raise RecipeError(f"Expected a larger --epsilon: noise cannot reach {epsilon:g} at --delta {delta:g}.")
        return Target(found, epsilon, "epsilon")
    return None


def _simulation(
    noise: float | None, report_goal: int | None, noise_on_mean: float | None, mechanism: str
) -> Simulation | None:
    if noise_on_mean is not None:
        if noise is not None or report_goal is not None:
            raise RecipeError(
                f"Expected --noise-on-mean, here {noise_on_mean:g}, or --simulated-noise with --simulated-report-goal, "
                "got both."
            )
        _sensible("--noise-on-mean", noise_on_mean)
        return Simulation(noise_on_mean, mechanism)
    if noise is None and report_goal is None:
        return None
    if noise is None or report_goal is None:
        missing = "--simulated-noise" if noise is None else "--simulated-report-goal"
        raise RecipeError(f"Expected --simulated-noise and --simulated-report-goal together, got no {missing}.")
    _sensible("--simulated-noise", noise)
    if report_goal < 1:
        raise RecipeError(f"Expected --simulated-report-goal of at least 1, got {report_goal}.")
    return Simulation(noise / report_goal, mechanism)


def _largest_goal(
    population: int, per_round: int | None, per_day: float | None, round_minutes: float | None
) -> int | None:
    """The most users a round can have, if that is known: as stated, or as many as report while a round takes."""
    if per_round is not None:
        return min(per_round, population)
    if per_day is None or round_minutes is None:
        return None
    found = int(min(per_day * round_minutes / DAYS_TO_MINUTES, population))
    if found < 1:
        raise RecipeError(
            f"Expected at least one device in a round, got --devices-per-day {per_day:g} with --round-minutes "
            f"{round_minutes:g}."
        )
    return found


def _goals(report_goals: list[int] | None, most: int | None, least: int) -> tuple[int, ...]:
    """The report goals that were asked for; otherwise the largest, its half, a quarter, ... down to the simulated one."""
    if report_goals:
        beyond = [goal for goal in report_goals if most is not None and goal > most]
        if beyond:
            raise RecipeError(f"Expected --report-goal of at most {most}, which a round can gather, got {beyond[0]}.")
        return tuple(report_goals)
    if most is None:
        raise RecipeError(
            "Expected --devices-per-round, or --devices-per-day with --round-minutes, or --report-goal: "
            "how many devices a round can gather bounds the report goal."
        )
    halves = [most >> times for times in range(MOST_GOALS)]
    return tuple(goal for goal in halves if goal >= min(most, max(1, least)))


def _as_dict(question: Question, answer: PlanAnswer) -> dict[str, Any]:
    row = answer.recommended
    return {
        "epsilon": finite_or_none(row.epsilon),
        "delta": question.delta,
        "rho": finite_or_none(row.rho),
        "adjacency": "add or remove one user" if row.mechanism == POISSON else "zero out one user",
        "accountant": "pld" if row.mechanism == POISSON else "zCDP, exact Gaussian curve",
        "assumptions": assumptions(row),
        "target": None if question.target is None else asdict(question.target),
        "recommended": _row_dict(row),
        "reason": answer.reason,
        "why": why(question, answer),
        "notes": notes(question, answer),
        "rows": [_row_dict(each) for each in answer.rows],
    }


def _row_dict(row: Row) -> dict[str, Any]:
    return asdict(row) | {"epsilon": finite_or_none(row.epsilon), "rho": finite_or_none(row.rho)}


def _print_table(answer: PlanAnswer, *, with_target: bool) -> None:
    named = ["", "goal", "mechanism", "z", "z / goal", "error", "MinS", "MaxP", "rho", "epsilon"]
    table = Table(*named, *(["target"] if with_target else []), box=None, pad_edge=False, padding=(0, 1, 0, 0))
    for column in table.columns:
        column.no_wrap = True
        column.justify = "left" if column.header in ("", "mechanism", "target") else "right"
    before = None
    for row in answer.rows:
        if before is not None and row.report_goal != before:
            table.add_row()
        before = row.report_goal
        table.add_row(
            ">" if row is answer.recommended else "",
            str(row.report_goal),
            row.mechanism,
            rounded_up(row.noise_multiplier),
            rounded_up(row.noise_on_mean, 3),
            rounded_up(row.prefix_error, 3),
            "-" if row.min_separation is None else f"{row.min_separation}{'*' if row.capped else ' '}",
            "-" if row.max_participation is None else str(row.max_participation),
            "-" if row.rho is None else rounded_up(row.rho),
            epsilon_text(row.epsilon) if row.epsilon < LARGE_EPSILON else f"> {LARGE_EPSILON}",
            *([{None: "", True: "met", False: "missed"}[row.meets_target]] if with_target else []),
        )
    # Wider than a narrow terminal rather than with figures cut off.
    console = Console(markup=False, highlight=False, width=MOST_COLUMNS)
    console.print(table, width=Measurement.get(console, console.options, table).maximum)


def _one_of(option: str, value: str, choices: list[str]) -> None:
    if value not in choices:
        raise RecipeError(f"Expected {option} to be {' or '.join(choices)}, got {value!r}.")


def _sensible(option: str, value: float) -> None:
    if not LEAST_FIGURE <= value <= MOST_FIGURE:
        raise RecipeError(f"Expected {option} from {LEAST_FIGURE:g} to {MOST_FIGURE:g}, got {value:g}.")
