"""Who takes part in a round.

Both samplers draw from secret randomness and promise exactly the law that is accounted; a cohort is never truncated,
topped up or looked at before it is used.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray


class Sampler(Protocol):
    """Picks a cohort; `describe` gives the public constants the accountant uses."""

    def sample(self, users: int, generator: np.random.Generator) -> NDArray[np.int64]:
        """The numbers of the users who take part, in ascending order."""
        ...

    def describe(self) -> dict[str, Any]:
        """What the ledger records: the kind of sampling and its public constants."""
        ...


@dataclass(frozen=True)
class Poisson:
    """Each user takes part independently with a public probability q (DP-FedAvg, section 2).

    A user is in if a fresh 64-bit word is below ⌊q · 2⁶⁴⌋: the realised probability is q rounded *down*, by at most 2⁻⁶⁴.
    """

    probability: float

    def sample(self, users: int, generator: np.random.Generator) -> NDArray[np.int64]:
        if self.probability >= 1:
            return np.arange(users, dtype=np.int64)
        threshold = np.uint64(math.floor(self.probability * 2**64))
        words = generator.integers(0, 2**64, size=users, dtype=np.uint64)
        return np.flatnonzero(words < threshold).astype(np.int64)

    def describe(self) -> dict[str, Any]:
        return {"kind": "poisson", "probability": self.probability}


@dataclass(frozen=True)
class FixedSize:
    """Exactly `size` users, uniformly without replacement (Production, Algorithm 1)."""

    size: int
    population: int

    def sample(self, users: int, generator: np.random.Generator) -> NDArray[np.int64]:
        return np.sort(generator.choice(users, size=self.size, replace=False, shuffle=False)).astype(np.int64)

    def describe(self) -> dict[str, Any]:
        return {"kind": "fixed", "size": self.size, "population": self.population}
