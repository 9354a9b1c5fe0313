"""What a run costs its users, read off its ledger and nothing else.

Every intent counts as a release, with the noise its blocks got and the sampling constants it names. The planned rounds that
have not run count too (`record.planned` says why). δ, the unit and the reasons why nothing may be claimed are those of
the ledger's first record. The probability τ that noise is not what its proof takes it for (`noise.tail`) is charged to
δ: ε is computed at a slightly smaller δ, and the difference must cover (1 + e^ε) τ, or no finite ε is claimed.

Without sampling (check_in) the cost is a ρ, from MinS and MaxP: those that the plan promises, or those that the cohorts had
where they are given and all planned rounds have run. The participation so far says nothing about rounds that are still to
come, so a run that ended early is charged by the promise. What the releases cost is the answer of their mechanism
(`tacit.privacy.noise.kinds`); for a mechanism from outside Tacit it is its author's claim, and the assumptions say so.

**A run that was extended** was given more rounds after it had finished, by somebody who may have looked at its releases. How
many rounds it has is then no constant that was settled beforehand, and a composition that takes it for one is not proven. All
of its rounds are charged by the odometer for adaptively chosen releases (`accounting.adaptive`), whose reading holds for
everything released, the model before the extension included. Only Gaussian rounds on sampled users can be read that way.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tacit.errors import PrivacyError
from tacit.privacy.accounting.adaptive import adaptively_composed
from tacit.privacy.accounting.claims import author_claims, outside_objection
from tacit.privacy.accounting.cost import Cost
from tacit.privacy.accounting.discovered_words import discovery_objection, with_vocabulary
from tacit.privacy.accounting.releases import Releases, branches_of
from tacit.privacy.noise.kinds import kind_of
from tacit.privacy.noise.kinds.base import RANDOM_BITS
from tacit.privacy.noise.tail import apart_from_tail, tail_objection, tail_probability
from tacit.privacy.outside import is_path
from tacit.privacy.participation.limits import Participation, realised
from tacit.privacy.record.facts import PretrainingRecord
from tacit.privacy.record.planned import CUT_OFF, Charged, charged_for
from tacit.privacy.record.reasons import Reason, Why, reasons_as_json
from tacit.privacy.record.records import Intent, Opened
from tacit.privacy.statement.wording import rounds_in_words, times

_UNWATCHED = "nobody else reads the process's memory or measures its timing"
# What every run that trains assumes; `ASSUMPTIONS` are those of a run with noise of Tacit's own.
COMMON: tuple[str, ...] = (
    "one person is one user, and it was decided before the run which users are trained on and which are held out",
    "settings such as the clip and the number of rounds were chosen without looking at these users",
    "the model that the first round starts from holds nothing of these users, and accuracy is measured on nobody who is "
    "trained on",
    "the cost is that of this run alone; other runs on the same users cost more in addition, and so does a copy of this run "
    "that is continued separately",
    _UNWATCHED,
)
# What a discovery of words assumes instead: it trains no model and measures no accuracy.
COMMON_OF_WORDS: tuple[str, ...] = (
    "one person is one user, and it was decided before the run which users are held out",
    "settings such as the noise, and the public list, were chosen without looking at these users",
    "the cost is that of this run alone; other runs on the same users cost more in addition",
    _UNWATCHED,
)
ASSUMPTIONS: tuple[str, ...] = (*COMMON, RANDOM_BITS)
# Amplification holds against somebody who does not know the sample.
SAMPLED_ASSUMPTIONS: tuple[str, ...] = ("nobody else learns who was in which cohort",)


@dataclass(frozen=True)
class Spent:
    """(ε, δ) of a run, for a unit and an adjacency, under assumptions; infinite with the reasons.

    Without sampling there is also a ρ, and the MinS and MaxP that it was computed from. `releases` are those in the ledger;
    the cost is that of all `rounds_planned`, of which `rounds_run` have run, and of every further attempt. `rho` is None
    where a threshold was used, which is not zero-concentrated; `rho_of_noise` is then that of everything else.
    """

    epsilon: float
    delta: float
    accountant: str
    adjacency: str
    unit: str
    releases: int
    rounds_planned: int
    rounds_run: int
    reasons_not_private: tuple[Reason, ...] = ()
    assumptions: tuple[str, ...] = ASSUMPTIONS
    rho: float | None = None
    participation: Participation | None = None
    rho_of_noise: float | None = None

    def as_dict(self) -> dict[str, Any]:
        """For JSON: an infinite epsilon is null, and its reasons say why."""
        return {
            **{name: value for name, value in vars(self).items() if name != "rho_of_noise"},
            "epsilon": self.epsilon if math.isfinite(self.epsilon) else None,
            "rho": self.rho if self.rho is not None and math.isfinite(self.rho) else None,
            "assumptions": list(self.assumptions),
            "participation": None if self.participation is None else vars(self.participation),
            **reasons_as_json(self.reasons_not_private),
            "computed_from": self.computed_from,
            "rounds": self.rounds_in_words,
        }

    @property
    def rounds_in_words(self) -> str:
        """Which rounds the cost is that of."""
        return rounds_in_words(self.rounds_planned, self.rounds_run, self.releases - self.rounds_run)

    @property
    def computed_from(self) -> str:
        """Which participation the cost was computed from."""
        if self.participation is None:
            return "the sampling that the plan states"
        most, apart = self.participation.max_participation, self.participation.min_separation
        limits = f"at most {times(most)} a user, with at least {apart:,} rounds in between"
        return f"the participation that {'happened' if self.participation.observed else 'the plan promises'} ({limits})"


def spent_by(
    opened: Opened,
    intents: Iterable[Intent],
    *,
    start: int | None = None,
    cohorts: Iterable[NDArray[np.int64]] | None = None,
    quick: bool = False,
) -> Spent:
    """The bound on what these releases and the planned rounds that have not run cost together.

    `start` is the round that the run goes on with (`Ledger.next_round`), where that is not the one after its last: rounds from
    there on run again, and count again. `cohorts`: who took part, one array an intent, from the participation record; it counts
    once all planned rounds have run.
    `quick`: a coarser bound, for a progress bar.
    """
    charged = charged_for(opened, intents, start=start)
    releases = releases_of(opened, charged, cohorts)
    cost = with_vocabulary(cost_of_releases(releases), opened.vocabulary, opened.adjacency)
    delta, reasons = float(opened.plan["delta"]), opened.reasons_not_private
    value, accountant = math.inf, cost.accountant
    if not reasons and (standing := charged.objection or outside_objection(opened)) is not None:
        reasons = (standing,)
    if not reasons and cost.objection is not None:
        reasons = (Reason(Why.UNPROVEN_RELEASES, cost.objection),)
    if not reasons:
        if opened.extended_from:
            value, accountant = _extended_epsilon(cost, opened, apart_from_tail(delta))
        else:
            value, accountant = cost.epsilon(apart_from_tail(delta), quick=quick)
        draws = len(releases.all) if cost.draws is None else cost.draws
        tail = tail_probability(opened.release.coordinates, opened.release.arrays, draws)
        if math.isinf(value) and accountant == _NOT_EXTENDABLE:
            reasons = (Reason(Why.UNPROVEN_RELEASES, _NOT_EXTENDABLE),)
        elif objection := discovery_objection(cost, apart_from_tail(delta)):
            value, reasons = math.inf, (Reason(Why.UNPROVEN_RELEASES, objection),)
        elif math.isinf(value):
            reasons = (Reason(Why.NO_FINITE_COST if is_path(opened.mechanism) else Why.NO_NOISE),)
        elif objection := tail_objection(tail, value, delta):
            value, reasons = math.inf, (Reason(Why.NOISE_TAIL, objection),)
    drawn = releases.sampled and not opened.reads_everybody
    assumptions = (SAMPLED_ASSUMPTIONS if drawn else ()) + (COMMON_OF_WORDS if opened.finds_words else COMMON)
    assumptions += kind_of(opened.mechanism).assumptions(opened) + author_claims(opened)
    participation = releases.participation
    if opened.extended_from:
        assumptions += (extension_in_words(opened),)
    if charged.ran_again:
        assumptions += (CUT_OFF,)
    if participation is not None and not participation.observed:
        assumptions += ("no user took part more often, or with fewer rounds in between, than the plan promises",)
    if opened.data.vocabulary is not None and opened.vocabulary is None:
        assumptions += (
            f"the words of the model were chosen without looking at these users ({opened.data.vocabulary})",
        )
    if opened.vocabulary is not None:
        assumptions += (
            "noise, sampling and number of rounds were chosen without looking at the words that had been discovered",
        )
    if opened.pretraining is not None:
        assumptions += (_public_data(opened.pretraining),)
    if opened.selected_by:
        runs = " and ".join(f"the run {run_id}" for run_id in opened.selected_by)
        assumptions += (
            f"what {runs} released decides which users this run reads; what that release cost comes on top",
        )
    return Spent(
        value,
        delta,
        accountant,
        opened.adjacency,
        opened.unit,
        len(charged.happened),
        opened.rounds,
        charged.rounds_run,
        reasons,
        assumptions,
        cost.rho if math.isfinite(value) and cost.threshold_delta == 0 else None,
        participation,
        cost.rho if math.isfinite(value) and cost.threshold_delta > 0 else None,
    )


# What the accountant of an extended run is called, and why some runs have none.
EXTENDED = "Rényi odometer (the run was extended)"
_NOT_EXTENDABLE = "the run was extended, and only Gaussian rounds on sampled users can be charged for that"


def _extended_epsilon(cost: Cost, opened: Opened, delta: float) -> tuple[float, str]:
    """ε of all rounds of an extended run, whose number may have been decided by looking at releases."""
    if cost.rounds is None or (parts := cost.parts(opened.adjacency)) is None:
        return math.inf, _NOT_EXTENDABLE
    found = cost.threshold_delta  # settled before the first round, like the noise of the discovery
    if found >= delta:
        return math.inf, EXTENDED
    return adaptively_composed(parts, delta - found).epsilon - math.log1p(-found), EXTENDED


def extension_in_words(opened: Opened) -> str:
    """What is assumed of whoever extended the run."""
    steps = " and then to ".join(f"{rounds:,}" for rounds in (*opened.extended_from[1:], opened.rounds))
    return (
        f"whoever extended the run, from the {opened.extended_from[0]:,} rounds that were planned first to {steps}, looked at "
        "what it had released, at most, and at nothing else of these users"
    )


def cost_if_it_had_ended_here(opened: Opened, intents: Iterable[Intent]) -> Spent:
    """What the rounds so far would cost if the run had been planned to end here: a curve to watch, and no statement.

    A coarser bound than `spent_by`. It must not decide when the run ends and then be stated (`tacit.privacy.record.planned`).
    """
    intents = list(intents)
    rounds = intents[-1].round + 1 if intents else 0
    return spent_by(dataclasses.replace(opened, rounds=rounds), intents, quick=True)


def _public_data(pretraining: PretrainingRecord) -> str:
    """What is assumed of the data that a model was pre-trained on."""
    who = ", as the recipe asserts" if pretraining.asserted else ""
    return f"the data used for pre-training ({pretraining.public}) is public{who}, and holds nothing of these users"


def releases_of(opened: Opened, charged: Charged, cohorts: Iterable[NDArray[np.int64]] | None) -> Releases:
    """The releases that a run is charged for; `cohorts` are those of the releases that happened."""
    return Releases(opened, charged.happened, charged.to_come, _cohorts_that_count(charged, cohorts))


def cost_of_releases(releases: Releases) -> Cost:
    """What the mechanism says that its releases cost, with an objection where nothing may be claimed."""
    opened, kind = releases.opened, kind_of(releases.opened.mechanism)
    objection = outside_objection(opened)
    if objection is not None:
        return Cost.unknown(objection.sentence)
    cost = kind.cost(releases)
    if cost.objection is None and not releases.sampled:
        return dataclasses.replace(cost, objection=releases.departure(correlated=kind.correlated))
    return cost


def _cohorts_that_count(
    charged: Charged, cohorts: Iterable[NDArray[np.int64]] | None
) -> tuple[NDArray[np.int64], ...] | None:
    """The cohorts of all releases, where they are given and all planned rounds have run."""
    if cohorts is None:
        return None
    users = tuple(cohorts)
    if len(users) != len(charged.happened):
        raise PrivacyError(f"Expected the cohorts of {len(charged.happened)} releases, got {len(users)}.")
    return None if charged.to_come else users


def broken_promise(opened: Opened, intents: Sequence[Intent], cohorts: Sequence[NDArray[np.int64]]) -> str | None:
    """Why the cohorts of these releases, which were not sampled, are not what the plan promises; None where they are."""
    least, most = int(opened.plan["min_separation"]), int(opened.plan["max_participation"])
    for branch in branches_of(intents):
        found = realised([cohorts[number] for number in branch])
        if found.max_participation > most:
            return f"a user took part {times(found.max_participation)}, and the plan promises {most} at most"
        if found.max_participation > 1 and found.min_separation < least:
            return f"a user took part again after {found.min_separation} rounds, and the plan promises at least {least}"
    return kind_of(opened.mechanism).broken_promise(opened, cohorts)
