"""Gaussian noise whose tail is there.

`jax.random.normal` in float32 never goes beyond about 5.4 σ, and in float64 not beyond about 8.2 σ: with a million
coordinates and thousands of rounds, what is missing outweighs a small δ. Here the radius of a Box-Muller pair is drawn
as  r = √(−2 ln u),  u = 2^−k (1 + m)/2,  with k the number of leading zeros of a string of 86 fair bits and m uniform on
53 bits. For k < 86 this is exactly the uniform law on (0, 1) up to the 53-bit grid of m, so the drawn pair differs from
the true law (before rounding) only where all 86 bits are zero:

    total variation a pair ≤ 2^−86,   largest |noise| = √(2 · 87 · ln 2) = 10.98 σ.

A run that draws P pairs is therefore within τ = P · 2^−86 of the run with perfect noise, whatever the data, and
(ε, δ) for perfect noise becomes (ε, δ + (1 + e^ε) τ) for ours:  Pr[ours(d)] ≤ Pr[perfect(d)] + τ ≤ e^ε Pr[perfect(d')] +
δ + τ ≤ e^ε (Pr[ours(d')] + τ) + δ + τ. `tail_probability` is that τ; the accountant subtracts it from δ.

Draws and the addition to the sum are in float64; the release is rounded to float32 afterwards, which is
post-processing. What remains is the 53-bit grid itself, an assumption printed with every guarantee.
"""

from __future__ import annotations

import math

import jax
import jax.numpy as jnp

TAIL_BITS = 86


def tail_probability(coordinates: int, releases: int) -> float:
    """Total-variation distance between our noise and perfect Gaussian noise over a whole run."""
    return (coordinates + 1) / 2 * releases * 2.0**-TAIL_BITS


def largest_draw() -> float:
    """The largest absolute value, in σ, that can be drawn."""
    return math.sqrt(2 * (TAIL_BITS + 1) * math.log(2))


def standard_normal(key: jax.Array, shape: tuple[int, ...]) -> jax.Array:
    """Independent N(0, 1) draws in float64. Trace it with 64-bit types enabled."""
    size = math.prod(shape)
    pairs = (size + 1) // 2
    words = jax.random.bits(key, (3, pairs), jnp.uint64)
    draws = normal_pairs(words[0], words[1], words[2])  # [2, pairs]
    return draws.reshape(-1)[:size].reshape(shape)


def normal_pairs(zeros: jax.Array, radius: jax.Array, angle: jax.Array) -> jax.Array:
    """Two N(0, 1) draws from each triple of uniform 64-bit words: [2, ...] in float64."""
    # 64 bits of `zeros`, then the 11 low bits of each other word, which their mantissas leave unused.
    unused = ((radius & 0x7FF) << 53) | ((angle & 0x7FF) << 42)
    leading = jnp.where(zeros != 0, jax.lax.clz(zeros), 64 + jnp.minimum(jax.lax.clz(unused), TAIL_BITS - 64))
    mantissa = _uniform53(radius)
    exponential = (leading.astype(jnp.float64) + 1) * math.log(2) - jnp.log1p(mantissa)
    r = jnp.sqrt(2 * exponential)
    theta = (2 * math.pi) * _uniform53(angle)
    return jnp.stack([r * jnp.cos(theta), r * jnp.sin(theta)])


def _uniform53(word: jax.Array) -> jax.Array:
    """The 53 high bits as the midpoint of their cell of (0, 1)."""
    return ((word >> 11).astype(jnp.float64) + 0.5) * 2.0**-53
