"""Statements of privacy that several commands print."""

from __future__ import annotations

from tacit.cli.results.base import Result, key, sometimes


class Claim(Result):
    """What may be claimed, or why nothing may be."""

    epsilon: float | None = key("epsilon; null if it is infinite")
    reasons_not_private: list[str] = key("why epsilon is infinite, as sentences; empty if it is finite")
    reason_codes: list[str] = key("the same reasons as codes, in the same order")


class Cost(Claim):
    """What is proven, or why nothing is."""

    delta: float = key("the delta that epsilon is stated for")
    rho: float | None = key("rho of zero-concentrated differential privacy; null where there is none")
    adjacency: str = key("how two neighbouring data sets differ")
    accountant: str = key("how epsilon was computed")
    assumptions: list[str] = key("what the figure rests on")


class Participation(Result):
    """How often users take part."""

    min_separation: int = key("MinS: the fewest rounds strictly between two participations of one user")
    max_participation: int = key("MaxP: the most rounds that one user takes part in")
    observed: bool = key("true: it happened so; false: the plan promises it")


class OwnersFigure(Claim):
    """The cost from the participation that happened, for the owner of the run alone."""

    delta: float = key("the delta that epsilon is stated for")
    rho: float | None = key("rho of zero-concentrated differential privacy; null where there is none")
    computed_from: str = key("which participation it was computed from")


class RunPrivacy(Cost):
    """The cost of a run, from its ledger."""

    unit: str = key("who is protected: all the data of one such unit")
    releases: int = key("how many rounds were released, further attempts included")
    rounds_planned: int = key("how many rounds the plan has; epsilon covers all of them")
    rounds_run: int = key("how many of them have run")
    participation: Participation | None = key("MinS and MaxP; null if users are sampled")
    computed_from: str = key("which participation the cost was computed from")
    rounds: str = key("which rounds the cost is that of, in words")


class OwnedRunPrivacy(RunPrivacy):
    """The cost of a run with the owner's second figure."""

    from_the_participation_that_happened: OwnersFigure | None = sometimes(
        "with `tacit runs show`: the owner's second figure; null if users are sampled or it may not be seen"
    )


class TogetherCost(Claim):
    """The cost of several models for users who were in all of them."""

    delta: float | None = sometimes("the delta that epsilon is stated for; if the models' statements can be added up")
    rho: float | None = sometimes("rho of zero-concentrated differential privacy; likewise")
    adjacency: str | None = sometimes("how two neighbouring data sets differ; likewise")
    accountant: str | None = sometimes("how epsilon was computed; likewise")
    assumptions: list[str] | None = sometimes("what the figure rests on; likewise")
    unit: str | None = sometimes("who is protected; likewise")
    releases: int | None = sometimes("how many rounds were released by all of them; likewise")
    models: int | None = sometimes("how many models; likewise")


class AtScale(Result):
    """An estimate for a larger run that this one stands for."""

    label: str = key("says that it is an estimate")
    population: int = key("how many users the larger run has")
    cohort: float = key("how many users a round")
    noise_multiplier: float = key("its noise multiplier")
    min_separation: int | None = key("MinS; null if users are sampled")
    max_participation: int | None = key("MaxP; null if users are sampled")
    privacy: RunPrivacy = key("what the larger run would cost")
