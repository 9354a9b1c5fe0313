"""Float64's error in the recurrence of correlated noise is within what `recurrence_error` promises, against exact fractions."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from tacit.errors import PrivacyError
from tacit.privacy.gate.rounding import HEADROOM, MOST_USERS, NOISE_SHARE, SUM_SHARE, correlated_noise_error
from tacit.privacy.noise.mechanisms import Correlated
from tacit.privacy.noise.mechanisms.correlated import FINE
from tacit.privacy.noise.strategies import BandedToeplitz, BufferedToeplitz, MatrixStrategy, Strategy, Tree
from tacit.privacy.participation.limits import Gap

ROUNDS, SIZE, SCALE = 48, 9, 1.37 * 2**20
BLT = BufferedToeplitz((0.31, 0.93, 0.997), (0.33, 0.21, 0.07), ROUNDS)
BAND = BandedToeplitz(tuple(1 / (1 + lag) ** 0.5 for lag in range(30)), ROUNDS)


@dataclass(frozen=True)
class Dense(MatrixStrategy):
    """Not Toeplitz: later rounds take back more."""

    name = "dense"

    @classmethod
    def fitted(cls, rounds: int, gap: Gap, max_participation: int) -> Dense:
        return cls()

    def matrix(self, rounds: int) -> np.ndarray:
        row, column = np.arange(rounds)[:, None], np.arange(rounds)[None, :]
        return np.where(
            row > column, 0.7 / np.maximum(1 + row - column, 1) ** 0.5 * (row + 1) / (row + 3), np.eye(rounds)
        )


def exact_known(strategy: Strategy, noise: list[list[Fraction]], coordinate: int) -> Fraction:
    """What the noise of earlier rounds says about the next, in fractions."""
    position = len(noise)
    column = [each[coordinate] for each in noise]
    if isinstance(strategy, Tree):
        known, begin, t = Fraction(0), position, position + 1
        replaced, height = Fraction(0), 0
        while t % 2 == 0:
            left = sum(column[begin - 2**height : begin], Fraction(0))
            height += 1
            own = 1 / (2 - Fraction(1, 2**height))
            known, replaced = (1 - own) * (left + known), replaced + left
            begin, t = begin - 2 ** (height - 1), t // 2
        return known - replaced
    if isinstance(strategy, BufferedToeplitz):
        pairs = [
            (Fraction(theta), Fraction(omega)) for theta, omega in zip(strategy.theta, strategy.omega, strict=True)
        ]
        return -sum(
            (omega * theta**lag * column[-1 - lag] for lag in range(position) for theta, omega in pairs), Fraction(0)
        )
    if isinstance(strategy, Dense):
        row = strategy.matrix(ROUNDS)[position]
        return -sum((Fraction(float(row[j])) * column[j] for j in range(position)), Fraction(0))
    assert isinstance(strategy, BandedToeplitz)
    lags = range(1, min(len(strategy.coefficients), position + 1))
    return -sum((Fraction(strategy.coefficients[lag]) * column[-lag] for lag in lags), Fraction(0))


@pytest.mark.parametrize("strategy", [Tree(), BLT, BAND, Dense()], ids=lambda each: each.name)
def test_errors_are_within_the_bound(strategy: Strategy):
    generator = np.random.default_rng(4)
    recurrence = Correlated({"x": 1.0}, strategy, ROUNDS).recurrence
    promised = strategy.recurrence_error(ROUNDS) - 64  # which are for the sum, not for the recurrence
    largest, noise = 0.0, list[list[Fraction]]()
    with jax.enable_x64(True):
        state = recurrence.init(jnp.zeros(SIZE))
        for position in range(ROUNDS):
            known, spread = recurrence.ahead(state, position)
            drawn = np.asarray(known) + spread * SCALE * generator.standard_normal(SIZE)
            realised = np.round(drawn / FINE) * FINE
            errors = [
                float(Fraction(float(each)) - exact_known(strategy, noise, place))
                for place, each in enumerate(np.asarray(known))
            ]
            largest = max(largest, float(np.linalg.norm(errors)) / (spread * SCALE))
            noise.append([Fraction(float(each)) for each in realised])
            state = recurrence.after(state, jnp.asarray(realised), position)
    allowed = promised * 2.0**-53 * (math.sqrt(SIZE) + 16)
    assert 0 < largest < allowed
    assert largest > allowed / 10_000  # the bound is a bound, not a guess that is anything


def test_sums_and_noise_have_their_shares_of_the_headroom():
    assert HEADROOM + SUM_SHARE + NOISE_SHARE == 1
    assert 2 * MOST_USERS**2 * 2.0**-53 <= SUM_SHARE
    # A large run as in practice: two thousand rounds of a model of ten million.
    for strategy in (Tree(), BufferedToeplitz((0.3, 0.99), (0.3, 0.1), 2000)):
        error = correlated_noise_error(
            strategy.recurrence_error(2000), rounds=2000, coordinates=10**7, blocks=3, noise_multiplier=8.0
        )
        assert error < NOISE_SHARE


def test_a_run_whose_noise_float64_cannot_carry_is_refused_before_its_first_round():
    mechanism = Correlated({"x": 1e6}, Tree(), 1000)
    with pytest.raises(PrivacyError, match=r"float64 errors in tree noise to move 1000 rounds of 1000000 coordinates"):
        mechanism.init({"x": jax.ShapeDtypeStruct((1_000_000,), np.float64)})
    # Without noise nothing is claimed, and nothing is refused.
    assert Correlated({"x": 0.0}, Tree(), 1000).init({"x": np.zeros(3)})["round"] == 0
