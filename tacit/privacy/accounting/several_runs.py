"""What several runs have cost the same users together, read off their ledgers.

Every user may have been in every run: the runs are composed as if all of them had read the same people, whichever data
their ledgers name. The tails that the runs' noises lack (`tacit.privacy.noise.tail`) are charged as for one run: all runs
together are within Σ τ of the runs with perfect noise, so ε is computed at a slightly smaller δ, and what was set aside
must cover (1 + e^ε) Σ τ, or no finite ε is claimed.

Runs that were planned together, before any of them released anything, compose as one mechanism (`composition`). Runs that
were chosen by looking at earlier ones' releases go through an odometer (`adaptive`), and so do all runs if one of them was
extended: how many rounds it has may have been decided by looking at its releases.

A discovery of words (`tacit.privacy.discovery`) counts once, however many of the runs use its words, and whether it is among
the runs or not. Its threshold takes δ_T from δ. Where runs were chosen by looking at earlier ones, a fifth of δ is always set
aside for thresholds, because neither their number nor whether there are any may decide the δ at which the rest is computed: a
person who discovers words only after a harmless first run would otherwise have spent δ before and a part of δ again. If the
thresholds need more than a fifth, there is no bound.

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
from tacit.privacy.accounting.composition import Composed, Concentrated, Part, compose, the_one
from tacit.privacy.accounting.discovered_words import discovery_rho
from tacit.privacy.accounting.spent import cost_of_releases, releases_of
from tacit.privacy.noise.tail import apart_from_tail, tail_objection, tail_probability
from tacit.privacy.participation.cyclic import CYCLIC
from tacit.privacy.record.facts import VocabularyRecord
from tacit.privacy.record.ledger import Ledger
from tacit.privacy.record.planned import Charged, charged_for
from tacit.privacy.record.reasons import Reason, Why
from tacit.privacy.record.records import Opened

Users = NDArray[np.int64]

# Of δ, what is set aside for the thresholds of discoveries where runs may have been chosen by looking at earlier ones.
THRESHOLDS = 0.2

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
    odometer = adaptive or any(opened.extended_from for opened in openings)
    adaptive = adaptive or (odometer and len(ledgers) > 1)  # the words of one run were settled before its first round
    ids = [opened.run_id for opened in openings]
    for place, run_id in enumerate(ids):
        if run_id in ids[:place]:
            raise PrivacyError(f"Expected each run once, got the run {run_id} twice ({ledgers[place].path.parent}).")
    unit = the_one("unit of privacy", (opened.unit for opened in openings))
    # A discovery of words is proven for every kind of neighbours, so it takes that of the other runs.
    stated = [opened.adjacency for opened in openings if opened.discovery is None]
    adjacency = the_one("adjacency", stated or (opened.adjacency for opened in openings))
    if delta is None:
        # A discovery of words is part of the runs that use it, at their larger delta.
        trained = [opened for opened in openings if not opened.finds_words]
        delta = min(float(opened.plan["delta"]) for opened in trained or openings)
    costs = [
        cost_of_run(
            ledger.opened,
            charged_for(ledger.opened, ledger.intents, start=ledger.next_round),
            adjacency,
            cohorts=(cohorts or {}).get(ledger.opened.run_id),
        )
        for ledger in ledgers
    ]
    costs += [_discovery(each, adjacency) for each in _other_discoveries(openings)]
    releases = sum(len(ledger.intents) for ledger in ledgers)
    reasons = [reason.in_run(run_id) for run_id, cost in zip(ids, costs, strict=False) for reason in cost.reasons]
    assumptions = tuple(each for each in ASSUMPTIONS if not (adaptive and each == PLANNED))
    assumptions += tuple(dict.fromkeys(claim for opened in openings for claim in author_claims(opened)))
    if reasons:
        return Together(math.inf, delta, None, "none", adjacency, unit, releases, tuple(reasons), assumptions)
    found, reasons = added(costs, delta, adaptive=adaptive, odometer=odometer)
    return Together(
        found.epsilon, delta, found.rho, found.accountant, adjacency, unit, releases, tuple(reasons), assumptions
    )


def added(
    costs: Sequence[RunCost], delta: float, *, adaptive: bool, odometer: bool, within_epsilon: float = 0.0
) -> tuple[Composed, list[Reason]]:
    """What these cost together at this δ, and why that is infinite, where it is.

    `odometer`: by the bound for releases that were chosen adaptively. `adaptive`: whether there are discoveries, and how many,
    may have been decided by looking at releases, so that a fifth of δ is set aside for their thresholds in any case.
    `within_epsilon`: a larger ε that is claimed for all of them; the tails of noise must be small enough for that.
    """
    composition = adaptively_composed if odometer else compose
    within, lonely = apart_from_tail(delta), math.fsum(cost.threshold_delta for cost in costs)
    set_aside = THRESHOLDS * within if adaptive else lonely
    if lonely > set_aside or set_aside >= within:
        most = set_aside if adaptive else within
        nothing = Composed(math.inf, None, "none")
        return nothing, [Reason(Why.UNPROVEN_RELEASES, _too_much_for_thresholds(lonely, most))]
    found = composition([part for cost in costs for part in cost.parts], within - set_aside)
    value, tail = found.epsilon - math.log1p(-set_aside), math.fsum(cost.tail for cost in costs)
    reasons = []
    if math.isinf(value):
        reasons = [Reason(Why.NO_NOISE)]
    elif objection := tail_objection(tail, max(value, within_epsilon), delta):
        value, reasons = math.inf, [Reason(Why.NOISE_TAIL, objection)]
    rho = found.rho if lonely == 0 else None  # a threshold is not zero-concentrated
    return Composed(value, rho, found.accountant), reasons


@dataclass(frozen=True)
class RunCost:
    """What a run composes of, τ of its noise, what its thresholds take from δ, and why nothing may be claimed for it."""

    parts: Sequence[Part]
    tail: float
    reasons: Sequence[Reason] = ()
    threshold_delta: float = 0.0


def _other_discoveries(openings: Sequence[Opened]) -> list[VocabularyRecord]:
    """The discoveries that chose the words of these runs, each once, without those that are among the runs."""
    used = {opened.vocabulary.run: opened.vocabulary for opened in openings if opened.vocabulary is not None}
    return [record for run_id, record in used.items() if all(opened.run_id != run_id for opened in openings)]


def _discovery(record: VocabularyRecord, adjacency: str) -> RunCost:
    rho = discovery_rho(record.noise_multiplier, record.releases, adjacency)
    return RunCost((Concentrated(rho, adjacency),), 0.0, threshold_delta=record.threshold_delta)


def _too_much_for_thresholds(lonely: float, most: float) -> str:
    return f"the thresholds of discoveries of words take {lonely:g} of delta together, and at most {most:g} is left for them"


def cost_of_run(opened: Opened, charged: Charged, adjacency: str, *, cohorts: Sequence[Users] | None = None) -> RunCost:
    """What a run is charged for, as it composes with others that are stated for these neighbours.

    What the discovery of its words cost is not in it.
    """
    if opened.reasons_not_private:
        return RunCost((), 0.0, opened.reasons_not_private)
    if (standing := charged.objection or outside_objection(opened)) is not None:
        return RunCost((), 0.0, [standing])
    kinds = {intent.sampling["kind"] for intent in charged.releases}
    as_planned = kinds == {opened.plan["sampling"]} and kinds <= {"check_in", CYCLIC}
    if not (kinds <= {"poisson", "fixed"} or as_planned):
        unknown = f"this version of Tacit does not account for sampling of the kind {' and '.join(sorted(kinds))}"
        return RunCost((), 0.0, [Reason(Why.UNPROVEN_RELEASES, unknown)])
    releases = releases_of(opened, charged, cohorts)
    cost = cost_of_releases(releases)
    if opened.discovery is not None and cost.objection is None:
        rho = discovery_rho(releases.noise_multiplier, len(releases.all), adjacency)
        return RunCost((Concentrated(rho, adjacency),), 0.0, threshold_delta=cost.threshold_delta)
    parts = cost.parts(opened.adjacency)
    if cost.objection is not None or parts is None:
        objection = cost.objection or "the cost of its mechanism is one that does not compose"
        return RunCost((), 0.0, [Reason(Why.UNPROVEN_RELEASES, objection)])
    draws = len(releases.all) if cost.draws is None else cost.draws
    tail = tail_probability(opened.release.coordinates, opened.release.arrays, draws)
    return RunCost(parts, tail, threshold_delta=cost.threshold_delta)
