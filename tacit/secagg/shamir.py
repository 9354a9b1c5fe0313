"""Shamir's secret sharing: any `threshold` shares give the secret back, and fewer reveal nothing about it.

The field is the integers modulo P = 2²⁵⁶ - 189, the largest prime below 2²⁵⁶. A share is then exactly as long as a secret,
32 bytes, however many devices take part. A clamped X25519 key is below 2²⁵⁵ and so always an element; other secrets are
drawn with `random_secret`.

The share of holder j is the value at x = j + 1 of a random polynomial of degree threshold - 1 whose value at 0 is the
secret.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache

from tacit.errors import ProtocolError

P = 2**256 - 189
SECRET_BYTES = 32

# Returns this many unpredictable bytes; `os.urandom` except in tests.
Entropy = Callable[[int], bytes]


def random_secret(entropy: Entropy) -> bytes:
    """A uniform element of the field (to within 2⁻¹²⁸), as 32 bytes."""
    return _random_element(entropy).to_bytes(SECRET_BYTES, "little")


def split(secret: bytes, holders: Sequence[int], threshold: int, *, entropy: Entropy) -> dict[int, bytes]:
    """One share a holder; holders are distinct numbers ≥ 0. Fewer than `threshold` shares are independent of the secret."""
    value = int.from_bytes(secret, "little")
    if not 1 <= threshold <= len(holders) or value >= P:
        raise ProtocolError(
            f"Expected a secret below 2²⁵⁶ - 189 and 1 ≤ threshold ≤ {len(holders)} holders, got threshold {threshold}."
        )
    coefficients = [_random_element(entropy) for _ in range(threshold - 1)]
    return {holder: _evaluate(value, coefficients, holder + 1).to_bytes(SECRET_BYTES, "little") for holder in holders}


def combine(shares: Mapping[int, bytes], threshold: int) -> bytes:
    """The secret, from the shares of the `threshold` holders with the lowest numbers.

    A wrong share gives a wrong secret without an error, so the caller must compare it with a commitment to the secret.
    """
    if len(shares) < threshold:
        raise ProtocolError(f"Expected at least {threshold} shares, got {len(shares)}.")
    holders = tuple(sorted(shares)[:threshold])
    values = [int.from_bytes(shares[holder], "little") for holder in holders]
    if any(value >= P for value in values):
        raise ProtocolError("A share is not below 2²⁵⁶ - 189.")
    weights = _lagrange_at_zero(holders)
    total = sum(weight * value for weight, value in zip(weights, values, strict=True)) % P
    return total.to_bytes(SECRET_BYTES, "little")


def _random_element(entropy: Entropy) -> int:
    return int.from_bytes(entropy(48), "little") % P  # 128 bits more than P has: the bias is below 2⁻¹²⁸


def _evaluate(constant: int, coefficients: Sequence[int], x: int) -> int:
    value = 0
    for coefficient in reversed(coefficients):
        value = (value + coefficient) * x % P
    return (value + constant) % P


# Neighbours on a ring share most of their neighbours; a complete graph shares all of them.
@lru_cache(maxsize=256)
def _lagrange_at_zero(holders: tuple[int, ...]) -> tuple[int, ...]:
    """Π_{m ≠ j} x_m / (x_m - x_j) for each holder j."""
    points = [holder + 1 for holder in holders]
    numerators, denominators = [], []
    for j, x in enumerate(points):
        numerator = denominator = 1
        for m, other in enumerate(points):
            if m != j:
                numerator = numerator * other % P
                denominator = denominator * (other - x) % P
        numerators.append(numerator)
        denominators.append(denominator)
    return tuple(n * pow(d, -1, P) % P for n, d in zip(numerators, denominators, strict=True))
