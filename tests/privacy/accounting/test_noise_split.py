"""Adaptive clipping's noise split: Gboard's formula, both directions, and never more than was asked for."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tacit.errors import PrivacyError
from tacit.privacy.accounting.noise_split import (
    BIT_BOUND,
    bit_noise,
    bit_noise_multiplier,
    overall_noise_multiplier,
    update_noise_multiplier,
)
from tacit.privacy.accounting.sampled_gaussian import combined_noise_multiplier

NOISE = st.floats(1e-3, 1e3)
FACTOR = st.floats(1 + 1e-9, 1e6)


def test_it_is_the_formula_of_the_theorem() -> None:
    z, sigma_b = 7.0, 325.0  # report goal 6500 and a bit noise of a twentieth of it
    assert update_noise_multiplier(z, sigma_b) == pytest.approx((z**-2 - (2 * sigma_b) ** -2) ** -0.5, rel=1e-12)
    assert update_noise_multiplier(3.0, 2.5) == pytest.approx(3.75)  # z_b = 5: a triangle of 3, 4 and 5
    assert bit_noise(3.0, 3.75) == pytest.approx(2.5)
    assert overall_noise_multiplier(3.75, 2.5) == pytest.approx(3.0)


def test_a_bit_enters_with_half_its_range() -> None:
    """The sum of b - 1/2 moves by 1/2 whichever the bit, so the noise counts twice."""
    assert {abs(bit - 0.5) for bit in (0, 1)} == {BIT_BOUND}
    assert bit_noise_multiplier(3.0) == 6.0


@given(NOISE, FACTOR)
def test_both_directions_agree_with_the_sum_over_blocks(z: float, factor: float) -> None:
    sigma_b = z * factor * BIT_BOUND
    z_update = update_noise_multiplier(z, sigma_b)
    together = combined_noise_multiplier((z_update, 2 * sigma_b))
    assert overall_noise_multiplier(z_update, sigma_b) == together
    assert z <= together <= z * (1 + 1e-12)
    z_back = bit_noise_multiplier(bit_noise(z, z * factor))
    assert z <= combined_noise_multiplier((z * factor, z_back)) <= z * (1 + 1e-12)


def test_two_blocks_cost_what_one_of_the_overall_noise_does() -> None:
    """The release of a user with the largest update and a bit, in units of each block's noise, has norm 1/z."""
    z, clip, sigma_b = 2.0, 0.7, 3.0
    z_update = update_noise_multiplier(z, sigma_b)
    share = np.array([clip / (z_update * clip), BIT_BOUND / sigma_b])
    assert np.linalg.norm(share) == pytest.approx(1 / z)


@pytest.mark.parametrize(
    ("z", "sigma_b"), [(1.0, 0.5), (1.0, 0.1), (0.0, 1.0), (-1.0, 1.0), (math.nan, 1.0), (1.0, math.nan)]
)
def test_without_a_split_nothing_is_returned(z: float, sigma_b: float) -> None:
    with pytest.raises(PrivacyError, match="bit noise above half"):
        update_noise_multiplier(z, sigma_b)
    with pytest.raises(PrivacyError, match="to be above the round's"):
        bit_noise(z, 2 * sigma_b)


def test_limits() -> None:
    for z in map(float, np.linspace(1, 2, 99)):  # the nearest numbers there are, where the sum of squares rounds most
        next_to_it = math.nextafter(z, 3) * BIT_BOUND
        assert overall_noise_multiplier(update_noise_multiplier(z, next_to_it), next_to_it) >= z
    assert update_noise_multiplier(1.5, math.inf) == 1.5  # no bits are released: nothing is taken from the updates
    assert overall_noise_multiplier(1.5, 0.0) == 0  # bits without noise cost everything
