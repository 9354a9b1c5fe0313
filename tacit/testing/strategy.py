"""What every strategy promises: its figures are those of its matrix, and the noise that it makes has this law."""

from __future__ import annotations

import json
from collections.abc import Iterator
from itertools import combinations, pairwise

import numpy as np
import pytest

from tacit.errors import PrivacyError
from tacit.privacy.noise.strategies import Strategy, from_description
from tacit.privacy.participation.limits import Gap
from tacit.testing.correlated import CorrelatedContract


def patterns(rounds: int, gap: Gap, most: int) -> Iterator[tuple[int, ...]]:
    """Every way to take part at most so often, at least a gap apart."""
    for count in range(1, most + 1):
        for pattern in combinations(range(rounds), count):
            if all(b - a >= gap.index_difference for a, b in pairwise(pattern)):
                yield pattern


def by_definition(strategy: Strategy, rounds: int, gap: Gap, most: int, restarts: tuple[int, ...] = ()) -> float:
    """The largest squared change: one-dimensional updates of size 1 and either sign are the worst.

    The change of round t's sum is seen through the noise N of all rounds, whose covariance is N Nᵀ.
    """
    noise = strategy.noise_matrix(rounds, restarts)
    precision = np.linalg.inv(noise @ noise.T)
    largest = 0.0
    for pattern in patterns(rounds, gap, most):
        chosen = precision[np.ix_(pattern, pattern)]
        signs = np.array(np.meshgrid(*[[1, -1]] * len(pattern))).reshape(len(pattern), -1)
        largest = max(largest, float(np.einsum("is,ij,js->s", signs, chosen, signs).max()))
    return largest


class StrategyContract(CorrelatedContract):
    """Inherit, and say which `strategy` serves 40 rounds."""

    def test_its_noise_matrix_is_square_or_wider_and_lower_triangular(self) -> None:
        noise = self.strategy.noise_matrix(9, (4,))
        assert noise.shape[0] == 9
        assert noise.shape[1] >= 9
        assert np.isfinite(noise).all()
        assert not noise[:4, -1].any()  # no round before a restart holds the last draw
        assert not noise[4:, 0].any()  # and none after it the first

    def test_its_sensitivity_is_the_largest_change_or_more(self) -> None:
        for rounds, between, most in ((1, 0, 1), (7, 0, 3), (9, 1, 4), (10, 3, 2), (10, 5, 9)):
            for restarts in {(), tuple({rounds // 2} - {0}), (1, 4) if rounds > 4 else ()}:
                gap = Gap(between)
                found = self.strategy.sensitivity(rounds, gap, most, restarts)
                largest = by_definition(self.strategy, rounds, gap, most, restarts)
                assert found.squared >= largest * (1 - 1e-9)
                assert found.how

    @pytest.mark.parametrize(("rounds", "restarts"), [(1, ()), (2, ()), (13, ()), (16, (5,)), (30, (1, 8, 23))])
    def test_its_prefix_error_is_that_of_its_matrix(self, rounds: int, restarts: tuple[int, ...]) -> None:
        left = np.cumsum(self.strategy.noise_matrix(rounds, restarts), axis=0)
        expected = np.sqrt((left**2).sum(axis=1).mean())
        assert self.strategy.prefix_rmse(rounds, restarts) == pytest.approx(expected, rel=1e-10)

    def test_its_description_gives_it_back_to_the_last_bit(self) -> None:
        described = json.loads(json.dumps(self.strategy.describe()))
        assert described["strategy"] == self.strategy.name
        again = from_description(described)
        assert again == self.strategy
        np.testing.assert_array_equal(again.noise_matrix(20), self.strategy.noise_matrix(20))

    @pytest.mark.parametrize("restarts", [(0,), (10,), (4, 4), (5, 2)])
    def test_restarts_out_of_place_are_refused(self, restarts: tuple[int, ...]) -> None:
        with pytest.raises(PrivacyError, match="within rounds 1 to 9"):
            self.strategy.stretches(10, restarts)
        with pytest.raises(PrivacyError, match="within rounds 1 to 9"):
            self.strategy.sensitivity(10, Gap(1), 2, restarts)

    def test_its_errors_are_stated(self) -> None:
        assert 64 <= self.strategy.recurrence_error(1) <= self.strategy.recurrence_error(40) < 1e9
