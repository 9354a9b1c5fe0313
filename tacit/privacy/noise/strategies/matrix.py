"""A strategy given by its matrix alone. Inherit from `MatrixStrategy` to add your own.

Everything else is computed from the matrix C by general methods. They are slower and need more memory than those of Tacit's own
strategies: a round needs the noise of all earlier rounds, 8 bytes a coordinate each, and the sensitivity under several
participations is an upper bound (`accounting.correlated`). A strategy that knows better overrides `sensitivity` or
`recurrence`; both are then claims of its author.
"""

from __future__ import annotations

import dataclasses
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from tacit.errors import PrivacyError
from tacit.privacy.accounting.correlated import Sensitivity, matrix_sensitivity
from tacit.privacy.noise.strategies.base import Floats, block_diagonal, size_of, stretches
from tacit.privacy.participation.limits import Gap

if TYPE_CHECKING:
    from tacit.privacy.noise.mechanisms.recurrences import Recurrence


class MatrixStrategy(ABC):
    """A strategy that gives its matrix C for any number of rounds.

    A subclass is a frozen dataclass whose fields are numbers, texts or tuples of them.

    @tacit.register_strategy
    @dataclasses.dataclass(frozen=True)
    class Halving(tacit.MatrixStrategy):
        version = "1.0"
        ratio: float = 0.5

        @classmethod
        def fitted(cls, rounds, gap, max_participation):
            return cls()

        def matrix(self, rounds):
            lag = np.subtract.outer(np.arange(rounds), np.arange(rounds))
            return np.where(lag >= 0, self.ratio ** np.maximum(lag, 0), 0.0)

    >>> import dataclasses
    >>> import numpy as np, tacit
    >>> @dataclasses.dataclass(frozen=True)
    ... class Fresh(tacit.MatrixStrategy):
    ...     version = "1.0"
    ...     @classmethod
    ...     def fitted(cls, rounds, gap, max_participation):
    ...         return cls()
    ...     def matrix(self, rounds):
    ...         return np.eye(rounds)
    >>> Fresh().matrix(2).tolist()
    [[1.0, 0.0], [0.0, 1.0]]
    """

    #: Its import path, once it is registered.
    name = ""
    #: Change it with everything that changes the matrix.
    version = ""

    @classmethod
    @abstractmethod
    def fitted(cls, rounds: int, gap: Gap, max_participation: int) -> Self:
        """The strategy to use for so many rounds without a restart, this MinS and this MaxP."""

    @abstractmethod
    def matrix(self, rounds: int) -> Floats:
        """C of so many rounds without a restart: lower triangular, with ones on its diagonal."""

    def stretches(self, rounds: int, restarts: Sequence[int] = ()) -> list[int]:
        return stretches(rounds, restarts)

    def sensitivity(self, rounds: int, gap: Gap, max_participation: int, restarts: Sequence[int] = ()) -> Sensitivity:
        blocks = [self._checked(length) for length in self.stretches(rounds, restarts)]
        return matrix_sensitivity(block_diagonal(blocks), gap, max_participation)

    def prefix_rmse(self, rounds: int, restarts: Sequence[int] = ()) -> float:
        left = np.cumsum(self.noise_matrix(rounds, restarts), axis=0)
        return float(np.sqrt((left**2).sum(axis=1).mean()))

    def noise_matrix(self, rounds: int, restarts: Sequence[int] = ()) -> Floats:
        """C⁻¹: one draw a round."""
        blocks = [self._checked(length) for length in self.stretches(rounds, restarts)]
        return block_diagonal([np.asarray(np.linalg.inv(block), np.float64) for block in blocks])

    def recurrence_error(self, rounds: int) -> float:
        """A weighted sum of all earlier rounds' noise, in any order, added to the sum."""
        weights = np.abs(np.tril(self._checked(rounds), -1)).sum(axis=1).max()
        largest = max(size_of(row) for row in self.noise_matrix(rounds))
        return 1.01 * ((rounds + 2) * float(weights) * largest + 64)

    def recurrence(self, longest: int) -> Recurrence:
        from tacit.privacy.noise.mechanisms.dense import DenseRecurrence

        return DenseRecurrence(self._checked(longest))

    def describe(self) -> dict[str, Any]:
        fields: dict[str, Any] = {}
        for each in dataclasses.fields(self):  # type: ignore[arg-type]
            value = getattr(self, each.name)
            fields[each.name] = list(value) if isinstance(value, tuple) else value
        return {"strategy": self.name, **fields}

    @classmethod
    def from_description(cls, description: Mapping[str, Any]) -> Self:
        given = {name: value for name, value in description.items() if name != "strategy"}
        if given.keys() != {each.name for each in dataclasses.fields(cls)}:  # type: ignore[arg-type]
            raise PrivacyError(
                f"Expected the fields of the strategy {cls.name}, got {', '.join(sorted(given)) or 'none'}."
            )
        return cls(**{name: tuple(value) if isinstance(value, list) else value for name, value in given.items()})

    def _checked(self, rounds: int) -> Floats:
        C = np.asarray(self.matrix(rounds), np.float64)
        fits = C.shape == (rounds, rounds) and np.isfinite(C).all()
        if not (fits and (np.diagonal(C) == 1).all() and not np.triu(C, 1).any()):
            raise PrivacyError(
                f"Expected the strategy {self.name} to give a lower triangular matrix of {rounds} rounds with ones on its "
                "diagonal, got another one."
            )
        return C
