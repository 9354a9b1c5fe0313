"""What a run costs its users, read off its ledger and nothing else.

Every intent counts as a release, with the noise its blocks got and the sampling constants it names. The planned rounds that
have not run count too (`record.planned` says why). δ, the unit and the reasons why nothing may be claimed are those of
the ledger's first record. The probability τ that noise is not what its proof takes it for (`noise.tail`) is charged to
δ: ε is computed at a slightly smaller δ, and the difference must cover (1 + e^ε) τ, or no finite ε is claimed.

Without sampling (check_in) the cost is a ρ, from MinS and MaxP: those that the plan promises, or those that the cohorts had
where they are given and all planned rounds have run. The participation so far says nothing about rounds that are still to
come, so a run that ended early is charged by the promise. Noise from devices (`device_noise`) has its own ρ, which is not quite
a Gaussian's.

**Rounds that ran again under correlated noise.** A run that lost rounds s .. t-1 goes on at s from the state it had there,
with fresh noise from s on. Its releases are then rows of C x + Z as ever, and beside them the lost rows s .. t-1 of C x' + Z',
x' and Z' being x and Z before s. All rows have independent noise, so the squared sensitivities of the two sets of rows add up;
and that of the lost rows is at most that of the whole lost branch, rounds 0 .. t-1. So each branch counts as a
mechanism of its own, with its own cohorts, and the ρ's add up.
"""

from __future__ import annotations

import dataclasses
import json
import math
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tacit.errors import PrivacyError
from tacit.privacy.accounting import device_noise
from tacit.privacy.accounting.gaussian import sensitivity_squared as independent_sensitivity_squared
from tacit.privacy.accounting.sampled_gaussian import Rounds, combined_noise_multiplier, sampled_epsilon
from tacit.privacy.accounting.zcdp import composed, epsilon_of_any, epsilon_of_gaussian, gaussian_rho
from tacit.privacy.gate.discretisation import DISCRETE
from tacit.privacy.noise.strategies import from_description
from tacit.privacy.noise.tail import apart_from_tail, tail_objection, tail_probability
from tacit.privacy.participation.limits import Gap, Participation, realised
from tacit.privacy.record.facts import PretrainingRecord
from tacit.privacy.record.planned import CUT_OFF, Charged, charged_for
from tacit.privacy.record.reasons import Reason, Why, reasons_as_json
from tacit.privacy.record.records import Intent, Opened
from tacit.privacy.statement.wording import rounds_in_words, times

ASSUMPTIONS: tuple[str, ...] = (
    "one person is one user, and it was decided before the run which users are trained on and which are held out",
    "settings such as the clip and the number of rounds were chosen without looking at these users",
    "the model that the first round starts from holds nothing of these users, and accuracy is measured on nobody who is "
    "trained on",
    "the cost is that of this run alone; other runs on the same users cost more in addition, and so does a copy of this run "
    "that is continued separately",
    "nobody else reads the process's memory or measures its timing",
    "nobody has the computing power to tell ChaCha20, AES-256 or keyed BLAKE2b, with 256-bit keys, from random bits",
)
# Devices draw integers, exactly, and from another stream of bits.
DEVICE_ASSUMPTIONS: tuple[str, ...] = (
    *ASSUMPTIONS[:-1],
    "nobody has the computing power to tell AES-256-CTR or keyed BLAKE2b from random bits",
    "sums are computed under secure aggregation, so that nobody sees the integers of a single device",
)
# Amplification holds against somebody who does not know the sample.
SAMPLED_ASSUMPTIONS: tuple[str, ...] = ("nobody else learns who was in which cohort",)


@dataclass(frozen=True)
class Spent:
    """(ε, δ) of a run, for a unit and an adjacency, under assumptions; infinite with the reasons.

    Without sampling there is also a ρ, and the MinS and MaxP that it was computed from. `releases` are those in the ledger;
    the cost is that of all `rounds_planned`, of which `rounds_run` have run, and of every further attempt.
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

    def as_dict(self) -> dict[str, Any]:
        """For JSON: an infinite epsilon is null, and its reasons say why."""
        return {
            **vars(self),
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
    cohorts: Iterable[NDArray[np.int64]] | None = None,
    quick: bool = False,
) -> Spent:
    """The bound on what these releases and the planned rounds that have not run cost together.

    `cohorts`: who took part, one array an intent, from the participation record; it counts once all planned rounds have run.
    `quick`: a coarser bound, for a progress bar.
    """
    charged = charged_for(opened, intents)
    sampled = opened.plan["sampling"] != "check_in"
    cost = _sampled(opened, charged, quick) if sampled else unsampled_cost(opened, charged, cohorts)
    delta, reasons, value = float(opened.plan["delta"]), opened.reasons_not_private, math.inf
    if not reasons and charged.objection is not None:
        reasons = (charged.objection,)
    if not reasons and cost.objection is not None:
        reasons = (Reason(Why.UNPROVEN_RELEASES, cost.objection),)
    if not reasons:
        value = cost.epsilon
        tail = tail_probability(opened.release.coordinates, opened.release.arrays, cost.draws)
        if math.isinf(value):
            reasons = (Reason(Why.NO_NOISE),)
        elif objection := tail_objection(tail, value, delta):
            value, reasons = math.inf, (Reason(Why.NOISE_TAIL, objection),)
    assumptions = SAMPLED_ASSUMPTIONS + ASSUMPTIONS if sampled else ASSUMPTIONS
    if opened.mechanism == DISCRETE:
        assumptions = DEVICE_ASSUMPTIONS + _corrupt_devices(opened)
    if charged.ran_again:
        assumptions += (CUT_OFF,)
    if cost.participation is not None and not cost.participation.observed:
        assumptions += ("no user took part more often, or with fewer rounds in between, than the plan promises",)
    if opened.data.vocabulary is not None:
        assumptions += (
            f"the words of the model were chosen without looking at these users ({opened.data.vocabulary})",
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
        cost.accountant,
        opened.adjacency,
        opened.unit,
        len(charged.happened),
        opened.rounds,
        charged.rounds_run,
        reasons,
        assumptions,
        cost.rho if math.isfinite(value) else None,
        cost.participation,
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


@dataclass(frozen=True)
class _Cost:
    """What the releases cost before the noise's tail; `draws` is how often a coordinate drew noise."""

    epsilon: float
    accountant: str
    draws: int
    rho: float | None = None
    participation: Participation | None = None
    objection: str | None = None
    gaussian: bool = True


def _sampled(opened: Opened, charged: Charged, quick: bool) -> _Cost:
    rounds = rounds_of(charged.releases)
    delta = apart_from_tail(float(opened.plan["delta"]))
    value, accountant = math.inf, "rdp"
    if not opened.reasons_not_private:
        value, accountant = sampled_epsilon(rounds, delta, discretization=1e-3 if quick else 1e-4)
    objection = "correlated noise has no proof on sampled rounds" if opened.strategy else None
    return _Cost(value, accountant, len(charged.releases), objection=objection)


def unsampled_cost(opened: Opened, charged: Charged, cohorts: Iterable[NDArray[np.int64]] | None) -> _Cost:
    """The ρ of a run without sampling; `cohorts` are those of the releases that happened."""
    users = _cohorts_that_count(charged, cohorts)
    if opened.mechanism == DISCRETE:
        return _from_devices(opened, charged, users)
    strategy = from_description(opened.strategy) if opened.strategy else None
    branches = branches_of(charged.releases)
    promised = Participation(int(opened.plan["min_separation"]), int(opened.plan["max_participation"]), observed=False)
    seen = [promised] * len(branches)
    if users is not None:
        seen = [realised([users[number] for number in branch]) for branch in branches]
    rhos, objection = [], _departure_in(charged, branches, correlated=strategy is not None)
    for branch, participation in zip(branches, seen, strict=True):
        releases = [charged.releases[number] for number in branch]
        restarts = [intent.round for intent in releases if intent.restart and intent.round > 0]
        gap, most = Gap(participation.min_separation), participation.max_participation
        if strategy is None:
            squared: float = independent_sensitivity_squared(len(releases), gap, most)
        else:
            squared = strategy.sensitivity(len(releases), gap, most, restarts).squared
        smallest = min((_noise_multiplier(intent) for intent in releases), default=math.inf)
        rhos.append(gaussian_rho(noise_multiplier=smallest, sensitivity_squared=squared))
    rho = composed(*rhos)
    together = Participation(
        min((each.min_separation for each in seen), default=promised.min_separation),
        max((each.max_participation for each in seen), default=0),
        observed=users is not None,
    )
    value = epsilon_of_gaussian(rho, apart_from_tail(float(opened.plan["delta"])))
    return _Cost(value, "zCDP, exact Gaussian curve", len(charged.releases), rho, together, objection)


def _cohorts_that_count(
    charged: Charged, cohorts: Iterable[NDArray[np.int64]] | None
) -> list[NDArray[np.int64]] | None:
    """The cohorts of all releases, where they are given and all planned rounds have run."""
    if cohorts is None:
        return None
    users = list(cohorts)
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
    noise = device_noise.constants_of(opened) if opened.mechanism == DISCRETE else None
    fewest = min(map(len, cohorts), default=0)
    if noise is not None and len(cohorts) and fewest < noise.fewest_reports:
        return f"a round had {fewest} reports, and the plan promises {noise.fewest_reports} at least"
    return None


def _from_devices(opened: Opened, charged: Charged, users: list[NDArray[np.int64]] | None) -> _Cost:
    branches, noise = branches_of(charged.releases), device_noise.constants_of(opened)
    promised = Participation(int(opened.plan["min_separation"]), int(opened.plan["max_participation"]), observed=False)
    seen = promised
    if users is not None:
        ways = [realised([users[number] for number in branch]) for branch in branches]
        seen = Participation(
            min((each.min_separation for each in ways), default=promised.min_separation),
            max((each.max_participation for each in ways), default=0),
            observed=True,
        )
    objection = device_noise.objection_to(charged.happened) or _departure_in(charged, branches, correlated=False)
    accountant = "zCDP through RDP (alpha times rho)"
    if noise is None:
        why = "the ledger does not say what noise each device added"
        return _Cost(math.inf, accountant, 0, math.inf, seen, why, gaussian=False)
    rho = device_noise.rho_of(noise, users, [len(branch) for branch in branches], promised)
    value = epsilon_of_any(rho, apart_from_tail(float(opened.plan["delta"])))
    # Nothing of the server's noise to charge for: devices sample integers exactly.
    return _Cost(value, accountant, 0, rho, seen, objection, gaussian=False)


def _corrupt_devices(opened: Opened) -> tuple[str, ...]:
    section = opened.plan.get("secagg") or {}
    share = float(section.get("corrupt", 0.0))
    who = f"at most {share:.1%} of a round's devices are" if share else "no device is"
    return (f"{who} corrupt; every other device adds its share of the noise and keeps it secret",)


def branches_of(intents: Sequence[Intent]) -> list[list[int]]:
    """The ways through the rounds that a run took, as numbers of intents: the lost ones first, the one in use last."""
    branches, path = [], list[int]()
    for number, intent in enumerate(intents):
        if path and intent.round <= intents[path[-1]].round:
            branches.append(path)
            path = [each for each in path if intents[each].round < intent.round]
        path = [*path, number]
    return [*branches, path] if path else branches


def _departure_in(charged: Charged, branches: Sequence[Sequence[int]], *, correlated: bool) -> str | None:
    """The first departure on any way through the rounds that happened."""
    for branch in branches:
        happened = [charged.happened[number] for number in branch if number < len(charged.happened)]
        if (found := _departure(happened, correlated=correlated)) is not None:
            return found
    return None


def _departure(releases: Sequence[Intent], *, correlated: bool) -> str | None:
    """Why these releases are not what the proof is about; mostly None."""
    if [intent.round for intent in releases] != list(range(len(releases))):
        return "the ledger skips rounds"
    for before, intent in pairwise(releases):
        if correlated and not intent.restart and intent.blocks != before.blocks:
            return f"bound or noise changed in round {intent.round} without a restart of the correlated noise"
    return None


def rounds_of(intents: Iterable[Intent]) -> list[Rounds]:
    """The ledger's releases, grouped by what they cost."""
    counts: Counter[tuple[str, float]] = Counter()
    for intent in intents:
        counts[json.dumps(intent.sampling, sort_keys=True), _noise_multiplier(intent)] += 1
    return [Rounds(json.loads(sampling), z, count) for (sampling, z), count in counts.items()]


def _noise_multiplier(intent: Intent) -> float:
    """z of a release as a whole; 0 where a block has no bound."""
    blocks = intent.blocks.values()
    if any(block["bound"] is None for block in blocks):
        return 0.0
    return combined_noise_multiplier(block["noise_multiplier"] or 0.0 for block in blocks)
