"""Who takes part in a round.

A sampler gets one uniform 64-bit word for each user (`Randomness.draws`: a keyed hash of the user's name) and picks by these
words alone. `Poisson` and `FixedSize` promise exactly the law that is accounted; a cohort is never truncated, topped up or
looked at before it is used. `CheckIn` promises no law, only how often and how far apart one user
comes (Gboard, section 2.2); it remembers who was there. `cyclic.CyclicPoisson` lets groups of users take turns.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from tacit.errors import PrivacyError

# A uniform 64-bit word for each user, fresh in each round.
Draws = NDArray[np.uint64]


class Sampler(Protocol):
    """Picks cohorts; `describe` gives the public constants the accountant uses."""

    def sample(self, draws: Draws) -> NDArray[np.int64]:
        """The numbers of the users who take part, in ascending order; user u drew the word draws[u]."""
        ...

    def remember(self, users: NDArray[np.int64]) -> None:
        """A cohort of the round before the next `sample`, from a run that is being resumed."""
        ...

    def describe(self) -> dict[str, Any]:
        """What the ledger records: the kind of sampling and its public constants."""
        ...


@dataclass(frozen=True)
class Poisson:
    """Each user takes part independently with a public probability q (DP-FedAvg, section 2).

    A user is in if their word is below ⌊q · 2⁶⁴⌋: the realised probability is q rounded *down*, by at most 2⁻⁶⁴.
    """

    probability: float

    def sample(self, draws: Draws) -> NDArray[np.int64]:
        if self.probability >= 1:
            return np.arange(len(draws), dtype=np.int64)
        threshold = np.uint64(math.floor(self.probability * 2**64))
        return np.flatnonzero(draws < threshold).astype(np.int64)

    def remember(self, users: NDArray[np.int64]) -> None:
        pass  # every round is drawn anew

    def describe(self) -> dict[str, Any]:
        return {"kind": "poisson", "probability": self.probability}


@dataclass(frozen=True)
class FixedSize:
    """Exactly `size` users, uniformly without replacement (Production, Algorithm 1): those with the smallest words.

    Independent words in order are a uniformly random order of the users. Two equal words would be put in the users'
    order, which happens with probability below users² / 2⁶⁵.
    """

    size: int
    population: int

    def sample(self, draws: Draws) -> NDArray[np.int64]:
        return _smallest(draws, self.size)

    def remember(self, users: NDArray[np.int64]) -> None:
        pass  # every round is drawn anew

    def describe(self) -> dict[str, Any]:
        return {"kind": "fixed", "size": self.size, "population": self.population}


class CheckIn:
    """`size` users a round, of those who waited `min_separation` rounds and took part fewer than `max_participation` times.

    They are drawn at random, but the guarantee does not use this: any other choice would cost the same.
    """

    def __init__(self, size: int, min_separation: int, max_participation: int) -> None:
        self.size, self.min_separation, self.max_participation = size, min_separation, max_participation
        self._round = 0
        self._free = np.zeros(0, np.int64)  # by user: the first round they may be in again
        self._times = np.zeros(0, np.int64)  # by user: how often they were there

    def sample(self, draws: Draws) -> NDArray[np.int64]:
        self._make_room(len(draws))
        able = np.flatnonzero((self._free <= self._round) & (self._times < self.max_participation))
        if len(able) < self.size:
            raise PrivacyError(
                f"Expected {self.size} users who may take part in round {self._round}, got {len(able)}: the others wait for "
                f"{self.min_separation} rounds in between, or were there {self.max_participation} times.",
                hint="Lower privacy.cohort or privacy.min_separation, or raise privacy.max_participation.",
            )
        chosen = able[_smallest(draws[able], self.size)]
        self.remember(chosen)
        return chosen

    def remember(self, users: NDArray[np.int64]) -> None:
        self._make_room(int(users.max(initial=-1)) + 1)
        self._free[users] = self._round + self.min_separation + 1
        self._times[users] += 1
        self._round += 1

    def _make_room(self, users: int) -> None:
        missing = max(0, users - len(self._free))
        self._free, self._times = np.pad(self._free, (0, missing)), np.pad(self._times, (0, missing))

    def describe(self) -> dict[str, Any]:
        return {
            "kind": "check_in",
            "size": self.size,
            "min_separation": self.min_separation,
            "max_participation": self.max_participation,
        }


def _smallest(draws: Draws, size: int) -> NDArray[np.int64]:
    """The places of the `size` smallest words, ascending; fails if there are fewer words."""
    if size > len(draws):
        raise PrivacyError(f"Expected at least the {size} users of a round, got {len(draws)}.")
    chosen = np.argpartition(draws, size - 1)[:size] if size else np.zeros(0, np.int64)
    return np.sort(chosen).astype(np.int64)


@dataclass(frozen=True)
class OwnRate:
    """People as the sampler draws them; every synthetic user independently, with a probability of their own.

    The people are drawn first and as if they were alone, so nothing about them changes, and the law that the ledger names
    is theirs.
    """

    sampler: Sampler
    people: int
    probability: float

    def sample(self, draws: Draws) -> NDArray[np.int64]:
        """The numbers of the users who take part, in ascending order."""
        cohort = self.sampler.sample(draws[: self.people])
        others = self.people + Poisson(self.probability).sample(draws[self.people :])
        return np.concatenate([cohort, others])

    def remember(self, users: NDArray[np.int64]) -> None:
        """A cohort of the round before the next `sample`, from a run that is being resumed."""
        self.sampler.remember(users[users < self.people])

    def describe(self) -> dict[str, Any]:
        """The people's sampling and its public constants."""
        return self.sampler.describe()
