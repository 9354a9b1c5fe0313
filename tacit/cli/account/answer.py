"""What the commands of `tacit account` share: their options, how they print an answer and how they refuse a bad value."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Annotated, Any

import typer

from tacit.cli.results import Result, emit
from tacit.errors import RecipeError
from tacit.numbers import finite_or_none, rounded_up
from tacit.privacy.noise.multipliers import LEAST_NOISE, MOST_NOISE
from tacit.privacy.record.reasons import Reason, in_words, reasons_as_json
from tacit.privacy.statement.wording import epsilon_text

Population = Annotated[int, typer.Option("--population", help="How many users there are.")]
MinSeparation = Annotated[
    int, typer.Option("--min-separation", help="MinS: rounds strictly between two participations of one user.")
]
MaxParticipation = Annotated[
    int, typer.Option("--max-participation", help="MaxP: how many rounds one user takes part in, at most.")
]
RestartAt = Annotated[
    list[int] | None,
    typer.Option("--restart-at", help="A round, counted from 0, that begins a new tree; may be repeated."),
]


CLIPPED = (
    "each user's update is clipped, and Gaussian noise with the standard deviation noise multiplier × clip is added to the sum "
    "of every round, or of every node of a tree",
    "one person is one user",
    "settings were not chosen by looking at these users",
)
SAMPLED = {
    "poisson": "every round draws each user independently with probability cohort / population, and who was drawn stays secret",
    "fixed": "every round draws cohort users uniformly without replacement, and who was drawn stays secret",
}


@dataclass(frozen=True)
class Answer:
    """What is proven; an infinite epsilon comes with its reasons."""

    epsilon: float
    delta: float
    adjacency: str
    accountant: str
    assumptions: tuple[str, ...]
    rho: float | None = None
    reasons_not_private: tuple[Reason, ...] = ()

    def as_dict(self) -> dict[str, Any]:
        """For JSON, which has no infinity: null."""
        figures = {"epsilon": finite_or_none(self.epsilon), "rho": finite_or_none(self.rho)}
        return vars(self) | figures | reasons_as_json(self.reasons_not_private)


def limits_on_participation(min_separation: int, max_participation: int) -> str:
    """The assumption behind every bound without sampling."""
    return (
        f"no user takes part more than {max_participation} times, "
        f"with at least {min_separation} rounds strictly between two of them"
    )


def tell(answer: Answer, result: type[Result] | None, more: dict[str, Any] | None = None) -> None:
    """The answer as JSON of this kind, with `more` in it; if it is None, a headline and the assumptions below it."""
    if result is not None:
        emit(result, answer.as_dict() | (more or {}))
        return
    typer.echo(headline(answer))
    for assumption in answer.assumptions:
        typer.echo(f"  assuming {assumption}")


def headline(answer: Answer) -> str:
    """The figure, its adjacency and its accountant; an infinite epsilon in words, with the reasons."""
    how = f"({answer.adjacency}; {answer.accountant})"
    if math.isinf(answer.epsilon):
        return f"epsilon is infinite: {in_words(answer.reasons_not_private)} {how}"
    rho = "" if answer.rho is None else f", rho {rounded_up(answer.rho)}"
    return f"epsilon {epsilon_text(answer.epsilon)} at delta {answer.delta:.4g}{rho} {how}"


def require_one_of(option: str, value: str | None, choices: tuple[str, ...] | list[str]) -> None:
    if value is not None and value not in choices:
        raise RecipeError(f"Expected {option} to be {' or '.join(choices)}, got {value!r}.")


def require_at_least(option: str, value: float, least: int) -> None:
    if not (value >= least and math.isfinite(value)):
        raise RecipeError(f"Expected {option} of at least {least}, got {value:g}.")


def require_sensible(option: str, value: float) -> None:
    """RecipeError unless the value is 0 or in the range of the noise multipliers that a plan accepts."""
    if value != 0 and not LEAST_NOISE <= value <= MOST_NOISE:
        raise RecipeError(f"Expected {option} of 0, or from {LEAST_NOISE:g} to {MOST_NOISE:g}, got {value:g}.")


def require_delta(delta: float) -> None:
    if not 0 < delta < 1:
        raise RecipeError(f"Expected --delta between 0 and 1, got {delta:g}.")


def require_cohort(cohort: float, population: int, sampling: str) -> None:
    if not 0 < cohort <= population:
        raise RecipeError(f"Expected --cohort above 0 and at most --population, here {population}, got {cohort:g}.")
    if sampling == "fixed" and not float(cohort).is_integer():
        raise RecipeError(f"Expected a whole number for --cohort with --sampling fixed, got {cohort:g}.")
