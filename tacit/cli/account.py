"""`tacit account`: what a training run would cost its users, or has cost them. Computes, and touches no data."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import typer

from tacit.cli.progress import epsilon_text
from tacit.errors import RecipeError, RunError
from tacit.privacy.accounting import conventions as papers
from tacit.privacy.accounting import gaussian, tree
from tacit.privacy.accounting.conventions import CONVENTIONS, Convention
from tacit.privacy.accounting.group import group_epsilon_delta
from tacit.privacy.accounting.participation import Gap
from tacit.privacy.accounting.sampled_gaussian import ADJACENCY, Accountant, Rounds, epsilon
from tacit.privacy.accounting.spent import SMALLEST_FOR_PLD, spent_by
from tacit.privacy.accounting.zcdp import epsilon_of_any, epsilon_of_gaussian, gaussian_rho
from tacit.privacy.ledger import read_ledger
from tacit.runs.folder import RunFolder, by_name

app = typer.Typer(help="Epsilon, delta and rho: of settings, or of a run's ledger.", no_args_is_help=True)

Json = Annotated[bool, typer.Option("--json", help="Print one JSON object and nothing else on stdout.")]
Delta = Annotated[float, typer.Option("--delta", help="The delta of (epsilon, delta), between 0 and 1.")]
NumberOfRounds = Annotated[int, typer.Option("--rounds", help="How many rounds of training.")]
Noise = Annotated[
    float, typer.Option("--noise-multiplier", help="Standard deviation of the noise on the sum, over the clip.")
]
ConventionOption = Annotated[
    str | None, typer.Option("--convention", help="Count as a paper did: a name of `tacit account conventions`.")
]

# Longer trees take the search for their sensitivity minutes, with small gaps.
MOST_ROUNDS_OF_TREES = 20_000
# Above this epsilon privacy loss distributions grow large and slow, and nobody needs the last digit.
LARGEST_FOR_PLD = 50.0
# Less or more than this leaves the range of floating-point numbers on the way.
LEAST_FIGURE, MOST_FIGURE = 1e-6, 1e6

ZERO_OUT = "zero out one user"
CLIPPED = (
    "each user's update is clipped, and noise of the noise multiplier times the clip is added to every sum: "
    "every round's, or every node's of a tree",
    "one person is one user",
    "settings were not chosen by looking at these users",
)
SAMPLED = {
    "poisson": "every round draws each user independently with probability cohort / population, and who was drawn stays secret",
    "fixed": "every round draws cohort users uniformly without replacement, and who was drawn stays secret",
}


@dataclass(frozen=True)
class Answer:
    """What every command of this file tells; an infinite epsilon comes with its reasons."""

    epsilon: float
    delta: float
    adjacency: str
    accountant: str
    assumptions: tuple[str, ...]
    rho: float | None = None
    reasons_not_private: tuple[str, ...] = ()

    def as_dict(self) -> dict[str, Any]:
        """For JSON, which has no infinity: null."""
        return vars(self) | {"epsilon": _finite(self.epsilon), "rho": _finite(self.rho)}


@app.command()
def fedavg(
    population: Annotated[int, typer.Option("--population", help="How many users there are.")],
    cohort: Annotated[float, typer.Option("--cohort", help="Users a round: expected (poisson) or exact (fixed).")],
    rounds: NumberOfRounds,
    noise_multiplier: Noise,
    delta: Delta,
    sampling: Annotated[
        str | None, typer.Option("--sampling", help="How a round draws its users: poisson (default) or fixed.")
    ] = None,
    accountant: Annotated[
        str | None, typer.Option("--accountant", help="rdp or pld; by default the tighter one that serves.")
    ] = None,
    convention: ConventionOption = None,
    as_json: Json = False,
) -> None:
    """Rounds on sampled users with fresh Gaussian noise (DP-FedAvg).

    Example: tacit account fedavg --population 763430 --cohort 5000 --rounds 5000 --noise-multiplier 1 --delta 1e-9
    """
    _at_least("--population", population, 1)
    _at_least("--rounds", rounds, 1)
    _sensible("--noise-multiplier", noise_multiplier)
    _check_delta(delta)
    if not 0 < cohort <= population:
        raise RecipeError(f"Expected --cohort above 0 and at most --population, here {population}, got {cohort:g}.")
    _one_of("--sampling", sampling, ("poisson", "fixed"))
    _one_of("--accountant", accountant, ("rdp", "pld"))
    paper = _convention(convention, "fedavg")
    if paper is not None:
        if accountant is not None:
            raise RecipeError(f"--accountant, here {accountant}, does not go with --convention {paper.name}.")
        if sampling not in (None, paper.sampling):
            raise RecipeError(f"Expected --sampling {paper.sampling} with --convention {paper.name}, got {sampling}.")
        sampling = paper.sampling
    sampling = sampling or "poisson"
    if sampling == "fixed" and not float(cohort).is_integer():
        raise RecipeError(f"Expected a whole number for --cohort with --sampling fixed, got {cohort:g}.")
    if sampling == "fixed" and accountant == "pld":
        raise RecipeError(
            "Expected --accountant rdp with --sampling fixed, got pld: it has no privacy loss distribution."
        )
    if accountant == "pld" and 0 < noise_multiplier < SMALLEST_FOR_PLD:
        raise RecipeError(
            f"Expected --accountant rdp for a --noise-multiplier below {SMALLEST_FOR_PLD}, here {noise_multiplier:g}, "
            "got pld: it would take minutes."
        )
    constants: dict[str, Any] = {"kind": sampling, "probability": cohort / population}
    if sampling == "fixed":
        constants = {"kind": sampling, "size": int(cohort), "population": population}
    training = [Rounds(constants, noise_multiplier, rounds)]
    chosen: Accountant = "pld" if accountant == "pld" else "rdp"
    value = epsilon(training, delta, chosen)
    serves = sampling == "poisson" and noise_multiplier >= SMALLEST_FOR_PLD and value <= LARGEST_FOR_PLD
    if accountant is None and paper is None and serves:
        chosen, value = "pld", epsilon(training, delta, "pld")
    proven = Answer(
        value,
        delta,
        ADJACENCY[sampling],
        chosen,
        (*CLIPPED, SAMPLED[sampling]),
        reasons_not_private=_no_noise(noise_multiplier),
    )
    if paper is None:
        _tell(proven, as_json)
        return
    if paper.sampling == "poisson":
        printed = papers.moments_epsilon(cohort / population, noise_multiplier, rounds, delta)
    else:
        printed = papers.without_replacement_epsilon(population, int(cohort), noise_multiplier, rounds, delta)
    _tell_as_paper(paper, printed, proven, as_json)


@app.command()
def ftrl(
    rounds: NumberOfRounds,
    noise_multiplier: Noise,
    min_separation: Annotated[
        int, typer.Option("--min-separation", help="MinS: rounds strictly between two participations of one user.")
    ],
    max_participation: Annotated[
        int, typer.Option("--max-participation", help="MaxP: how many rounds one user takes part in, at most.")
    ],
    delta: Delta,
    mechanism: Annotated[
        str, typer.Option("--mechanism", help="tree (DP-FTRL), or gaussian: fresh noise in every round.")
    ] = "tree",
    restart_at: Annotated[
        list[int] | None,
        typer.Option("--restart-at", help="This round, counted from 0, opens a new tree; may be repeated."),
    ] = None,
    convention: ConventionOption = None,
    as_json: Json = False,
) -> None:
    """Rounds without sampling, under limits on how often and how closely one user takes part (DP-FTRL).

    Example: tacit account ftrl --rounds 930 --noise-multiplier 7 --min-separation 212 --max-participation 4 --delta 1e-10
    """
    _at_least("--rounds", rounds, 1)
    _sensible("--noise-multiplier", noise_multiplier)
    _at_least("--min-separation", min_separation, 0)
    _at_least("--max-participation", max_participation, 1)
    _check_delta(delta)
    _one_of("--mechanism", mechanism, ("tree", "gaussian"))
    if mechanism == "tree" and rounds > MOST_ROUNDS_OF_TREES:
        raise RecipeError(f"Expected --rounds of at most {MOST_ROUNDS_OF_TREES} with --mechanism tree, got {rounds}.")
    restarts = restart_at or []
    for restart in restarts:
        if not 0 <= restart < rounds:
            raise RecipeError(f"Expected --restart-at from 0 to {rounds - 1}, a round of the run, got {restart}.")
    if restarts and mechanism != "tree":
        raise RecipeError(f"--restart-at, here {restarts[0]}, goes with --mechanism tree only.")
    paper = _convention(convention, "ftrl")
    if paper is not None and (restarts or mechanism != "tree"):
        wrong = f"--restart-at {restarts[0]}" if restarts else f"--mechanism {mechanism}"
        raise RecipeError(f"Expected one tree without restarts with --convention {paper.name}, got {wrong}.")
    gap = Gap(min_separation)
    if mechanism == "tree":
        squared = tree.sensitivity_squared(rounds, gap, max_participation, restarts)
        name = "zCDP of binary trees (exact sensitivity), exact Gaussian curve"
    else:
        squared = gaussian.sensitivity_squared(rounds, gap, max_participation)
        name = "zCDP of the Gaussian mechanism, exact Gaussian curve"
    rho = gaussian_rho(noise_multiplier, squared)
    proven = Answer(
        epsilon_of_gaussian(rho, delta),
        delta,
        ZERO_OUT,
        name,
        (
            *CLIPPED,
            f"no user takes part more than {max_participation} times, "
            f"with at least {min_separation} rounds strictly between two of them",
        ),
        rho=rho,
        reasons_not_private=_no_noise(noise_multiplier),
    )
    if paper is None:
        _tell(proven, as_json)
    else:
        _tell_as_paper(paper, proven.epsilon, proven, as_json)


@app.command()
def zcdp(
    rho: Annotated[float, typer.Option("--rho", help="The rho of zero-concentrated differential privacy.")],
    delta: Delta,
    any_mechanism: Annotated[
        bool, typer.Option("--any-mechanism", help="Do not assume Gaussian noise: convert through Rényi divergences.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Epsilon of a rho, by the exact curve of the Gaussian mechanism.

    Example: tacit account zcdp --rho 0.25 --delta 1e-10
    """
    _sensible("--rho", rho)
    _check_delta(delta)
    if any_mechanism:
        value, name, assumption = epsilon_of_any(rho, delta), "zCDP through RDP (alpha times rho)", "rho is right"
    else:
        value, name = epsilon_of_gaussian(rho, delta), "exact Gaussian curve"
        assumption = "rho is that of Gaussian noise, or of a composition of Gaussian mechanisms"
    _tell(Answer(value, delta, "as rho was stated", name, (assumption,), rho=rho), as_json)


@app.command()
def group(
    epsilon: Annotated[float, typer.Option("--epsilon", help="The epsilon of one user.")],
    delta: Annotated[float, typer.Option("--delta", help="The delta of one user.")],
    size: Annotated[int, typer.Option("--size", help="How many users are protected together.")],
    as_json: Json = False,
) -> None:
    """What a guarantee for one user says about a group of them.

    Example: tacit account group --epsilon 1 --delta 1e-8 --size 16
    """
    _at_least("--epsilon", epsilon, 0)
    _at_least("--size", size, 1)
    if not 0 <= delta < 1:
        raise RecipeError(f"Expected --delta of at least 0 and below 1, got {delta:g}.")
    value, grown = group_epsilon_delta(epsilon, delta, size)
    reasons = ("the group's delta reaches 1, where nothing is promised",) if math.isinf(value) else ()
    assumptions = ("(epsilon, delta) holds for one user",)
    adjacency = f"{size} users at once, each changed as in the guarantee for one user"
    _tell(Answer(value, grown, adjacency, "group privacy", assumptions, reasons_not_private=reasons), as_json)


@app.command()
def run(
    run: Annotated[Path, typer.Argument(help="A run's folder, or its name in runs/.")], as_json: Json = False
) -> None:
    """What a run has cost its users, read off its ledger.

    Example: tacit account run runs/chat
    """
    folder = RunFolder.open(by_name(run))
    if not folder.begun:
        raise RunError(f"{folder.path} has not begun: expected a run with a ledger.")
    ledger = read_ledger(folder.ledger_path)
    spent = spent_by(ledger.opened, ledger.intents)
    if as_json:
        typer.echo(json.dumps(spent.as_dict() | {"rho": None}, allow_nan=False))
        return
    reasons = tuple(spent.reasons_not_private)
    typer.echo(f"{folder.path}: {spent.releases} release{'' if spent.releases == 1 else 's'}, unit: {spent.unit}.")
    _tell(
        Answer(
            spent.epsilon,
            spent.delta,
            spent.adjacency,
            spent.accountant,
            spent.assumptions,
            reasons_not_private=reasons,
        ),
        as_json,
    )


@app.command()
def conventions(as_json: Json = False) -> None:
    """List the papers' ways to count, and how each differs from what is proven."""
    if as_json:
        typer.echo(json.dumps({"conventions": [vars(each) for each in CONVENTIONS.values()]}))
        return
    for each in CONVENTIONS.values():
        typer.echo(f"{each.name} (tacit account {each.command})\n  {each.paper}\n  {each.accountant}; {each.adjacency}")
        typer.echo(f"  differs: {each.differs}.")


def _tell(answer: Answer, as_json: bool) -> None:
    if as_json:
        typer.echo(json.dumps(answer.as_dict(), allow_nan=False))
        return
    typer.echo(_headline(answer))
    for assumption in answer.assumptions:
        typer.echo(f"  assuming {assumption}")


def _tell_as_paper(paper: Convention, printed: float, proven: Answer, as_json: bool) -> None:
    """The paper's figure, labelled as such, with how it differs and what is proven for the same settings."""
    reasons = proven.reasons_not_private
    answer = Answer(printed, proven.delta, paper.adjacency, paper.accountant, proven.assumptions, proven.rho, reasons)
    if as_json:
        labels = {"convention": paper.name, "differs": paper.differs, "proven": proven.as_dict()}
        typer.echo(json.dumps(answer.as_dict() | labels, allow_nan=False))
        return
    figure = "infinite" if math.isinf(printed) else f"{printed:.4g}"
    rho = "" if proven.rho is None or math.isinf(proven.rho) else f", rho {proven.rho:.4g}"
    typer.echo(f"{paper.name} counts epsilon {figure} at delta {proven.delta:g}{rho} ({paper.accountant}).")
    typer.echo(f"  differs: {paper.differs}.")
    typer.echo(f"  proven: {_headline(proven)}")


def _headline(answer: Answer) -> str:
    how = f"({answer.adjacency}; {answer.accountant})"
    if math.isinf(answer.epsilon):
        return f"epsilon is infinite: {'; '.join(answer.reasons_not_private)} {how}"
    rho = "" if answer.rho is None else f", rho {answer.rho:.4g}"
    return f"epsilon {epsilon_text(answer.epsilon)} at delta {answer.delta:.4g}{rho} {how}"


def _finite(value: float | None) -> float | None:
    return None if value is None or math.isinf(value) else value


def _no_noise(noise_multiplier: float) -> tuple[str, ...]:
    return ("no noise is added",) if noise_multiplier == 0 else ()


def _convention(name: str | None, command: str) -> Convention | None:
    if name is None:
        return None
    fitting = [each.name for each in CONVENTIONS.values() if each.command == command]
    _one_of("--convention", name, fitting)
    return CONVENTIONS[name]


def _one_of(option: str, value: str | None, choices: tuple[str, ...] | list[str]) -> None:
    if value is not None and value not in choices:
        raise RecipeError(f"Expected {option} to be {' or '.join(choices)}, got {value!r}.")


def _at_least(option: str, value: float, least: int) -> None:
    if not (value >= least and math.isfinite(value)):
        raise RecipeError(f"Expected {option} of at least {least}, got {value:g}.")


def _sensible(option: str, value: float) -> None:
    if value != 0 and not LEAST_FIGURE <= value <= MOST_FIGURE:
        raise RecipeError(f"Expected {option} of 0, or from {LEAST_FIGURE:g} to {MOST_FIGURE:g}, got {value:g}.")


def _check_delta(delta: float) -> None:
    if not 0 < delta < 1:
        raise RecipeError(f"Expected --delta between 0 and 1, got {delta:g}.")
