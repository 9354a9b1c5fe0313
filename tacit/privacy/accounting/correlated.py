"""Noise correlated between rounds by a given strategy: the sensitivity under MinS and MaxP.

A matrix mechanism releases C x + z·noise for the T rounds' sums x (Denisov et al. 2022): C has a column for each round.
Users who take part in rounds P, with any updates of norm 1 or less, move it by at most √(Σ |Xᵢⱼ| over i, j in P), X = CᵀC.
The largest such sum over admissible P bounds the squared sensitivity, and is equal to it where X has no negative entry
or only its diagonal counts. It is known

- exactly for non-negative, non-increasing Toeplitz strategies: the worst user comes at once and then as often as the gap
  allows (Kalinin and Lampert 2024, Theorem 2);
- exactly where rounds a gap apart do not share noise, so that only the diagonal of X counts: bands no wider than the gap
  (Choquette-Choo et al. 2023);
- otherwise by an upper bound, which lets every participation choose the others' rounds for itself.

ρ is `zcdp.gaussian_rho` of it. Floating-point sums may fall short, so all are raised by more than their rounding.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tacit.privacy.participation.limits import Gap, most_participations

Floats = NDArray[np.float64]
# Above the relative rounding of sums of thousands of products.
_ROUNDING = 1e-12


@dataclass(frozen=True)
class Sensitivity:
    """The squared L2 sensitivity in units of the clip: the exact one, or a bound above it, and how it was found."""

    squared: float
    exact: bool
    how: str


def toeplitz_sensitivity(coefficients: Sequence[float], rounds: int, gap: Gap, max_participation: int) -> Sensitivity:
    """Of the lower-triangular Toeplitz strategy over `rounds` rounds whose first column begins with `coefficients`."""
    column = np.zeros(rounds)
    given = np.asarray(coefficients, np.float64)[:rounds]
    column[: len(given)] = given
    if (column >= 0).all() and (np.diff(column) <= 0).all():
        total = np.zeros(rounds)
        for participation in range(most_participations(rounds, gap, max_participation)):
            first = participation * gap.index_difference
            total[first:] += column[: rounds - first]
        return Sensitivity(_raised(np.sum(total**2)), True, "non-negative, non-increasing Toeplitz")
    shifted = np.subtract.outer(np.arange(rounds), np.arange(rounds))
    strategy = np.where(shifted >= 0, column[np.maximum(shifted, 0)], 0.0)
    return matrix_sensitivity(strategy, gap, max_participation)


def matrix_sensitivity(strategy: ArrayLike, gap: Gap, max_participation: int) -> Sensitivity:
    """Of any strategy with a column for each round."""
    C = np.asarray(strategy, np.float64)
    X = np.abs(C.T @ C)  # [rounds, rounds]
    rounds, d = len(X), gap.index_difference
    most = most_participations(rounds, gap, max_participation)
    if most == 1 or not np.triu(X, d).any():
        squared = _raised(_most_over_patterns(np.diagonal(X)[:, None], d, most)[0])
        return Sensitivity(squared, True, "one participation" if most == 1 else "bands no wider than the gap")
    # Row i of X over its best pattern, and then the best pattern of those.
    rows = _most_over_patterns(X, d, most)
    squared = _raised(_most_over_patterns(rows[:, None], d, most)[0])
    return Sensitivity(squared, False, "upper bound from the absolute values of CᵀC")


def _raised(squared: float | np.float64) -> float:
    return float(squared) * (1 + _ROUNDING)


def _most_over_patterns(values: Floats, d: int, most: int) -> Floats:
    """For each column of non-negative `values` [rounds, columns], the largest sum over admissible patterns of rounds."""
    rounds, columns = values.shape
    fewer = np.zeros((rounds + 1, columns))  # [t]: the best with so many participations or fewer, all before round t
    for _ in range(most):
        best = np.zeros_like(fewer)
        for t in range(rounds):
            np.maximum(best[t], fewer[max(0, t + 1 - d)] + values[t], out=best[t + 1])
        fewer = best
    return np.asarray(fewer[rounds])
