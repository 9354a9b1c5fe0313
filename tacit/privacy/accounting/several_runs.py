"""What several runs have cost the same users together, read off their ledgers.

Every user may have been in every run: the runs are composed as if all of them had read the same people, whichever data
their ledgers name. The tails that the runs' noises lack (`tacit.privacy.noise.tail`) are charged as for one run: all runs
together are within Σ τ of the runs with perfect noise, so ε is computed at a slightly smaller δ, and what was set aside
must cover (1 + e^ε) Σ τ, or no finite ε is claimed.

Runs that were planned together, before any of them released anything, compose as one mechanism (`composition`). Runs that
were chosen by looking at earlier ones' releases go through an odometer (`adaptive`), and so do all runs if one of them was
extended: how many rounds it has may have been decided by looking at its releases.

A run counts with its planned rounds, whether they have run or not (`record.planned`). A run without sampling (check_in)
enters with its ρ, by the MinS and MaxP that its plan promises, or that its cohorts had where they are given and all planned
rounds have run.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tacit.errors import PrivacyError
from tacit.privacy.accounting.adaptive import adaptively_composed
from tacit.privacy.accounting.claims import author_claims, outside_objection
from tacit.privacy.accounting.composition import Part, compose, the_one
from tacit.privacy.accounting.spent import cost_of_releases, releases_of
from tacit.privacy.noise.tail import apart_from_tail, tail_objection, tail_probability
from tacit.privacy.record.ledger import Ledger
from tacit.privacy.record.planned import charged_for
from tacit.privacy.record.reasons import Reason, Why

Users = NDArray[np.int64]

# What an odometer does not need.
PLANNED = "each run's noise, sampling and number of rounds were chosen without looking at what the other runs released"
ASSUMPTIONS: tuple[str, ...] = (
    "one person is one user, the same one in every run, and every person may have been in all of them",
    PLANNED,
    "everything that each run assumes by itself (tacit account run lists it)",
    "no other run read these users",
)


@dataclass(frozen=True)
class Together:
    """(ε, δ) of several runs on the same users; infinite with the reasons."""

    epsilon: float
    delta: float
    rho: float | None
    accountant: str
    adjacency: str
    unit: str
    releases: int
    reasons_not_private: tuple[Reason, ...] = ()
    assumptions: tuple[str, ...] = ASSUMPTIONS


def together(
    ledgers: Sequence[Ledger],
    delta: float | None = None,
    *,
    cohorts: Mapping[str, Sequence[Users]] | None = None,
    adaptive: bool = False,
) -> Together:
    """The bound on what these runs (at least one) cost together, at this δ or else the smallest of the runs' own.

    `cohorts`: by run id, who took part in each of the run's intents; where it is not given, the plan's promise counts.
    `adaptive`: runs and their number may have been chosen by looking at what earlier runs released.
    PrivacyError if a run is given twice, or if the runs are stated for different units or neighbours.
    """
    openings = [ledger.opened for ledger in ledgers]
    adaptive = adaptive or any(opened.extended_from for opened in openings)
    ids = [opened.run_id for opened in openings]
    for place, run_id in enumerate(ids):
        if run_id in ids[:place]:
            raise PrivacyError(f"Expected each run once, got the run {run_id} twice ({ledgers[place].path.parent}).")
    unit = the_one("unit of privacy", (opened.unit for opened in openings))
    adjacency = the_one("adjacency", (opened.adjacency for opened in openings))
    if delta is None:
        delta = min(float(opened.plan["delta"]) for opened in openings)
    costs = [_cost(ledger, (cohorts or {}).get(ledger.opened.run_id)) for ledger in ledgers]
    releases = sum(len(ledger.intents) for ledger in ledgers)
    reasons = [reason.in_run(run_id) for run_id, cost in zip(ids, costs, strict=True) for reason in cost.reasons]
    assumptions = tuple(each for each in ASSUMPTIONS if not (adaptive and each == PLANNED))
    assumptions += tuple(dict.fromkeys(claim for opened in openings for claim in author_claims(opened)))
    if reasons:
        return Together(math.inf, delta, None, "none", adjacency, unit, releases, tuple(reasons), assumptions)
    composition = adaptively_composed if adaptive else compose
    found = composition([part for cost in costs for part in cost.parts], apart_from_tail(delta))
    value, tail = found.epsilon, math.fsum(cost.tail for cost in costs)
    if math.isinf(value):
        reasons = [Reason(Why.NO_NOISE)]
    elif objection := tail_objection(tail, value, delta):
        value, reasons = math.inf, [Reason(Why.NOISE_TAIL, objection)]
    return Together(value, delta, found.rho, found.accountant, adjacency, unit, releases, tuple(reasons), assumptions)


@dataclass(frozen=True)
class _RunCost:
    """What a run composes of, τ of its noise, and why nothing may be claimed for it."""

    parts: Sequence[Part]
    tail: float
    reasons: Sequence[Reason] = ()


def _cost(ledger: Ledger, cohorts: Sequence[Users] | None) -> _RunCost:
    opened, charged = ledger.opened, charged_for(ledger.opened, ledger.intents)
    if opened.reasons_not_private:
        return _RunCost((), 0.0, opened.reasons_not_private)
    if (standing := charged.objection or outside_objection(opened)) is not None:
        return _RunCost((), 0.0, [standing])
    kinds = {intent.sampling["kind"] for intent in charged.releases}
    if not (kinds <= {"poisson", "fixed"} or kinds == {"check_in"} == {opened.plan["sampling"]}):
        unknown = f"this version of Tacit does not account for sampling of the kind {' and '.join(sorted(kinds))}"
        return _RunCost((), 0.0, [Reason(Why.UNPROVEN_RELEASES, unknown)])
    releases = releases_of(opened, charged, cohorts)
    cost = cost_of_releases(releases)
    parts = cost.parts(opened.adjacency)
    if cost.objection is not None or parts is None:
        objection = cost.objection or "the cost of its mechanism is one that does not compose"
        return _RunCost((), 0.0, [Reason(Why.UNPROVEN_RELEASES, objection)])
    draws = len(releases.all) if cost.draws is None else cost.draws
    return _RunCost(parts, tail_probability(opened.release.coordinates, opened.release.arrays, draws))
