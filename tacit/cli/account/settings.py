"""`tacit account fedavg` and `ftrl`: what settings cost, by Tacit's own bounds or as a paper counted."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial
from typing import Annotated, Any

import typer

from tacit.cli.account.answer import (
    CLIPPED,
    SAMPLED,
    Answer,
    MaxParticipation,
    MinSeparation,
    Population,
    RestartAt,
    headline,
    limits_on_participation,
    require_at_least,
    require_cohort,
    require_delta,
    require_one_of,
    require_sensible,
    tell,
)
from tacit.cli.options import Delta, Json
from tacit.cli.results import emit
from tacit.cli.results.account import AccountResult
from tacit.errors import RecipeError
from tacit.numbers import rounded_up
from tacit.privacy.accounting import conventions as papers
from tacit.privacy.accounting import gaussian, tree
from tacit.privacy.accounting.conventions import CONVENTIONS, Convention
from tacit.privacy.accounting.sampled_gaussian import (
    ADJACENCY,
    SMALLEST_FOR_PLD,
    Accountant,
    SampledRounds,
    epsilon,
    relative_noise,
    sampled_epsilon,
)
from tacit.privacy.accounting.zcdp import epsilon_of_gaussian, gaussian_rho
from tacit.privacy.participation.limits import ZERO_OUT, Gap
from tacit.privacy.record.reasons import Reason, Why

NumberOfRounds = Annotated[int, typer.Option("--rounds", help="How many rounds of training.")]
Noise = Annotated[
    float, typer.Option("--noise-multiplier", help="Standard deviation of the noise on the sum, over the clip.")
]
ConventionOption = Annotated[
    str | None, typer.Option("--convention", help="Count as a paper did; `tacit account conventions` lists the names.")
]

# The search for the sensitivity of a longer tree takes minutes when gaps are small.
MOST_ROUNDS_OF_TREES = 20_000


def _of_strategy(name: str, rounds: int, gap: Gap, max_participation: int, restarts: Sequence[int]) -> float:
    """The squared sensitivity of the strategy that a recipe with these settings gets: optimised once, then from the cache."""
    from tacit.privacy.noise.strategies import optimised, stretches

    longest = max(stretches(rounds, [each for each in restarts if each > 0]))
    strategy = optimised(name, longest, gap, max_participation, progress=partial(typer.echo, err=True))
    return strategy.sensitivity(rounds, gap, max_participation, [each for each in restarts if each > 0]).squared


# The squared sensitivity of each mechanism without sampling, and how it is accounted.
Sensitivity = Callable[[int, Gap, int, Sequence[int]], float]
UNSAMPLED: dict[str, tuple[Sensitivity, str]] = {
    "tree": (tree.sensitivity_squared, "zCDP of binary trees (exact sensitivity), exact Gaussian curve"),
    "blt": (partial(_of_strategy, "blt"), "zCDP of buffered Toeplitz noise, exact Gaussian curve"),
    "banded": (partial(_of_strategy, "banded"), "zCDP of banded Toeplitz noise, exact Gaussian curve"),
    "gaussian": (
        lambda rounds, gap, most, _: gaussian.sensitivity_squared(rounds, gap, most),
        "zCDP of the Gaussian mechanism, exact Gaussian curve",
    ),
}


def fedavg(
    population: Population,
    cohort: Annotated[float, typer.Option("--cohort", help="Users a round: expected (poisson) or exact (fixed).")],
    rounds: NumberOfRounds,
    noise_multiplier: Noise,
    delta: Delta,
    sampling: Annotated[
        str | None, typer.Option("--sampling", help="How a round draws its users: poisson (default) or fixed.")
    ] = None,
    accountant: Annotated[
        str | None, typer.Option("--accountant", help="rdp or pld; by default the tighter of those that apply.")
    ] = None,
    convention: ConventionOption = None,
    as_json: Json = False,
) -> None:
    """Compute what rounds on sampled users with fresh Gaussian noise cost (DP-FedAvg).

    Example: tacit account fedavg --population 763430 --cohort 5000 --rounds 5000 --noise-multiplier 1 --delta 1e-9
    """
    require_at_least("--population", population, 1)
    require_at_least("--rounds", rounds, 1)
    require_sensible("--noise-multiplier", noise_multiplier)
    require_delta(delta)
    require_one_of("--sampling", sampling, ("poisson", "fixed"))
    require_one_of("--accountant", accountant, ("rdp", "pld"))
    paper = _convention(convention, "fedavg")
    if paper is not None:
        if accountant is not None:
            raise RecipeError(f"--accountant, here {accountant}, does not go with --convention {paper.name}.")
        if sampling not in (None, paper.sampling):
            raise RecipeError(f"Expected --sampling {paper.sampling} with --convention {paper.name}, got {sampling}.")
        sampling = paper.sampling
    sampling = sampling or "poisson"
    require_cohort(cohort, population, sampling)
    constants: dict[str, Any] = {"kind": sampling, "probability": cohort / population}
    if sampling == "fixed":
        constants = {"kind": sampling, "size": int(cohort), "population": population}
    training = [SampledRounds(constants, noise_multiplier, rounds)]
    if accountant == "pld" and 0 < relative_noise(training[0]) < SMALLEST_FOR_PLD:
        smallest = SMALLEST_FOR_PLD * noise_multiplier / relative_noise(training[0])
        raise RecipeError(
            f"Expected --accountant rdp for a --noise-multiplier below {smallest:g} with --sampling {sampling}, here "
            f"{noise_multiplier:g}, got pld: it would take minutes."
        )
    chosen: Accountant = "pld" if accountant == "pld" else "rdp"
    if accountant is None:
        value, chosen = sampled_epsilon(training, delta)
    else:
        value = epsilon(training, delta, chosen)
    proven = Answer(
        value,
        delta,
        ADJACENCY[sampling],
        chosen,
        (*CLIPPED, SAMPLED[sampling]),
        reasons_not_private=_no_noise(noise_multiplier),
    )
    if paper is None:
        tell(proven, AccountResult if as_json else None)
        return
    if paper.sampling == "poisson":
        printed = papers.moments_epsilon(cohort / population, noise_multiplier, rounds, delta)
    else:
        printed = papers.without_replacement_epsilon(population, int(cohort), noise_multiplier, rounds, delta)
    _tell_as_paper(paper, printed, proven, as_json)


def ftrl(
    rounds: NumberOfRounds,
    noise_multiplier: Noise,
    min_separation: MinSeparation,
    max_participation: MaxParticipation,
    delta: Delta,
    mechanism: Annotated[
        str,
        typer.Option(
            "--mechanism",
            help="tree (DP-FTRL), blt, banded (correlated noise), or gaussian: fresh noise in every round.",
        ),
    ] = "tree",
    restart_at: RestartAt = None,
    convention: ConventionOption = None,
    as_json: Json = False,
) -> None:
    """Compute what rounds without sampling cost, under limits on how often and how closely one user takes part (DP-FTRL).

    Example: tacit account ftrl --rounds 930 --noise-multiplier 7 --min-separation 212 --max-participation 4 --delta 1e-10
    """
    require_at_least("--rounds", rounds, 1)
    require_sensible("--noise-multiplier", noise_multiplier)
    require_delta(delta)
    restarts = restart_at or []
    require_unsampled(mechanism, rounds, min_separation, max_participation, restarts)
    paper = _convention(convention, "ftrl")
    if paper is not None and (restarts or mechanism != "tree"):
        wrong = f"--restart-at {restarts[0]}" if restarts else f"--mechanism {mechanism}"
        raise RecipeError(f"Expected one tree without restarts with --convention {paper.name}, got {wrong}.")
    sensitivity_squared, name = UNSAMPLED[mechanism]
    rho = gaussian_rho(noise_multiplier, sensitivity_squared(rounds, Gap(min_separation), max_participation, restarts))
    proven = Answer(
        epsilon_of_gaussian(rho, delta),
        delta,
        ZERO_OUT,
        name,
        (*CLIPPED, limits_on_participation(min_separation, max_participation)),
        rho=rho,
        reasons_not_private=_no_noise(noise_multiplier),
    )
    if paper is None:
        tell(proven, AccountResult if as_json else None)
    else:
        _tell_as_paper(paper, papers.rounded_rho_epsilon(rho, delta), proven, as_json)


def require_unsampled(
    mechanism: str, rounds: int | None, min_separation: int, max_participation: int, restarts: Sequence[int]
) -> None:
    """RecipeError unless these settings of rounds without sampling go together; the rounds may be yet to be found."""
    require_at_least("--min-separation", min_separation, 0)
    require_at_least("--max-participation", max_participation, 1)
    require_one_of("--mechanism", mechanism, tuple(UNSAMPLED))
    if mechanism == "tree" and rounds is not None and rounds > MOST_ROUNDS_OF_TREES:
        raise RecipeError(f"Expected --rounds of at most {MOST_ROUNDS_OF_TREES} with --mechanism tree, got {rounds}.")
    for restart in restarts:
        if restart < 0 or (rounds is not None and restart >= rounds):
            last = "" if rounds is None else f" to {rounds - 1}"
            raise RecipeError(f"Expected --restart-at from 0{last}, a round of the run, got {restart}.")
    if restarts and mechanism == "gaussian":
        raise RecipeError(
            f"--restart-at, here {restarts[0]}, goes with correlated noise, not with --mechanism gaussian."
        )


def _tell_as_paper(paper: Convention, printed: float, proven: Answer, as_json: bool) -> None:
    """The paper's figure, labelled as such, with how it differs and what is proven for the same settings."""
    reasons = proven.reasons_not_private
    answer = Answer(printed, proven.delta, paper.adjacency, paper.accountant, proven.assumptions, proven.rho, reasons)
    if as_json:
        labels = {"convention": paper.name, "differs": paper.differs, "proven": proven.as_dict()}
        emit(AccountResult, answer.as_dict() | labels)
        return
    figure = "infinite" if math.isinf(printed) else f"{printed:.4g}"
    rho = "" if proven.rho is None or math.isinf(proven.rho) else f", rho {rounded_up(proven.rho)}"
    typer.echo(f"{paper.name} counts epsilon {figure} at delta {proven.delta:g}{rho} ({paper.accountant}).")
    typer.echo(f"  differs: {paper.differs}.")
    typer.echo(f"  proven: {headline(proven)}")


def _no_noise(noise_multiplier: float) -> tuple[Reason, ...]:
    return (Reason(Why.NO_NOISE),) if noise_multiplier == 0 else ()


def _convention(name: str | None, command: str) -> Convention | None:
    if name is None:
        return None
    require_one_of("--convention", name, [each.name for each in CONVENTIONS.values() if each.command == command])
    return CONVENTIONS[name]
