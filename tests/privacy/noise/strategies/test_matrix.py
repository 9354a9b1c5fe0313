"""A strategy that is given by its matrix alone has the figures of the strategy that it is."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import jax
import numpy as np
import pytest

from tacit.errors import PrivacyError
from tacit.privacy.noise.kinds import register_strategy
from tacit.privacy.noise.mechanisms import Correlated
from tacit.privacy.noise.strategies import BandedToeplitz, MatrixStrategy
from tacit.privacy.participation.limits import Gap
from tacit.testing.mechanism import SMALL, bounded, key
from tacit.testing.strategy import StrategyContract

BAND = BandedToeplitz((1.0, 0.5, 0.3, 0.1), 40)


@register_strategy
@dataclass(frozen=True)
class AsMatrix(MatrixStrategy):
    version = "1"
    coefficients: tuple[float, ...] = BAND.coefficients

    @classmethod
    def fitted(cls, rounds: int, gap: Gap, max_participation: int) -> AsMatrix:
        return cls()

    def matrix(self, rounds: int) -> np.ndarray:
        return np.linalg.inv(BandedToeplitz(self.coefficients, rounds).noise_matrix(rounds)).round(12)


class TestAsMatrix(StrategyContract):
    strategy = AsMatrix()


class Strange(AsMatrix):
    """Not a strategy: something of its matrix is wrong."""

    wrong: Any = None

    def matrix(self, rounds: int) -> np.ndarray:
        matrix = np.array(super().matrix(rounds))
        matrix[self.wrong[0]] = self.wrong[1]
        return matrix


def test_the_figures_are_those_of_the_band():
    for between, most in ((5, 3), (4, 9)):
        own, band = (each.sensitivity(20, Gap(between), most) for each in (AsMatrix(), BAND))
        assert own.exact
        assert own.squared == pytest.approx(band.squared)
    closer, band = (each.sensitivity(20, Gap(0), 4) for each in (AsMatrix(), BAND))
    assert closer.squared >= band.squared * (1 - 1e-9)
    assert AsMatrix().prefix_rmse(20, (7,)) == pytest.approx(BAND.prefix_rmse(20, (7,)))


def test_the_noise_is_that_of_the_band():
    total = bounded(0.0, SMALL)
    releases = []
    for strategy in (AsMatrix(), BAND):
        mechanism = Correlated({"update": 1.0, "weight": 1.0}, strategy, 12, (7,))
        state = mechanism.init({name: block.total for name, block in total.blocks.items()})
        found = []
        for round in range(12):
            release, state = mechanism.release(total, state, key=key(round))
            found.append(dict(release))
        releases.append(found)
    jax.tree.map(lambda one, other: np.testing.assert_allclose(one, other, atol=1e-5), *releases)


@pytest.mark.parametrize("wrong", [((2, 2), 0.9), ((0, 3), 0.1), ((3, 0), np.nan)])
def test_a_matrix_that_is_no_strategy_is_refused(wrong: Any):
    strategy = Strange()
    object.__setattr__(strategy, "wrong", wrong)
    for ask in (strategy.noise_matrix, strategy.recurrence, strategy.recurrence_error):
        with pytest.raises(PrivacyError, match="lower triangular matrix of 6 rounds with ones on its diagonal"):
            ask(6)


def test_a_description_with_other_fields_is_refused():
    with pytest.raises(PrivacyError, match="Expected the fields of the strategy"):
        AsMatrix.from_description({"strategy": AsMatrix.name, "ratio": 0.5})
