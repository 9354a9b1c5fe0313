"""What a run with noise from its devices has cost, read off its ledger: the ρ of each release, and who was in it.

A release's ρ comes from the integers (`discrete_gaussian`): the squared norm that no user's integers exceed, one device's
variance, and how many shares of noise are certainly there and unknown: the number of reports less all that are corrupt in a
full cohort, whose devices need not be among the lost.
How many reported is read off the participation record where that is given, for better and for worse: neighbours here differ in
what one user sends and not in who takes part ("zero out one user"), so the number says nothing about anybody's data. Otherwise
it is the fewest that the plan promises.

Noise is fresh in each release and ρ adds up, so a user costs the sum over the releases he was in, rounds that ran again
among them. Where nobody knows who came, he was in as many rounds of each branch as MinS and MaxP leave room for.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from pydantic import ValidationError

from tacit.privacy.accounting.discrete_gaussian import rho as discrete_rho
from tacit.privacy.gate.discretisation import SecAggSection
from tacit.privacy.participation.limits import Gap, Participation, most_participations
from tacit.privacy.record.records import UPDATE, Intent, Opened


@dataclass(frozen=True)
class DeviceNoise:
    """The constants of a run with noise from its devices: of one user's integers, of one device's share, of the plan."""

    norm_limit_squared: int
    local_variance: int
    integers: int
    section: SecAggSection
    cohort: int

    @property
    def fewest_reports(self) -> int:
        """How many reports the plan promises."""
        return self.section.reports_promised(self.cohort)

    def rho(self, reports: int) -> float:
        """ρ of one release of so many reports for one of those who are in it."""
        return discrete_rho(
            float(self.norm_limit_squared),
            local_variance=self.local_variance,
            devices=self.section.noisy(reports, self.cohort),
            dimension=self.integers,
        )


def constants_of(opened: Opened) -> DeviceNoise | None:
    """What the ledger's first record says; None if it does not say all that the proof needs."""
    sums = opened.secure_sum
    try:
        section = SecAggSection.model_validate(opened.plan.get("secagg"))
    except ValidationError:
        return None
    if sums is None or sums.local_variance < 1:
        return None
    cohort = int(opened.plan["cohort"])
    return DeviceNoise(sums.norm_limit_squared, sums.local_variance, sums.integers, section, cohort)


def rho_of(
    noise: DeviceNoise, cohorts: Sequence[NDArray[np.int64]] | None, branches: Sequence[int], promised: Participation
) -> float:
    """ρ of a whole run for whoever it cost most. `branches`: how many rounds each way through them took."""
    if cohorts is None:
        gap, each = Gap(promised.min_separation), noise.rho(noise.fewest_reports)
        times = sum(most_participations(rounds, gap, promised.max_participation) for rounds in branches)
        return times * each if times else 0.0
    by_size = {len(cohort): noise.rho(len(cohort)) for cohort in cohorts}
    users = 1 + max((int(cohort.max(initial=-1)) for cohort in cohorts), default=-1)
    total = np.zeros(users)
    for cohort in cohorts:
        total[cohort] += by_size[len(cohort)]
    # Thousands of additions in float64 are off by less than this.
    return float(total.max(initial=0.0)) * (1 + 1e-12)


def objection_to(intents: Sequence[Intent]) -> str | None:
    """Why these releases are not what the proof is about; mostly None."""
    for intent in intents:
        if set(intent.blocks) != {UPDATE}:
            return f"round {intent.round} released more than updates, and devices add noise to nothing else"
        if intent.blocks[UPDATE]["bound"] is None:
            return f"round {intent.round} had no bound on one user's share"
    return None
