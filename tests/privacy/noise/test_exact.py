"""What float64 cannot decide is decided right, to as many places as it takes."""

from __future__ import annotations

import hashlib
from decimal import Decimal, localcontext
from fractions import Fraction

import mpmath
import numpy as np
import pytest

from tacit.privacy.noise import exact
from tacit.privacy.noise.randomness import NoiseStream, Randomness

STREAM = Randomness.from_seed(3).noise_key(round=2, attempt=0).stream(1)


def true_gaussian(u: int, v: int, bits: int, member: int) -> mpmath.mpf:
    with mpmath.workprec(2 * bits):
        turn = 2 * mpmath.pi * mpmath.mpf(v) / 2**bits
        return mpmath.sqrt(-2 * mpmath.log(mpmath.mpf(u) / 2**bits)) * (mpmath.sin if member else mpmath.cos)(turn)


def number(value: Decimal) -> mpmath.mpf:
    return mpmath.mpf(str(value))


@pytest.mark.parametrize("bits", [192, 320, 704])
def test_the_interval_holds_every_number_that_begins_with_the_bits(bits: int):
    generator = np.random.default_rng(bits)
    edge = (1 << bits) - 1
    cases = [
        (int.from_bytes(generator.bytes(bits // 8)), int.from_bytes(generator.bytes(bits // 8))) for _ in range(40)
    ]
    cases += [(u, v) for u in (1, 2, edge >> 1, edge - 1, edge) for v in (0, 1, edge >> 3, edge >> 2, edge >> 1, edge)]
    with mpmath.workprec(3 * bits):
        for u, v in cases:
            for member in (0, 1):
                low, high = exact.gaussian(u, v, bits, member)
                for more_u, more_v in ((1, 1), (1, 255), (255, 1), (255, 255)):
                    inside = true_gaussian(u << 8 | more_u, v << 8 | more_v, bits + 8, member)
                    assert number(low) <= inside <= number(high)
                if u >> (bits - 2) in (1, 2):  # where R is neither steep nor flat, the interval is as short as the cell
                    assert number(high) - number(low) < mpmath.mpf(2) ** (5 - bits)


class KnownBits(NoiseStream):
    """A stream whose bits the test has chosen."""

    chosen: tuple[int, int, int]  # U, V and how many bits of them

    def first_bits(self, counter: int, pair: int) -> tuple[int, int]:
        u, v, bits = self.chosen
        return u >> (bits - 64), v >> (bits - 64)

    def further_bits(self, counter: int, pair: int, step: int) -> bytes:
        u, v, bits = self.chosen
        left = bits - 64 - 128 * (step + 1)
        if left < 0:
            return hashlib.sha256(bytes([step])).digest()
        return b"".join((each >> left & (1 << 128) - 1).to_bytes(16, "little") for each in (u, v))


@pytest.mark.parametrize("distance", [1e-12, 1e-30, 1e-60, 1e-100])
@pytest.mark.parametrize("member", [0, 1])
def test_a_number_beside_a_half_integer_goes_to_its_side(distance: float, member: int):
    """Float64 cannot tell them apart; s·G itself is put there, by choosing the angle to 576 bits."""
    bits, scale = 576, 1.5 * 2**20
    u = int.from_bytes(np.random.default_rng(1).bytes(bits // 8)) >> 1
    with mpmath.workprec(4 * bits):
        radius = mpmath.sqrt(-2 * mpmath.log(mpmath.mpf(u) / 2**bits))
        for sign in (-1, 1):
            wanted = (mpmath.mpf(12345) + 0.5 + sign * mpmath.mpf(distance)) / scale / radius
            turn = (mpmath.asin if member else mpmath.acos)(wanted) / (2 * mpmath.pi)
            stream = KnownBits(STREAM.source, 0)
            object.__setattr__(stream, "chosen", (u, int(turn * 2**bits), bits))
            assert exact.rounded(0.0, scale, 0, 0, member, stream) == (12346 if sign > 0 else 12345)
            assert exact.rounded(7.0, scale, 0, 0, member, stream) == (12353 if sign > 0 else 12352)


def test_a_run_of_zeros_takes_further_bits_and_goes_far_out():
    """No tail is cut off: with U below 2⁻²⁰⁰ the radius is beyond 16.6."""
    stream = KnownBits(STREAM.source, 0)
    object.__setattr__(stream, "chosen", (1 << (320 - 201), 0, 320))
    found = exact.rounded(0.0, 2.0**20, 0, 0, 0, stream)
    with localcontext() as context:
        context.prec = 60
        expected = Fraction((2 * 201 * Decimal(2).ln()).sqrt()) * 2**20
    assert abs(found - expected) <= Fraction(1, 2)


def test_a_centre_that_is_not_finite_stays_so():
    assert np.isnan(exact.rounded(float("inf"), 1.0, 0, 0, 0, STREAM))


def test_further_bits_are_uniform_and_of_one_place_only():
    places = [(block, pair, step) for block in (0, 1, 2**32 - 1) for pair in range(4) for step in range(3)]
    drawn = [STREAM.further_bits(*place) for place in places]
    others = [STREAM.source.stream(2).further_bits(*place) for place in places]
    assert len(set(drawn + others)) == 2 * len(places)
    assert abs(np.unpackbits(np.frombuffer(b"".join(drawn), np.uint8)).mean() - 0.5) < 0.03
