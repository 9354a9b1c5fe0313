"""`tacit population`: simulate how devices take part, before anything is trained on them."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console
from rich.table import Table

from tacit.cli.options import Json
from tacit.cli.results import emit
from tacit.cli.results.planning import PopulationResult
from tacit.errors import RecipeError

if TYPE_CHECKING:
    from tacit.simulation.population.summary import PopulationOutcome

MOST_ROUNDS = 1_000_000
TIMERS = (24.0, 48.0, 72.0, 96.0, 144.0, 192.0)


def population(
    devices: Annotated[int, typer.Option("--devices", help="How many devices there are.")] = 100_000,
    report_goal: Annotated[int, typer.Option("--report-goal", help="How many reports complete a round.")] = 130,
    rounds: Annotated[int, typer.Option("--rounds", help="How many rounds to complete.")] = 1_500,
    timer_hours: Annotated[
        list[float] | None,
        typer.Option(
            "--timer-hours",
            help="How many hours a device waits after a report; may be repeated, and the timers are then compared.",
            show_default=", ".join(f"{hours:g}" for hours in TIMERS),
        ),
    ] = None,
    over_selection: Annotated[
        float, typer.Option("--over-selection", help="How many devices are selected for each report of the goal.")
    ] = 1.3,
    drop_out: Annotated[float, typer.Option("--drop-out", help="Share of the selected devices that drop out.")] = 0.06,
    work_minutes: Annotated[
        float,
        typer.Option("--work-minutes", help="How many minutes the median device takes to download, train and upload."),
    ] = 2.5,
    deadline_hours: Annotated[
        float,
        typer.Option("--deadline-hours", help="A round that has not got its reports after this time is abandoned."),
    ] = 12.0,
    zones: Annotated[
        str, typer.Option("--zones", help="Time zones: one, us, europe, world, or hours:share,... as in -5:0.6,-6:0.4.")
    ] = "us",
    min_separation: Annotated[
        int | None,
        typer.Option("--min-separation", help="MinS: the server refuses a device that waited fewer rounds than this."),
    ] = None,
    max_participation: Annotated[
        int | None,
        typer.Option("--max-participation", help="MaxP: the server refuses a device that took part this often."),
    ] = None,
    seed: Annotated[int, typer.Option("--seed", help="The same seed simulates the same population.")] = 0,
    plot: Annotated[Path | None, typer.Option("--plot", help="Also draw the participation, as .png or .svg.")] = None,
    as_json: Json = False,
) -> None:
    """Simulate which devices take part, how long rounds take, and which MinS and MaxP follow (Gboard, section 2.2).

    Example: tacit population --devices 5000000 --report-goal 6500 --timer-hours 24 --timer-hours 144 --plot population.png
    """
    from tacit.simulation.population.settings import PopulationSettings
    from tacit.simulation.population.summary import simulate

    if not 1 <= rounds <= MOST_ROUNDS:
        raise RecipeError(f"Expected --rounds from 1 to {MOST_ROUNDS}, got {rounds}.")
    if seed < 0:
        raise RecipeError(f"Expected --seed of at least 0, got {seed}.")
    settings = [
        PopulationSettings(
            devices=devices,
            report_goal=report_goal,
            over_selection=over_selection,
            timer_hours=timer,
            deadline_hours=deadline_hours,
            work_minutes=work_minutes,
            drop_out=drop_out,
            zones=zones,
            min_separation=min_separation,
            max_participation=max_participation,
        )
        for timer in _timers(timer_hours)
    ]
    for each in settings:
        each.require_supply(rounds)
    if plot is not None:
        from tacit.plotting import require_picture

        require_picture(plot)
    outcomes = []
    with Console(stderr=True).status("") as status:
        for each in settings:
            status.update(f"{rounds:,} rounds with a timer of {each.timer_hours:g} h")
            outcomes.append(simulate(each, rounds, seed))
    if plot is not None:
        from tacit.simulation.population.plots import plot_population

        plot_population(outcomes, plot)
    if as_json:
        _print_json(outcomes, rounds, seed)
    else:
        _print(outcomes, rounds)


def _timers(asked: Sequence[float] | None) -> Sequence[float]:
    timers = asked or TIMERS
    if len(set(timers)) < len(timers):
        said = ", ".join(f"{hours:g}" for hours in timers)
        raise RecipeError(f"Expected --timer-hours to name each timer once, got {said}.")
    return timers


def _print_json(outcomes: Sequence[PopulationOutcome], rounds: int, seed: int) -> None:
    settings = dataclasses.asdict(outcomes[0].settings)
    del settings["timer_hours"]
    found = {
        "settings": settings,
        "rounds": rounds,
        "seed": seed,
        "largest_separation": outcomes[0].settings.largest_separation.rounds_between,
        "timers": [each.as_dict() for each in outcomes],
    }
    emit(PopulationResult, found)


def _print(outcomes: Sequence[PopulationOutcome], rounds: int) -> None:
    settings = outcomes[0].settings
    table = Table(box=None, pad_edge=False, header_style="bold")
    for heading in (
        "timer",
        "days",
        "median round",
        "quickest hour",
        "slowest hour",
        "abandoned",
        "MinS",
        "MaxP",
        "check-ins/report",
    ):
        table.add_column(heading, justify="right")
    for each in outcomes:
        found, hours = each.as_dict(), [took for took in each.by_hour() if took is not None]
        separation = found["min_separation"]
        table.add_row(
            f"{each.settings.timer_hours:g} h",
            f"{found['simulated_days']:.1f}",
            _duration(found["round_s"]["median"]),
            _duration(min(hours)),
            _duration(max(hours)),
            f"{each.given_up:,}",
            "none" if separation is None else f"{separation:,}",
            f"{each.realised.max_participation:,}",
            f"{each.counts.check_ins / (rounds * settings.report_goal):.1f}",
        )
    typer.echo(
        f"{rounds:,} rounds of {settings.report_goal:,} reports ({settings.wanted:,} devices selected) "
        f"from {settings.devices:,} devices, zones {settings.zones}."
    )
    Console(width=100, highlight=False).print(table)
    typer.echo(
        f"MinS is the number of rounds between two participations of one device; {settings.devices:,} devices allow "
        f"at most {settings.largest_separation.rounds_between:,}."
    )
    if any(each.realised.min_separation is None for each in outcomes):
        typer.echo("Where MinS is none, no device took part twice.")


def _duration(seconds: float) -> str:
    return f"{seconds / 60:.1f} min" if seconds < 3_600 else f"{seconds / 3_600:.1f} h"
