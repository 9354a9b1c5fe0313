"""MaxP and MinS, how often one user takes part and how far apart: correlated noise relies on both (Gboard, section 2.2)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

# The neighbours of everything accounted by MinS and MaxP: the user is in the same rounds on both sides, on one with zeros.
ZERO_OUT = "zero out one user"


@dataclass(frozen=True)
class Gap:
    """The smallest distance between two participations of one user, which the literature counts in two ways.

    Gboard and TF-Privacy count the rounds strictly between (`rounds_between`, their MinS); jax-privacy and the papers
    on banded matrices count the difference of round numbers (`index_difference`), which is one more. A user in rounds 3
    and 7 has three rounds between, and an index difference of four. Nothing else in Tacit adds or subtracts that one.
    """

    rounds_between: int

    def __post_init__(self) -> None:
        if self.rounds_between < 0:
            raise ValueError(f"Expected at least 0 rounds between two participations, got {self.rounds_between}.")

    @classmethod
    def of_index_difference(cls, difference: int) -> Gap:
        """The gap of users whose participations are `difference` round numbers apart or more."""
        return cls(difference - 1)

    @property
    def index_difference(self) -> int:
        """The smallest difference of the round numbers of two participations."""
        return self.rounds_between + 1


def most_participations(rounds: int, gap: Gap, max_participation: int) -> int:
    """How often a user can take part in so many rounds: MaxP, or fewer where the gap leaves no room for it."""
    return min(max_participation, -(-rounds // gap.index_difference))


@dataclass(frozen=True)
class Participation:
    """MinS and MaxP over all users, as `observed` in the cohorts or as promised."""

    min_separation: int
    max_participation: int
    observed: bool


def realised(cohorts: Sequence[NDArray[np.int64]]) -> Participation:
    """MinS and MaxP in the cohorts of rounds 0, 1, ... If nobody took part twice, MinS is the number of rounds."""
    users = 1 + max((int(cohort.max(initial=-1)) for cohort in cohorts), default=-1)
    last, times, closest = np.full(users, -1), np.zeros(users, np.int64), len(cohorts)
    for round, cohort in enumerate(cohorts):
        again = last[cohort] >= 0
        closest = min(closest, int((round - 1 - last[cohort][again]).min(initial=closest)))
        last[cohort] = round
        times[cohort] += 1
    return Participation(closest, int(times.max(initial=0)), observed=True)
