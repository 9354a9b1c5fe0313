"""The result of `tacit sweep`."""

from __future__ import annotations

from typing import Any

from tacit.cli.results.base import Result, key
from tacit.cli.results.privacy import Claim
from tacit.cli.results.runs import Metrics


class SweptCase(Result):
    """A case of a sweep."""

    case: str = key("its name, which is that of its folder")
    state: str = key("waiting, running, stopped, interrupted, finished, diverged or failed")
    rounds: int = key("how many rounds are done")
    rounds_planned: int = key("how many rounds its recipe has")
    settings: dict[str, Any] = key("the variant and the values of the axes")
    metrics: Metrics = key("the last that was measured, on held-out users, outside the guarantee; empty before")
    epsilon: float | None = key("what the case costs by itself, with all its planned rounds; null if it is infinite")
    reasons_not_private: list[str] = key("why that is infinite, as sentences; empty if it is finite")
    problem: str | None = key("why it failed or diverged; null if it did not")


class SweepTotal(Claim):
    """What runs on the same users cost together. If that is unknown, the figures are null."""

    delta: float | None = key("the delta that epsilon is stated for; null if the total is unknown")
    rho: float | None = key("rho of zero-concentrated differential privacy; null where there is none")
    adjacency: str | None = key("how two neighbouring data sets differ; null if the total is unknown")
    accountant: str | None = key("how epsilon was computed; null if the total is unknown")
    runs: int = key("how many runs it is the cost of; of `with_other_runs`, how many there are besides the sweep's")


class PeoplesTotal(SweepTotal):
    """What a sweep costs the people of one store, or of all its stores together."""

    people: str = key("who they are: a store, a world, or somebody in all stores")
    made_up: bool = key("whether they are the made-up users of a world, so that nobody pays")
    to_come: int = key("how many of the runs have not begun; they count with all their rounds")
    adaptive: bool = key("whether cases or rounds were added later: the bound is then that of the odometer")
    assumptions: list[str] = key("what the figure rests on")
    with_other_runs: SweepTotal | None = key(
        "with every other run that the store's odometer lists; null if there is none"
    )


class SweepResult(Result):
    """A sweep: where each case is, and what all of them cost together."""

    sweep: str = key("the sweep's folder")
    cases: list[SweptCase] = key("each case")
    cost: list[PeoplesTotal] = key("what the sweep costs, by store or world; then for somebody in several stores")
    picture: str | None = key("the picture that was drawn; null if there is none")
