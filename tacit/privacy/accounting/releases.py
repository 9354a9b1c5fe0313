"""The releases that a run is charged for, as the cost of a mechanism is computed from them.

**Rounds that ran again under correlated noise.** A run that lost rounds s .. t-1 goes on at s from the state it had there,
with fresh noise from s on. Its releases are then rows of C x + Z as ever, and beside them the lost rows s .. t-1 of C x' + Z',
x' and Z' being x and Z before s. All rows have independent noise, so the squared sensitivities of the two sets of rows add up;
and that of the lost rows is at most that of the whole lost branch, rounds 0 .. t-1. So each branch counts as a
mechanism of its own, with its own cohorts, and the ρ's add up.
"""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from tacit.privacy.accounting.sampled_gaussian import SampledRounds, combined_noise_multiplier
from tacit.privacy.participation.limits import Gap, Participation, most_participations, realised
from tacit.privacy.record.records import Intent, Opened


@dataclass(frozen=True)
class Releases:
    """The ledger's first record, the releases that `happened` and those of the planned rounds `to_come`.

    `cohorts` are the users of every release, where they are known and all planned rounds have run.

    >>> import tacit
    >>> def cost(releases: tacit.Releases) -> tacit.Cost:  # of a mechanism of one's own
    ...     return tacit.Cost.of_rho(releases.participations / (2 * releases.noise_multiplier**2))
    """

    opened: Opened
    happened: tuple[Intent, ...]
    to_come: tuple[Intent, ...] = ()
    cohorts: tuple[NDArray[np.int64], ...] | None = None

    @property
    def all(self) -> tuple[Intent, ...]:
        """Everything that the run is charged for, in order; the rounds to come follow the last one that ran."""
        return self.happened + self.to_come

    @property
    def sampled(self) -> bool:
        """Whether users are drawn secretly; otherwise the cost follows from how often and how far apart they take part."""
        return bool(self.opened.plan["sampling"] != "check_in")

    @property
    def adjacency(self) -> str:
        """What two neighbouring data sets differ in."""
        return self.opened.adjacency

    @cached_property
    def rounds(self) -> tuple[SampledRounds, ...]:
        """The releases, grouped by their sampling and their combined noise multiplier."""
        return tuple(rounds_of(self.all))

    @property
    def noise_multiplier(self) -> float:
        """The smallest combined noise multiplier z of a release; 0 where a block has no bound or no noise."""
        return min((noise_multiplier_of(intent) for intent in self.all), default=math.inf)

    @cached_property
    def branches(self) -> list[list[int]]:
        """The ways through the rounds that the run took, as places in `all`: the lost ones first, the one in use last."""
        return branches_of(self.all)

    @cached_property
    def participation_by_branch(self) -> list[Participation]:
        """Without sampling: how often and how far apart users take part in each branch, as observed or as promised."""
        if self.cohorts is not None:
            return [realised([self.cohorts[number] for number in branch]) for branch in self.branches]
        return [self.promised] * len(self.branches)

    @property
    def promised(self) -> Participation:
        """Without sampling: what the plan promises of every user."""
        plan = self.opened.plan
        return Participation(int(plan["min_separation"]), int(plan["max_participation"]), observed=False)

    @property
    def participation(self) -> Participation | None:
        """Without sampling: MinS and MaxP over all branches, from which the cost is computed; None with sampling."""
        if self.sampled:
            return None
        found = self.participation_by_branch
        return Participation(
            min((each.min_separation for each in found), default=self.promised.min_separation),
            max((each.max_participation for each in found), default=0),
            observed=self.cohorts is not None,
        )

    @property
    def participations(self) -> int:
        """How many of the releases one user can have been in; all of them where users are sampled."""
        if self.sampled:
            return len(self.all)
        return sum(
            most_participations(len(branch), Gap(each.min_separation), each.max_participation)
            for branch, each in zip(self.branches, self.participation_by_branch, strict=True)
        )

    def departure(self, *, correlated: bool) -> str | None:
        """Where the releases that happened are not a sequence of rounds that a proof is about; None where they are."""
        for branch in self.branches:
            happened = [self.happened[number] for number in branch if number < len(self.happened)]
            if (found := _departure(happened, correlated=correlated)) is not None:
                return found
        return None


def branches_of(intents: Sequence[Intent]) -> list[list[int]]:
    """The ways through the rounds that a run took, as numbers of intents: the lost ones first, the one in use last."""
    branches, path = [], list[int]()
    for number, intent in enumerate(intents):
        if path and intent.round <= intents[path[-1]].round:
            branches.append(path)
            path = [each for each in path if intents[each].round < intent.round]
        path = [*path, number]
    return [*branches, path] if path else branches


def rounds_of(intents: Iterable[Intent]) -> list[SampledRounds]:
    """The ledger's releases, grouped by what they cost."""
    counts: Counter[tuple[str, float]] = Counter()
    for intent in intents:
        counts[json.dumps(intent.sampling, sort_keys=True), noise_multiplier_of(intent)] += 1
    return [SampledRounds(json.loads(sampling), z, count) for (sampling, z), count in counts.items()]


def noise_multiplier_of(intent: Intent) -> float:
    """z of a release as a whole; 0 where a block has no bound."""
    blocks = intent.blocks.values()
    if any(block["bound"] is None for block in blocks):
        return 0.0
    return combined_noise_multiplier(block["noise_multiplier"] or 0.0 for block in blocks)


def _departure(releases: Sequence[Intent], *, correlated: bool) -> str | None:
    if [intent.round for intent in releases] != list(range(len(releases))):
        return "the ledger skips rounds"
    for before, intent in pairwise(releases):
        if correlated and not intent.restart and intent.blocks != before.blocks:
            return f"bound or noise changed in round {intent.round} without a restart of the correlated noise"
    return None
