"""From what a person says about their fleet to a question for the planner, with every mistake told by the option's name.

The command `tacit plan` and the page of the board ask the same questions here, so they give the same answers.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from tacit.errors import RecipeError
from tacit.numbers import finite_or_none
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
from tacit.privacy.planning.words import assumptions, notes, why

# Banded noise has to be asked for: it is hardly better than blt and keeps hundreds of models in memory.
USUAL = ("tree", "blt", "gaussian", POISSON)
# How many report goals the table has at most: the largest one, its half, a quarter, ...
MOST_GOALS = 6
# The search for a tree's sensitivity takes minutes beyond this, with small gaps.
MOST_ROUNDS = 20_000
MOST_USERS = 10**12
LEAST_FIGURE, MOST_FIGURE = 1e-9, 1e6


@dataclass(frozen=True)
class Asked:
    """The options of `tacit plan`, under their names; None or empty where nothing was said."""

    population: int
    rounds: int
    delta: float
    epsilon: float | None = None
    rho: float | None = None
    simulated_noise: float | None = None
    simulated_report_goal: int | None = None
    noise_on_mean: float | None = None
    simulated_mechanism: str = "tree"
    devices_per_round: int | None = None
    devices_per_day: float | None = None
    round_minutes: float | None = None
    timer_hours: Sequence[float] = ()
    min_separation: Sequence[int] = ()
    max_participation: int | None = None
    report_goal: Sequence[int] = ()
    uniform_sampling: bool = False
    mechanism: Sequence[str] = ()


def question_of(asked: Asked) -> Question:
    """The question; RecipeError names the option that cannot be used."""
    for option, whole, most in (
        ("--population", asked.population, MOST_USERS),
        ("--rounds", asked.rounds, MOST_ROUNDS),
    ):
        if not 1 <= whole <= most:
            raise RecipeError(f"Expected {option} from 1 to {most}, got {whole}.")
    if not 0 < asked.delta < 1:
        raise RecipeError(f"Expected --delta between 0 and 1, got {asked.delta:g}.")
    for option, value in (
        ("--devices-per-day", asked.devices_per_day),
        ("--round-minutes", asked.round_minutes),
        *(("--timer-hours", hours) for hours in asked.timer_hours),
    ):
        if value is not None and not (value > 0 and math.isfinite(value)):
            raise RecipeError(f"Expected {option} above 0, got {value:g}.")
    for option, whole_or_none, least in (
        ("--devices-per-round", asked.devices_per_round, 1),
        ("--max-participation", asked.max_participation, 1),
        *(("--min-separation", each, 0) for each in asked.min_separation),
        *(("--report-goal", each, 1) for each in asked.report_goal),
    ):
        if whole_or_none is not None and whole_or_none < least:
            raise RecipeError(f"Expected {option} of at least {least}, got {whole_or_none}.")
    for name in asked.mechanism:
        _one_of("--mechanism", name, [*MECHANISMS, POISSON])
    _one_of("--simulated-mechanism", asked.simulated_mechanism, list(MECHANISMS))
    if asked.timer_hours and asked.round_minutes is None and asked.devices_per_day is None:
        raise RecipeError(
            f"Expected --round-minutes or --devices-per-day with --timer-hours, here {asked.timer_hours[0]:g}: "
            "without the time a round takes, hours cannot be turned into rounds."
        )
    target = _target(asked.epsilon, asked.rho, asked.delta)
    simulation = _simulation(
        asked.simulated_noise, asked.simulated_report_goal, asked.noise_on_mean, asked.simulated_mechanism
    )
    if target is None and simulation is None:
        raise RecipeError(
            "Expected --epsilon or --rho, or the noise of a simulation (--simulated-noise with "
            "--simulated-report-goal, or --noise-on-mean), got none of them."
        )
    gathered = _largest_goal(asked.population, asked.devices_per_round, asked.devices_per_day, asked.round_minutes)
    goals = _goals(
        asked.report_goal, gathered, 1 if asked.simulated_report_goal is None else asked.simulated_report_goal
    )
    devices = DeviceSupply(
        asked.population,
        goals,
        asked.devices_per_day,
        asked.round_minutes,
        tuple(asked.timer_hours),
        tuple(asked.min_separation),
        asked.max_participation,
    )
    mechanisms = tuple(dict.fromkeys(asked.mechanism or USUAL))
    return Question(asked.rounds, asked.delta, devices, simulation, target, mechanisms, asked.uniform_sampling)


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


def _goals(report_goals: Sequence[int], most: int | None, least: int) -> tuple[int, ...]:
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


def answer_as_dict(question: Question, answer: PlanAnswer) -> dict[str, Any]:
    """The answer for JSON: an infinite epsilon is null."""
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


def _one_of(option: str, value: str, choices: list[str]) -> None:
    if value not in choices:
        raise RecipeError(f"Expected {option} to be {' or '.join(choices)}, got {value!r}.")


def _sensible(option: str, value: float) -> None:
    if not LEAST_FIGURE <= value <= MOST_FIGURE:
        raise RecipeError(f"Expected {option} from {LEAST_FIGURE:g} to {MOST_FIGURE:g}, got {value:g}.")
