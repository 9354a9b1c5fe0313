"""Decides what float64 cannot: on which side of a half-integer c + s·G lies, with as many bits and digits as needed.

`gaussian.py` says what G is. Here U and V are known to 192 bits, then 320, and so on: each lies between two numbers.
Everything is computed as an interval that holds the true value. Decimal's logarithm and square root are correctly
rounded; the cosine is a Taylor series on an angle of at most π/4. When no half-integer lies in the interval of c +
s·G, all numbers in it round to the same integer.
"""

from __future__ import annotations

from decimal import Decimal, getcontext, localcontext
from fractions import Fraction
from functools import cache
from itertools import count

import numpy as np

from tacit.privacy.noise.randomness import NoiseStream


def rounded(centre: float, scale: float, block: int, pair: int, member: int, stream: NoiseStream) -> float:
    """⌊c + s·G⌉ for the G at this place of the stream; NaN where c is not finite."""
    if not np.isfinite(centre):
        return float("nan")
    u, v = stream.first_bits(block, pair)
    for step in count():
        further = stream.further_bits(block, pair, step)
        u, v = u << 128 | int.from_bytes(further[:16], "little"), v << 128 | int.from_bytes(further[16:], "little")
        if u == 0:
            continue  # R has no bound yet
        ends = gaussian(u, v, 64 + 128 * (step + 1), member)
        below, above = (round(Fraction(centre) + Fraction(scale) * Fraction(end)) for end in ends)
        if below == above:
            return float(below)
    raise AssertionError("unreachable")


def gaussian(u: int, v: int, known: int, member: int) -> tuple[Decimal, Decimal]:
    """The ends of an interval that holds R cos 2πV (member 0) or R sin 2πV (1).

    The first `known` bits of U and V are u > 0 and v.
    """
    with localcontext() as context:
        context.prec = known // 2
        # Each operation below has a relative error of 10^-prec; there are fewer than a thousand, on numbers below a thousand.
        room = Decimal(10) ** (10 - context.prec)
        unit = Decimal(1 << known)
        longest, shortest = (
            (-2 * (Decimal(end) / unit).ln()).sqrt() if end < 1 << known else Decimal(0) for end in (u, u + 1)
        )
        # sin x = cos(x − π/2): a quarter of a turn back.
        cosine = _cosine_of_turn((v - (member << (known - 2))) % (1 << known), known)
        slack = room + 7 / unit  # V is known to 2^-known, and 2π < 7
        ends = [radius * (cosine + sign * slack) for radius in (shortest - room, longest + room) for sign in (-1, 1)]
        return min(ends) - room, max(ends) + room


def _cosine_of_turn(v: int, bits: int) -> Decimal:
    """cos 2π v/2^bits, in the current context."""
    eighth, quarter = 1 << (bits - 3), 1 << (bits - 2)
    quadrant, remainder = divmod(v + eighth, quarter)
    phi = 2 * _pi(bits // 2) * Decimal(remainder - eighth) / Decimal(1 << bits)
    # cos, −sin, −cos, sin of the remainder.
    value = _series(phi, first=quadrant % 2)
    return -value if quadrant % 4 in (1, 2) else value


def _series(x: Decimal, first: int) -> Decimal:
    """cos x (first = 0) or sin x (1) for |x| ≤ 1, to the precision of the context."""
    term, total, power = (x if first else Decimal(1)), Decimal(0), first
    smallest = Decimal(10) ** -(getcontext().prec + 2)
    while abs(term) > smallest:
        total += term
        power += 2
        term = -term * x * x / (power * (power - 1))
    return total


@cache
def _pi(digits: int) -> Decimal:
    """π to so many digits and ten more, by Machin's formula in whole numbers."""
    unit = 10 ** (digits + 20)

    def arctangent_of_inverse(x: int) -> int:
        total, power, odd = 0, unit // x, 1
        while power:
            total += power // odd if odd % 4 == 1 else -(power // odd)
            power, odd = power // (x * x), odd + 2
        return total

    with localcontext() as context:
        context.prec = digits + 10
        return Decimal(4 * (4 * arctangent_of_inverse(5) - arctangent_of_inverse(239))) / Decimal(unit)
