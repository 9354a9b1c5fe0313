"""Toeplitz strategies: the same few coefficients in every round, C[t, s] = c_(t-s) with c_0 = 1.

- `BufferedToeplitz` (BLT; Dvijotham, McMahan, Pillutla, Steinke and Thakurta 2024): c_t is a sum of a few decaying
  exponentials, so a round needs as many vectors of memory as there are exponentials, whatever the number of rounds.
- `BandedToeplitz` (BandMF; Choquette-Choo et al. 2023): c_t is zero from some lag on, and free before. A round needs one vector
  of memory for each lag. Rounds further apart than the band share no noise, so with bands no wider than the gap, several
  participations of one user cost no more than their sum.

**Sensitivity.** For non-negative, non-increasing coefficients the worst user comes at once and as often as the gap allows
(Kalinin and Lampert 2024, Theorem 2). For others, the least non-increasing sequence above their absolute values bounds every
entry of |CᵀC|, so its sensitivity is a bound. With restarts, a user's participations are divided among stretches, each of
which costs at most what it would alone; the best division is found exactly, but it may not keep the gap across a
restart, so the result is a bound.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import ArrayLike

from tacit.errors import PrivacyError
from tacit.privacy.accounting.correlated import Sensitivity, toeplitz_sensitivity
from tacit.privacy.noise.strategies.base import (
    Floats,
    block_diagonal,
    horizon_of,
    numbers,
    rmse_over,
    size_of,
    within_horizon,
)
from tacit.privacy.participation.limits import Gap, most_participations

if TYPE_CHECKING:
    from tacit.privacy.noise.mechanisms.recurrences import Recurrence


class Toeplitz(ABC):
    """What Toeplitz strategies share; they differ in their columns."""

    name: str
    horizon: int

    @abstractmethod
    def column(self, rounds: int) -> Floats:
        """c_0 .. c_(rounds-1), the first column of C."""

    @abstractmethod
    def inverse_column(self, rounds: int) -> Floats:
        """The first column of C⁻¹, which is Toeplitz as well."""

    def stretches(self, rounds: int, restarts: Sequence[int] = ()) -> list[int]:
        return within_horizon(self.name, self.horizon, rounds, restarts)

    def sensitivity(self, rounds: int, gap: Gap, max_participation: int, restarts: Sequence[int] = ()) -> Sensitivity:
        """Exact without restarts for non-increasing coefficients; otherwise a bound, as the file's docstring says."""
        lengths = self.stretches(rounds, restarts)
        column = self.column(max(lengths))
        above = np.maximum.accumulate(np.abs(column)[::-1])[::-1]
        most = most_participations(rounds, gap, max_participation)
        exact = bool((above == column).all())
        if len(lengths) == 1:
            alone = toeplitz_sensitivity(above.tolist(), rounds, gap, max_participation)
            return (
                alone if exact else Sensitivity(alone.squared, False, "non-increasing Toeplitz above the coefficients")
            )

        @cache
        def stretch(length: int, participations: int) -> float:
            return toeplitz_sensitivity(above.tolist(), length, gap, participations).squared

        # best[n]: with n participations or fewer in the stretches so far.
        best = np.zeros(most + 1)
        for length in lengths:
            grown = best.copy()
            for here in range(1, most_participations(length, gap, most) + 1):
                np.maximum(grown[here:], best[: most + 1 - here] + stretch(length, here), out=grown[here:])
            best = grown
        return Sensitivity(float(best[most]), exact and most == 1, "sum over stretches between restarts")

    def prefix_rmse(self, rounds: int, restarts: Sequence[int] = ()) -> float:
        lengths = self.stretches(rounds, restarts)
        left = np.cumsum(self.inverse_column(max(lengths)))
        return rmse_over(lengths, np.cumsum(left**2))

    def noise_matrix(self, rounds: int, restarts: Sequence[int] = ()) -> Floats:
        """C⁻¹: one draw a round."""
        lengths = self.stretches(rounds, restarts)
        return block_diagonal([_lower_triangular(self.inverse_column(length)) for length in lengths])

    @abstractmethod
    def recurrence_error(self, rounds: int) -> float:
        """See `Strategy`."""


@dataclass(frozen=True)
class BufferedToeplitz(Toeplitz):
    """c_t = Σ ω_i θ_i^(t-1): each buffer's decay θ in [0, 1) and weight ω ≥ 0, all weights together at most 1.

    Those limits make the coefficients non-negative and non-increasing, so the sensitivity is exact.
    """

    theta: tuple[float, ...]
    omega: tuple[float, ...]
    horizon: int
    name = "blt"

    def __post_init__(self) -> None:
        if len(self.theta) != len(self.omega):
            raise PrivacyError(f"Expected as many theta as omega, got {len(self.theta)} and {len(self.omega)}.")
        if any(not 0 <= each < 1 for each in self.theta):
            raise PrivacyError(f"Expected every theta of a blt strategy in [0, 1), got {list(self.theta)}.")
        if any(not each >= 0 for each in self.omega) or not sum(self.omega) <= 1:
            raise PrivacyError(
                f"Expected omega of a blt strategy at least 0 and at most 1 in all, got {list(self.omega)}."
            )

    def column(self, rounds: int) -> Floats:
        return np.append(1.0, exponentials(self.theta, self.omega, rounds - 1))

    def inverse_column(self, rounds: int) -> Floats:
        """As sum of exponentials too: their decays are the eigenvalues of diag(θ) - √ω √ωᵀ, which is symmetric."""
        root = np.sqrt(self.omega)
        decays, directions = np.linalg.eigh(np.diag(self.theta) - np.outer(root, root))
        weights = (root @ directions) ** 2
        return np.append(1.0, -exponentials(decays, weights, rounds - 1))

    def recurrence_error(self, rounds: int) -> float:
        """A buffer is s ← θ s + y: a round rounds it twice, and errors decay with θ. Then buffers are weighed and added up."""
        from scipy.signal import lfilter

        noise = self.inverse_column(rounds)
        size, total = size_of(noise), 64.0
        for theta, omega in zip(self.theta, self.omega, strict=True):
            buffer = size_of(np.asarray(lfilter([1.0], [1.0, -theta], noise)))
            lasts = min(rounds, 1 / (1 - theta))
            total += omega * ((2 * buffer + size) * lasts + (len(self.theta) + 3) * buffer)
        return 1.01 * total

    def recurrence(self, longest: int) -> Recurrence:
        from tacit.privacy.noise.mechanisms.toeplitz import BufferedRecurrence

        return BufferedRecurrence(self)

    def describe(self) -> dict[str, Any]:
        return {
            "strategy": self.name,
            "theta": list(self.theta),
            "omega": list(self.omega),
            "horizon": self.horizon,
        }

    @classmethod
    def from_description(cls, description: Mapping[str, Any]) -> Self:
        return cls(numbers(description, "theta"), numbers(description, "omega"), horizon_of(description))


@dataclass(frozen=True)
class BandedToeplitz(Toeplitz):
    """c_0 .. c_(b-1) as given, c_0 = 1, and 0 from lag b on: b is the number of bands."""

    coefficients: tuple[float, ...]
    horizon: int
    name = "banded"

    def __post_init__(self) -> None:
        if not self.coefficients or self.coefficients[0] != 1:
            raise PrivacyError(
                f"Expected the first coefficient of a banded strategy to be 1, got {self.coefficients[:1]}."
            )

    def column(self, rounds: int) -> Floats:
        column = np.zeros(rounds)
        given = self.coefficients[:rounds]
        column[: len(given)] = given
        return column

    def inverse_column(self, rounds: int) -> Floats:
        from scipy.signal import lfilter

        impulse = np.zeros(rounds)
        impulse[0] = 1
        return np.asarray(lfilter([1.0], self.coefficients, impulse))

    def sensitivity(self, rounds: int, gap: Gap, max_participation: int, restarts: Sequence[int] = ()) -> Sensitivity:
        """Also exact without restarts for any coefficients, when bands are no wider than the gap."""
        found = super().sensitivity(rounds, gap, max_participation, restarts)
        if found.exact or restarts or len(self.coefficients) > gap.index_difference:
            return found
        # Columns a gap apart are orthogonal, and earlier ones are no shorter: again at once and as often as possible.
        squares = np.cumsum(self.column(rounds) ** 2)
        starts = np.arange(most_participations(rounds, gap, max_participation)) * gap.index_difference
        return Sensitivity(float(squares[rounds - 1 - starts].sum()) * (1 + 1e-12), True, "bands no wider than the gap")

    def recurrence_error(self, rounds: int) -> float:
        """A weighted sum of as many rounds' noise as there are bands, in any order, added to the sum."""
        weights = np.abs(self.column(rounds)[1:])
        return 1.01 * ((len(self.coefficients) + 2) * float(weights.sum()) * size_of(self.inverse_column(rounds)) + 64)

    def recurrence(self, longest: int) -> Recurrence:
        from tacit.privacy.noise.mechanisms.toeplitz import BandedRecurrence

        return BandedRecurrence(self, longest)

    def describe(self) -> dict[str, Any]:
        return {"strategy": self.name, "coefficients": list(self.coefficients), "horizon": self.horizon}

    @classmethod
    def from_description(cls, description: Mapping[str, Any]) -> Self:
        return cls(numbers(description, "coefficients"), horizon_of(description))


def exponentials(decays: ArrayLike, weights: ArrayLike, count: int) -> Floats:
    """Σ_i w_i d_i^t for t = 0 .. count - 1."""
    powers = np.asarray(decays)[:, None] ** np.arange(count)
    # Not `@`: for so thin a product BLAS wakes all cores, and waits for them on a busy machine.
    return np.asarray(np.einsum("i,it->t", np.asarray(weights), powers))


def _lower_triangular(column: Floats) -> Floats:
    lag = np.subtract.outer(np.arange(len(column)), np.arange(len(column)))
    return np.where(lag >= 0, column[np.maximum(lag, 0)], 0.0)
