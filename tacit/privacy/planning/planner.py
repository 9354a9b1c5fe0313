"""From a population, its devices and a target to report goal, noise and MinS: Gboard's strategy, section 2.5.

1. A simulation with few users finds the most noise on the mean update that training endures: z₀ at report goal m₀.
2. That noise is kept, z / m = z₀ / m₀: report goal and noise multiplier grow together, the model learns as well, and
   privacy gets better with z² (the hypothesis of DP-FedAvg, section 3, and Gboard, section 2.2). Another mechanism than
   the simulated one gets the noise of the same prefix error (`tacit.privacy.planning.costs`).
3. MinS follows from the timer, but is at most population / report goal: while users wait, every round needs other users.
   MaxP follows from the number of rounds and MinS.
4. Of the rows that meet the target the one with the smallest report goal is recommended, since it asks the least work of
   devices. Where none does, the report goal is the largest and the noise is raised beyond what the simulation endured.

Without a simulation, every row gets the noise that just meets the target, and the least prefix error is recommended.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Literal

from tacit.errors import RecipeError
from tacit.privacy.accounting.zcdp import epsilon_of_gaussian, gaussian_rho
from tacit.privacy.noise.multipliers import MOST_NOISE
from tacit.privacy.noise.tail import apart_from_tail
from tacit.privacy.participation.limits import Gap, most_participations
from tacit.privacy.planning.costs import (
    MECHANISMS,
    PlannedCost,
    independent_prefix_rmse,
    noise_for_rho,
    poisson_epsilon,
    poisson_noise,
)

POISSON = "poisson"
HOURS_TO_MINUTES, DAYS_TO_MINUTES = 60, 24 * 60

# Why a row is recommended.
Reason = Literal["smallest that meets the target", "strongest", "noise raised to the target", "least error"]


@dataclass(frozen=True)
class DeviceSupply:
    """Which devices can report, and how often. Unknown values are None or empty."""

    population: int
    report_goals: tuple[int, ...]
    devices_per_day: float | None = None
    round_minutes: float | None = None
    timers_in_hours: tuple[float, ...] = ()
    min_separations: tuple[int, ...] = ()
    max_participation: int | None = None

    def minutes(self, report_goal: int, timer_in_hours: float | None = None) -> float | None:
        """How long a round takes, if known: the time it needs, or the time until enough devices have checked in."""
        known = [] if self.round_minutes is None else [self.round_minutes]
        if self.devices_per_day is not None:
            known.append(report_goal / self.devices_per_day * DAYS_TO_MINUTES)
        if known and timer_in_hours is not None:  # everybody else waits for their timer
            known.append(timer_in_hours * HOURS_TO_MINUTES * report_goal / self.population)
        return max(known, default=None)


@dataclass(frozen=True)
class Simulation:
    """The most noise with which a small simulation still trained well: z / report goal, of this mechanism."""

    noise_on_mean: float
    mechanism: str = "tree"


@dataclass(frozen=True)
class Target:
    """The target as ρ and as ε at the question's δ (or slightly less); `stated` is the one that was given."""

    rho: float
    epsilon: float
    stated: Literal["rho", "epsilon"]


@dataclass(frozen=True)
class Question:
    """The input of the planner. There is a simulation, a target, or both."""

    rounds: int
    delta: float
    devices: DeviceSupply
    simulation: Simulation | None
    target: Target | None
    mechanisms: tuple[str, ...]
    uniform_sampling: bool = False


@dataclass(frozen=True)
class PlannedParticipation:
    """How often and how close together one user may take part at a report goal, and the timer that this needs."""

    gap: Gap
    max_participation: int
    capped: bool  # the gap that was asked for is more than the population can sustain
    timer_in_hours: float | None  # that holds this gap, if it is known how long a round takes
    days: float | None


@dataclass(frozen=True)
class Row:
    """One way to train. `error_ratio` is the prefix error over the simulation's; sampled rows have no MinS, MaxP and ρ."""

    mechanism: str
    report_goal: int
    noise_multiplier: float
    noise_on_mean: float
    min_separation: int | None
    max_participation: int | None
    capped: bool
    timer_in_hours: float | None
    days: float | None
    prefix_error: float
    error_ratio: float | None
    rho: float | None
    epsilon: float
    meets_target: bool | None


@dataclass(frozen=True)
class PlanAnswer:
    """The rows, the recommended one and why, and the report goals the population cannot fill."""

    rows: tuple[Row, ...]
    recommended: Row
    reason: Reason
    left_out: tuple[int, ...]


def plan(question: Question) -> PlanAnswer:
    """The table and the recommended row; RecipeError, in one sentence, if the question has no answer."""
    goals, left_out = _possible_goals(question)
    largest = goals[-1]
    if question.simulation is None:
        rows = [row for goal in goals for row in _calibrated(question, goal, sampled=goal == largest)]
        recommended = min(_eligible(question, rows), key=lambda row: (row.prefix_error, row.report_goal))
        return PlanAnswer(tuple(rows), recommended, "least error", left_out)
    rows = [row for goal in goals for row in _endured(question, goal)]
    eligible = _eligible(question, rows)
    if question.target is None:
        return PlanAnswer(tuple(rows), min(eligible, key=lambda row: row.epsilon), "strongest", left_out)
    meeting = [row for row in eligible if row.meets_target]
    if meeting:
        recommended = min(meeting, key=lambda row: (row.report_goal, row.epsilon))
        return PlanAnswer(tuple(rows), recommended, "smallest that meets the target", left_out)
    raised = list(_calibrated(question, largest, sampled=True))
    recommended = min(_eligible(question, raised), key=lambda row: row.prefix_error)
    return PlanAnswer((*rows, *raised), recommended, "noise raised to the target", left_out)


def widest_gap(population: int, report_goal: int, rounds: int) -> Gap:
    """The largest gap that the population can sustain: that many consecutive rounds need disjoint sets of users.

    It is at most the number of rounds: then everybody takes part once at most.
    """
    return Gap.of_index_difference(min(population // report_goal, rounds))


def participations(question: Question, report_goal: int) -> Iterator[PlannedParticipation]:
    """One for each MinS or timer that was asked for; the widest gap if none was."""
    devices, rounds = question.devices, question.rounds
    widest = widest_gap(devices.population, report_goal, rounds)
    asked: list[tuple[Gap, float | None]] = [(Gap(each), None) for each in devices.min_separations]
    asked += [(_gap_of_timer(devices, report_goal, hours), hours) for hours in devices.timers_in_hours]
    most = rounds if devices.max_participation is None else devices.max_participation
    for gap, hours in asked or [(widest, None)]:
        held = min(gap, widest, key=lambda each: each.rounds_between)
        minutes = devices.minutes(report_goal, hours)
        yield PlannedParticipation(
            gap=held,
            max_participation=most_participations(rounds, held, most),
            capped=gap.rounds_between > widest.rounds_between and widest.index_difference < rounds,
            timer_in_hours=_timer_of_gap(held, minutes) if hours is None else hours,
            days=None if minutes is None else rounds * minutes / DAYS_TO_MINUTES,
        )


def _gap_of_timer(devices: DeviceSupply, report_goal: int, hours: float) -> Gap:
    """The gap a timer enforces if no round is shorter than expected.

    A device may report at the very beginning of a round and, the timer run out, at the very end of another; so the
    rounds of two reports are at least ⌊timer / round⌋ apart.
    """
    minutes = devices.minutes(report_goal)
    assert minutes is not None, "a timer without the time a round takes"
    return Gap.of_index_difference(max(1, math.floor(hours * HOURS_TO_MINUTES / minutes)))


def _timer_of_gap(gap: Gap, minutes: float | None) -> float | None:
    return None if minutes is None else gap.index_difference * minutes / HOURS_TO_MINUTES


def _possible_goals(question: Question) -> tuple[list[int], tuple[int, ...]]:
    """The report goals the population can fill, in order, and those it cannot."""
    devices = question.devices
    goals = sorted(set(devices.report_goals))
    if goals[0] > devices.population:
        raise RecipeError(
            f"Expected a report goal of at most the population, here {devices.population}, got {goals[0]}."
        )
    smallest = widest_gap(devices.population, goals[0], question.rounds)
    least = min(devices.min_separations, default=0)
    if least > smallest.rounds_between and smallest.index_difference < question.rounds:
        raise RecipeError(
            f"Expected --min-separation of at most {smallest.rounds_between}, which is what {devices.population} users "
            f"can sustain at report goal {goals[0]}, got {least}."
        )
    most = devices.max_participation
    possible = [
        goal
        for goal in goals
        if goal <= devices.population and (most is None or goal * question.rounds <= most * devices.population)
    ]
    if not possible:
        needed = -(-goals[0] * question.rounds // devices.population)
        raise RecipeError(
            f"Expected --max-participation of at least {needed}: {question.rounds} rounds of {goals[0]} reports from "
            f"{devices.population} users, got {most}."
        )
    return possible, tuple(goal for goal in goals if goal not in possible)


def _endured(question: Question, goal: int) -> Iterator[Row]:
    """The rows of a report goal with the simulation's prefix error."""
    error = 0.0
    for taking_part in participations(question, goal):
        costs = _costs(question, taking_part)
        error = _error_endured(question, costs) or 0.0
        for name in _without_sampling(question):
            z = error * goal / costs[name].prefix_rmse
            yield _row(question, name, goal, taking_part, costs[name], z, error)
    if POISSON in question.mechanisms:
        # A simulated strategy that was fitted to a gap has a prefix error for each of them; the last one's serves.
        yield _sampled_row(question, goal, error * goal / independent_prefix_rmse(question.rounds), error)


def _calibrated(question: Question, goal: int, *, sampled: bool) -> Iterator[Row]:
    """The rows of a report goal with the noise that just meets the target; sampled ones take a search each."""
    target = question.target
    assert target is not None, "no noise can be found without a target"
    error = None
    for taking_part in participations(question, goal):
        costs = _costs(question, taking_part)
        error = _error_endured(question, costs)
        for name in _without_sampling(question):
            z = noise_for_rho(target.rho, costs[name].sensitivity_squared)
            yield _row(question, name, goal, taking_part, costs[name], _reachable(target, z), error)
    if POISSON in question.mechanisms and sampled:
        probability = goal / question.devices.population
        z = poisson_noise(probability, question.rounds, target.epsilon, apart_from_tail(question.delta))
        yield _sampled_row(question, goal, _reachable(target, z), error)


def _row(
    question: Question,
    mechanism: str,
    goal: int,
    taking_part: PlannedParticipation,
    cost: PlannedCost,
    noise_multiplier: float,
    endured: float | None,
) -> Row:
    rho = gaussian_rho(noise_multiplier, cost.sensitivity_squared)
    error = noise_multiplier * cost.prefix_rmse / goal
    return Row(
        mechanism=mechanism,
        report_goal=goal,
        noise_multiplier=noise_multiplier,
        noise_on_mean=noise_multiplier / goal,
        min_separation=taking_part.gap.rounds_between,
        max_participation=taking_part.max_participation,
        capped=taking_part.capped,
        timer_in_hours=taking_part.timer_in_hours,
        days=taking_part.days,
        prefix_error=error,
        error_ratio=None if endured is None else error / endured,
        rho=rho,
        epsilon=epsilon_of_gaussian(rho, question.delta),
        meets_target=None if question.target is None else rho <= question.target.rho,
    )


def _sampled_row(question: Question, goal: int, noise_multiplier: float, endured: float | None) -> Row:
    devices, target = question.devices, question.target
    value = poisson_epsilon(goal / devices.population, noise_multiplier, question.rounds, question.delta)
    error = noise_multiplier * independent_prefix_rmse(question.rounds) / goal
    minutes = devices.minutes(goal)
    return Row(
        mechanism=POISSON,
        report_goal=goal,
        noise_multiplier=noise_multiplier,
        noise_on_mean=noise_multiplier / goal,
        min_separation=None,
        max_participation=None,
        capped=False,
        timer_in_hours=None,
        days=None if minutes is None else question.rounds * minutes / DAYS_TO_MINUTES,
        prefix_error=error,
        error_ratio=None if endured is None else error / endured,
        rho=None,
        epsilon=value,
        meets_target=None if target is None else value <= target.epsilon,
    )


def _costs(question: Question, taking_part: PlannedParticipation) -> dict[str, PlannedCost]:
    """The cost of each mechanism that was asked for and of the simulated one, each computed once."""
    names = _without_sampling(question)
    if question.simulation is not None:
        names.append(question.simulation.mechanism)
    limits = (question.rounds, taking_part.gap, taking_part.max_participation)
    return {name: MECHANISMS[name](*limits) for name in dict.fromkeys(names)}


def _error_endured(question: Question, costs: dict[str, PlannedCost]) -> float | None:
    """The simulation's prefix error, had it run for as many rounds."""
    simulation = question.simulation
    return None if simulation is None else simulation.noise_on_mean * costs[simulation.mechanism].prefix_rmse


def _without_sampling(question: Question) -> list[str]:
    return [name for name in question.mechanisms if name != POISSON]


def _eligible(question: Question, rows: Iterable[Row]) -> list[Row]:
    """Sampled rows are only to compare with, unless users can be sampled or nothing else was asked for."""
    rows = list(rows)
    others = [row for row in rows if row.mechanism != POISSON]
    return rows if question.uniform_sampling or not others else others


def _reachable(target: Target, noise_multiplier: float) -> float:
    if noise_multiplier > MOST_NOISE:
        stated = f"--{target.stated}"
        value = target.rho if target.stated == "rho" else target.epsilon
        raise RecipeError(
            f"Expected {stated} that a noise multiplier of at most {MOST_NOISE:g} can reach, got {value:g}."
        )
    return noise_multiplier
