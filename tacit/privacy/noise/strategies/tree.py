"""Binary trees with the online Honaker estimator (Kairouz et al. 2021, appendix B; Honaker 2015).

Every complete node, an aligned block of 2^h rounds, gets noise of its own. That is the matrix mechanism whose C has a row for
each node; its sensitivity is `accounting.tree`'s. The sum of a node is estimated from everything below it: its own noisy
value and the estimates of its two halves, weighted by their precision. With v_h the variance of the estimate,

    1/v_h = 1 + 1/(2 v_(h-1)),  v_0 = 1,  so that  v_h = 1 / (2 - 2^-h),

the node's own value weighs v_h and the sum of its halves 1 - v_h. A prefix of t rounds is the sum of one node for each binary
digit of t. All of it is a function of the noisy nodes, so it costs no privacy.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import ArrayLike

from tacit.privacy.accounting.correlated import Sensitivity
from tacit.privacy.accounting.tree import sensitivity_squared
from tacit.privacy.noise.strategies.base import Floats, block_diagonal, rmse_over, stretches
from tacit.privacy.participation.limits import Gap

if TYPE_CHECKING:
    from tacit.privacy.noise.mechanisms.recurrences import Recurrence


@dataclass(frozen=True)
class Tree:
    """The binary tree. There is nothing to choose: it serves any number of rounds."""

    @property
    def name(self) -> str:
        return "tree"

    def stretches(self, rounds: int, restarts: Sequence[int] = ()) -> list[int]:
        return stretches(rounds, restarts)

    def sensitivity(self, rounds: int, gap: Gap, max_participation: int, restarts: Sequence[int] = ()) -> Sensitivity:
        """Exact: the largest sum over nodes of squared participations, the gap holding across restarts too."""
        stretches(rounds, restarts)
        squared = sensitivity_squared(rounds, gap, max_participation, restarts)
        return Sensitivity(float(squared), True, "binary tree")

    def prefix_rmse(self, rounds: int, restarts: Sequence[int] = ()) -> float:
        lengths = stretches(rounds, restarts)
        prefix = np.arange(1, max(lengths) + 1)
        heights = np.arange(max(lengths).bit_length())
        nodes = (prefix[:, None] >> heights) & 1  # [rounds, heights]
        return rmse_over(lengths, nodes @ estimate_variance(heights))

    def noise_matrix(self, rounds: int, restarts: Sequence[int] = ()) -> Floats:
        """Columns are nodes in the order they are completed, the smaller first."""
        return block_diagonal([_stretch_matrix(length) for length in stretches(rounds, restarts)])

    def recurrence_error(self, rounds: int) -> float:
        """Estimates are sums of noise, which are exact; a round adds up one a height, with weights between -1 and 0.

        An estimate has a variance of at most 1 and combines at most `rounds` draws, none with more weight than 1. For
        each height: a weight with 3 roundings a height, a product and a sum that is rounded once a height. What is
        drawn new has a deviation above ½.
        """
        heights = rounds.bit_length()
        return 2 * 1.01 * ((4 * heights + 3) * heights * (1 + 2.0**-19 * rounds) + 64)

    def recurrence(self, longest: int) -> Recurrence:
        from tacit.privacy.noise.mechanisms.tree import TreeRecurrence

        return TreeRecurrence(longest)

    def describe(self) -> dict[str, Any]:
        return {"strategy": self.name}

    @classmethod
    def from_description(cls, description: Mapping[str, Any]) -> Self:
        return cls()


def estimate_variance(height: ArrayLike) -> Floats:
    """v_h: the variance of the estimate of a node, and the weight of its own noisy value in it."""
    return np.asarray(1 / (2 - 2.0 ** -np.asarray(height, np.float64)))


def _stretch_matrix(rounds: int) -> Floats:
    draws = sum(nodes_completed(t) for t in range(1, rounds + 1))
    prefixes = np.zeros((rounds + 1, draws))
    standing: dict[int, Floats] = {}  # height → the estimate of the node, as a combination of draws
    drawn = 0
    for t in range(1, rounds + 1):
        estimate = np.zeros(draws)
        for height in range(nodes_completed(t)):
            weight = float(estimate_variance(height))
            if height:
                estimate = (1 - weight) * (standing.pop(height - 1) + estimate)
            estimate[drawn] = weight
            drawn += 1
        standing[nodes_completed(t) - 1] = estimate
        prefixes[t] = sum(standing.values())
    return np.diff(prefixes, axis=0)


def nodes_completed(t: int) -> int:
    """How many nodes the t-th round (counting from 1) completes: one more than t has trailing zeros."""
    return (t & -t).bit_length()
