"""Noise of any strategy, one round at a time: y_t = z_t - Σ_(j<t) C[t, j] y_j. The state is the noise of all earlier rounds."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from tacit.privacy.noise.mechanisms.toeplitz import minus_weighted, replaced, stacked_zeros
from tacit.privacy.noise.strategies.base import Floats


@dataclass(frozen=True, eq=False)
class DenseRecurrence:
    """Noise of the strategy with this matrix, for as many rounds as it has."""

    matrix: Floats

    def __eq__(self, other: object) -> bool:
        return type(other) is DenseRecurrence and np.array_equal(self.matrix, other.matrix)

    def __hash__(self) -> int:
        return hash(self.matrix.tobytes())

    def init(self, template: Any) -> Any:
        return stacked_zeros(template, len(self.matrix))

    def ahead(self, state: Any, position: int) -> tuple[Any, float]:
        weights = np.where(np.arange(len(self.matrix)) < position, self.matrix[position], 0.0)
        return minus_weighted(state, weights), 1.0

    def after(self, state: Any, noise: Any, position: int) -> Any:
        return replaced(state, noise, position)
