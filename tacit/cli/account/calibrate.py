"""`tacit account calibrate`: find the setting that was left out, so that the target is always met."""

from __future__ import annotations

from typing import Annotated, Literal

import typer

from tacit.cli.account.answer import (
    CLIPPED,
    SAMPLED,
    Answer,
    MaxParticipation,
    MinSeparation,
    Population,
    RestartAt,
    limits_on_participation,
    require_at_least,
    require_cohort,
    require_delta,
    require_one_of,
    require_sensible,
    tell,
)
from tacit.cli.account.settings import MOST_ROUNDS_OF_TREES, UNSAMPLED, require_unsampled
from tacit.cli.commands import Commands
from tacit.cli.options import Delta, Json
from tacit.cli.results.account import CalibrateResult
from tacit.errors import RecipeError
from tacit.privacy.accounting.sampled_gaussian import ADJACENCY
from tacit.privacy.participation.limits import ZERO_OUT, Gap
from tacit.privacy.planning.calibration import MOST_ROUNDS, Calibrated, calibrate_sampled, calibrate_unsampled

app = Commands(
    help="Find the noise, the rounds or the cohort that meet a target: leave out the one to find.", no_args_is_help=True
)

Epsilon = Annotated[float | None, typer.Option("--epsilon", help="The target: epsilon at --delta, or less.")]
Rounds = Annotated[
    int | None, typer.Option("--rounds", help="How many rounds of training. If left out: find the most.")
]
Noise = Annotated[
    float | None,
    typer.Option(
        "--noise-multiplier",
        help="Standard deviation of the noise on the sum, over the clip. If left out: find the least.",
    ),
]


@app.command()
def fedavg(
    population: Population,
    delta: Delta,
    epsilon: Annotated[float, typer.Option("--epsilon", help="The target: epsilon at --delta, or less.")],
    cohort: Annotated[
        float | None, typer.Option("--cohort", help="Users a round (the report goal). If left out: find the most.")
    ] = None,
    rounds: Rounds = None,
    noise_multiplier: Noise = None,
    sampling: Annotated[
        str, typer.Option("--sampling", help="How a round draws its users: poisson or fixed.")
    ] = "poisson",
    as_json: Json = False,
) -> None:
    """Find noise, rounds or cohort for rounds on sampled users with fresh Gaussian noise (DP-FedAvg).

    Example: tacit account calibrate fedavg --population 763430 --cohort 5000 --rounds 5000 --delta 1e-9 --epsilon 4
    """
    given = {"--noise-multiplier": noise_multiplier, "--rounds": rounds, "--cohort": cohort}
    _require_one_left_out(given)
    require_at_least("--population", population, 1)
    _require_given(rounds, noise_multiplier)
    require_delta(delta)
    require_one_of("--sampling", sampling, ("poisson", "fixed"))
    _require_positive("--epsilon", epsilon)
    if cohort is not None:
        require_cohort(cohort, population, sampling)
    kind: Literal["poisson", "fixed"] = "fixed" if sampling == "fixed" else "poisson"
    found = calibrate_sampled(
        epsilon,
        delta,
        sampling=kind,
        population=population,
        cohort=cohort,
        rounds=rounds,
        noise_multiplier=noise_multiplier,
    )
    answer = Answer(
        found.epsilon, delta, ADJACENCY[sampling], found.accountant, (*CLIPPED, SAMPLED[sampling]), rho=found.rho
    )
    _tell_found(found, answer, as_json)


@app.command()
def ftrl(
    min_separation: MinSeparation,
    max_participation: MaxParticipation,
    delta: Delta,
    epsilon: Epsilon = None,
    rho: Annotated[
        float | None, typer.Option("--rho", help="The target: a rho of zCDP, in place of --epsilon.")
    ] = None,
    rounds: Rounds = None,
    noise_multiplier: Noise = None,
    mechanism: Annotated[
        str, typer.Option("--mechanism", help="tree (DP-FTRL), blt, banded, or gaussian: fresh noise in every round.")
    ] = "tree",
    restart_at: RestartAt = None,
    as_json: Json = False,
) -> None:
    """Find noise or rounds without sampling, under limits on how often and how closely one user takes part (DP-FTRL).

    Example: tacit account calibrate ftrl --rounds 930 --min-separation 212 --max-participation 4 --delta 1e-10 --rho 0.5
    """
    _require_one_left_out({"--noise-multiplier": noise_multiplier, "--rounds": rounds})
    if (epsilon is None) == (rho is None):
        raise RecipeError(f"Expected one target, --epsilon or --rho, got {'neither' if rho is None else 'both'}.")
    _require_given(rounds, noise_multiplier)
    require_delta(delta)
    for option, target in (("--epsilon", epsilon), ("--rho", rho)):
        if target is not None:
            _require_positive(option, target)
    restarts = restart_at or []
    require_unsampled(mechanism, rounds, min_separation, max_participation, restarts)
    if rounds is None and mechanism in ("blt", "banded"):
        raise RecipeError(
            f"Expected --rounds with --mechanism {mechanism}, whose noise is shaped for a number of rounds."
        )
    sensitivity_squared, name = UNSAMPLED[mechanism]
    gap = Gap(min_separation)
    found = calibrate_unsampled(
        lambda rounds: sensitivity_squared(
            rounds, gap, max_participation, [restart for restart in restarts if restart < rounds]
        ),
        delta,
        epsilon=epsilon,
        rho=rho,
        rounds=rounds,
        noise_multiplier=noise_multiplier,
        most_rounds=MOST_ROUNDS_OF_TREES if mechanism == "tree" else MOST_ROUNDS,
    )
    assumptions = (*CLIPPED, limits_on_participation(min_separation, max_participation))
    _tell_found(found, Answer(found.epsilon, delta, ZERO_OUT, name, assumptions, rho=found.rho), as_json)


def _tell_found(found: Calibrated, answer: Answer, as_json: bool) -> None:
    value = found.value if found.setting == "noise_multiplier" else int(found.value)
    if not as_json:
        typer.echo(f"{found.setting.replace('_', ' ')} {value}")
    tell(answer, CalibrateResult if as_json else None, {"found": found.setting, found.setting: value})


def _require_one_left_out(given: dict[str, float | None]) -> None:
    left_out = [option for option, value in given.items() if value is None]
    if len(left_out) != 1:
        raise RecipeError(
            f"Expected exactly one of {', '.join(given)} to be left out, which is then found, "
            f"got {' and '.join(left_out) if left_out else 'none'} left out."
        )


def _require_given(rounds: int | None, noise_multiplier: float | None) -> None:
    if rounds is not None:
        require_at_least("--rounds", rounds, 1)
    if noise_multiplier is not None:
        _require_positive("--noise-multiplier", noise_multiplier)


def _require_positive(option: str, value: float) -> None:
    if not value > 0:
        raise RecipeError(f"Expected {option} above 0, got {value:g}.")
    require_sensible(option, value)
