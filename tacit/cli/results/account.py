"""Results of `tacit account`."""

from __future__ import annotations

from typing import Literal

from tacit.cli.results.base import Result, key, sometimes
from tacit.cli.results.budget import Budget
from tacit.cli.results.privacy import Claim, Cost, OwnersFigure, RunPrivacy

_OWNERS = "the owner's second figure; null if users are sampled or it may not be seen"


class AccountResult(Cost):
    """What settings cost."""

    convention: str | None = sometimes("with --convention: the paper whose way of counting epsilon is")
    differs: str | None = sometimes("with --convention: how that differs from what is proven")
    proven: Cost | None = sometimes("with --convention: what is proven for the same settings")


class ConversionResult(Cost):
    """A converted statement."""


class CalibrateResult(Cost):
    """The setting that was left out, and what all of them cost."""

    found: Literal["noise_multiplier", "rounds", "cohort"] = key("which setting was found")
    noise_multiplier: float | None = sometimes("its value, if it was found")
    rounds: int | None = sometimes("its value, if it was found")
    cohort: int | None = sometimes("its value, if it was found")


class PaperConvention(Result):
    """A paper's way of counting."""

    name: str = key("the name for --convention")
    paper: str = key("the paper")
    command: Literal["fedavg", "ftrl"] = key("the command of `tacit account` that knows it")
    sampling: str | None = key("the sampling that it is for; null without sampling")
    adjacency: str = key("how two neighbouring data sets differ")
    accountant: str = key("how the paper computes epsilon")
    differs: str = key("how that differs from what is proven")


class ConventionsResult(Result):
    """The ways in which papers count epsilon."""

    conventions: list[PaperConvention] = key("each of them")


class AccountRunResult(RunPrivacy):
    """What a run has cost its users."""

    cohorts: str = key("how far the cohorts were compared with the sampling, in words")
    from_the_participation_that_happened: OwnersFigure | None = key(_OWNERS)


class ComposedRun(Result):
    """A run that was added up."""

    run: str = key("the run's folder")
    run_id: str = key("the run's id")
    releases: int = key("how many rounds it released")
    data: dict[str, str | int] = key("whose data it read, as its ledger names them")
    cohorts: str = key("how far its cohorts were compared with the sampling, in words")


class TotalFigure(Result):
    """The owner's second figure of several runs."""

    epsilon: float | None = key("epsilon; null if it is infinite")
    rho: float | None = key("rho; null where there is none")


class ComposeResult(Cost):
    """What several runs have cost together."""

    unit: str = key("who is protected")
    releases: int = key("how many rounds all of them released")
    runs: list[ComposedRun] = key("each run")
    from_the_participation_that_happened: TotalFigure | None = key(_OWNERS)


class ListedRun(Result):
    """A run of the list."""

    run: str = key("where it was last")
    run_id: str = key("the run's id")
    registered: str = key("when it began")
    claims_privacy: bool = key("whether it was begun with a claim of privacy")
    state: str = key("how many rounds it released, in words, or why that is unknown")


class OdometerResult(Claim):
    """What all runs on the same users have cost together. If a run's cost is unknown, the first figures are null."""

    delta: float | None = key("the delta that epsilon is stated for; null if the total is unknown")
    rho: float | None = key("rho of zero-concentrated differential privacy; null where there is none")
    adjacency: str | None = key("how two neighbouring data sets differ; null if the total is unknown")
    accountant: str | None = key("how epsilon was computed; null if the total is unknown")
    assumptions: list[str] = key("what the figure rests on")
    store: str | None = key("the store's id; null for the devices of a fleet")
    runs: list[ListedRun] = key("every run on these users")
    from_the_participation_that_happened: TotalFigure | None = key(_OWNERS)
    budget: Budget | None = key("the budget of these people, and what is left of it; null if none is set")
    counted: Cost | None = sometimes("if the total is unknown: the part that could be counted")
