"""Exact samples of the discrete Gaussian, N_Z(0, σ²)(y) ∝ exp(-y²/(2σ²)) on the integers, from secret random bits.

Canonne, Kamath and Steinke 2020, algorithms 1 to 3: a discrete Laplace draw of scale t = ⌊σ⌋ + 1, accepted with probability
exp(-(|y| - σ²/t)² / (2σ²)). A coin of probability exp(-γ) is tossed by comparing a uniform number, of which 64 bits are
drawn, with exp(-γ): in float64 if the two differ by more than the error of float64, and otherwise (once in about 2⁴³ tosses)
with as many further bits and decimal places as needed. So the samples have exactly the stated distribution if the bits are
uniform, and an array of samples costs a few passes of vector arithmetic. σ² is an integer: at the scales of devices a fraction
would have no use.

The running time depends on the sampled values, so an attacker who can measure it precisely learns a little about them.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from decimal import Decimal, localcontext
from fractions import Fraction

import numpy as np
from cryptography.hazmat.primitives.ciphers import Cipher
from cryptography.hazmat.primitives.ciphers.algorithms import AES
from cryptography.hazmat.primitives.ciphers.modes import CTR
from numpy.typing import NDArray

from tacit.errors import ProtocolError
from tacit.secagg.shamir import Entropy

# 2³⁰ keeps every product below exact in int64; float64's error on exp(-γ) stays below 2⁻⁴⁷ there.
LARGEST_VARIANCE = 1 << 30
_DOUBT = 2.0**-44
_CHUNK = 1 << 17

Integers = NDArray[np.int64]


class Bits:
    """A stream of uniform 64-bit words: AES-256-CTR under a fresh key, so that many draws need one call to the system."""

    def __init__(self, entropy: Entropy) -> None:
        self._stream = Cipher(AES(entropy(32)), CTR(bytes(16))).encryptor()

    def words(self, count: int) -> NDArray[np.uint64]:
        """The next `count` words."""
        return np.frombuffer(self._stream.update(bytes(8 * count)), "<u8")

    def integer(self, bits: int) -> int:
        """The next `bits` bits, a multiple of 64, as one number."""
        return int.from_bytes(self._stream.update(bytes(bits // 8)), "little")


def sampled(variance: int, count: int, *, entropy: Entropy) -> Integers:
    """`count` independent samples of N_Z(0, variance); a variance of 0 gives zeros."""
    if not 0 <= variance <= LARGEST_VARIANCE:
        raise ProtocolError(f"Expected an integer variance from 0 to {LARGEST_VARIANCE}, got {variance}.")
    if variance == 0:
        return np.zeros(count, np.int64)
    bits, found, missing = Bits(entropy), [], count
    while missing > 0:
        # A little more than half of all tries are accepted. Chunks are small enough for the cache.
        accepted = _tries(variance, min(_CHUNK, 2 * missing + 64), bits)[:missing]
        found.append(accepted)
        missing -= len(accepted)
    return np.concatenate(found) if found else np.zeros(0, np.int64)


def _tries(variance: int, count: int, bits: Bits) -> Integers:
    t = math.isqrt(variance) + 1
    laplace = _discrete_laplace(t, count, bits)
    # γ = (|y| t - σ²)² / (2 σ² t²)
    gap = np.abs(laplace) * t - variance
    gammas = (gap.astype(np.float64) / t) ** 2 / (2 * variance)
    return laplace[_coins(gammas, gap, lambda g: Fraction(g * g, 2 * variance * t * t), bits)]


def _discrete_laplace(t: int, count: int, bits: Bits) -> Integers:
    """Up to `count` samples with probabilities ∝ exp(-|y|/t)."""
    remainder = _below(t, count, bits)
    remainder = remainder[_coins(remainder / t, remainder, lambda u: Fraction(u, t), bits)]
    magnitude = remainder + t * _geometric(len(remainder), bits)
    negative = bits.words(len(magnitude)) & np.uint64(1) == 1
    kept = ~(negative & (magnitude == 0))  # otherwise zero would be twice as likely
    return np.where(negative, -magnitude, magnitude)[kept]


def _geometric(count: int, bits: Bits) -> Integers:
    """The number of heads before the first tails, of coins with probability 1/e of heads."""
    result, active = np.zeros(count, np.int64), np.arange(count)
    while len(active):
        ones = np.ones(len(active), np.int64)
        active = active[_coins(ones.astype(np.float64), ones, lambda one: Fraction(one), bits)]
        result[active] += 1
    return result


def _below(bound: int, count: int, bits: Bits) -> Integers:
    """Up to `count` uniform numbers below `bound`: words at or above the largest multiple of `bound` are discarded."""
    words = bits.words(count)
    last = (1 << 64) // bound * bound - 1
    return (words[words <= np.uint64(last)] % np.uint64(bound)).astype(np.int64)


def _coins(
    gammas: NDArray[np.float64], sources: Integers, exact: Callable[[int], Fraction], bits: Bits
) -> NDArray[np.bool_]:
    """Independent coins with probability exp(-γ) of heads; `exact` gives the exact γ for an entry of `sources`."""
    words = bits.words(len(gammas))
    difference = words.astype(np.float64) * 2.0**-64 - np.exp(-gammas)
    heads = difference < 0
    for place in np.flatnonzero(np.abs(difference) <= _DOUBT):
        heads[place] = _settled(int(words[place]), exact(int(sources[place])), bits)
    return heads


def _settled(word: int, gamma: Fraction, bits: Bits) -> bool:
    """Whether a uniform number whose first 64 bits are `word` is below exp(-γ), with as many places as needed."""
    if gamma == 0:
        return True
    drawn, known = word, 64
    while True:
        drawn, known = drawn << 128 | bits.integer(128), known + 128
        with localcontext() as context:
            context.prec = known // 2
            # Decimal's exp and quotients are correctly rounded: all errors are far below `room`, and so is 2^-known.
            value = (-Decimal(gamma.numerator) / Decimal(gamma.denominator)).exp()
            room = Decimal(10) ** -(known // 4)
            low, high = Decimal(drawn) / Decimal(1 << known), Decimal(drawn + 1) / Decimal(1 << known)
            if high < value - room:
                return True
            if low > value + room:
                return False
