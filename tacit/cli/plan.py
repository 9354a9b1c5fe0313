"""`tacit plan`: report goal, noise and MinS for a fleet of devices (Gboard, section 2.5). Computes, and touches no data."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.measure import Measurement
from rich.table import Table

from tacit.cli.options import Delta, Json
from tacit.cli.results import emit
from tacit.cli.results.planning import PlanResult
from tacit.numbers import rounded_up
from tacit.privacy.planning.asking import Asked, answer_as_dict, question_of
from tacit.privacy.planning.costs import MECHANISMS
from tacit.privacy.planning.planner import POISSON, PlanAnswer
from tacit.privacy.planning.planner import plan as planned
from tacit.privacy.planning.words import notes, why
from tacit.privacy.statement.wording import epsilon_text

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
    asked = Asked(
        population,
        rounds,
        delta,
        epsilon,
        rho,
        simulated_noise,
        simulated_report_goal,
        noise_on_mean,
        simulated_mechanism,
        devices_per_round,
        devices_per_day,
        round_minutes,
        tuple(timer_hours or ()),
        tuple(min_separation or ()),
        max_participation,
        tuple(report_goal or ()),
        uniform_sampling,
        tuple(mechanism or ()),
    )
    question = question_of(asked)
    answer = planned(question)
    if plot is not None:
        from tacit.cli.plan_picture import draw_plan

        draw_plan(question, answer, plot)
    if as_json:
        emit(PlanResult, answer_as_dict(question, answer))
        return
    _print_table(answer, with_target=question.target is not None)
    typer.echo(f"\nRecommended: {why(question, answer)}\n")
    for note in notes(question, answer):
        typer.echo(f"  {note}")
    if plot is not None:
        typer.echo(f"Wrote {plot}.")


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
