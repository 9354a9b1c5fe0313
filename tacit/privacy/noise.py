"""Gaussian noise whose tail is there.

`jax.random.normal` in float32 never goes beyond about 5.4 σ, and in float64 not beyond about 8.2 σ: with a million
coordinates and thousands of rounds, what is missing outweighs a small δ. Here the radius of a Box-Muller pair is drawn
as  r = √(−2 ln u),  u = 2^−k (1 + m)/2,  with k the number of leading zeros of a string of 86 fair bits and m uniform on
53 bits. For k < 86 this is the uniform law on (0, 1) up to the grid of m; `tacit.privacy.tail` says what the
rest costs. The largest |noise| is √(2 · 87 · ln 2) = 10.98 σ.

Draws and the addition to the sum are in float64. The result is rounded to a grid of about σ · 2⁻²⁰ before it becomes
float32, both post-processing, so that the low bits of a coordinate to which hardly anybody contributed do not show the
float64 grid of the noise. That 53-bit draws stand for real ones remains an assumption, stated with every guarantee.
"""

from __future__ import annotations

import math

import jax
import jax.numpy as jnp

from tacit.privacy.tail import TAIL_BITS


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
    r = jnp.sqrt(2 * jnp.maximum(exponential, 0))  # log1p may round above ln 2
    theta = (2 * math.pi) * _uniform53(angle)
    return jnp.stack([r * jnp.cos(theta), r * jnp.sin(theta)])


def grid_step(standard_deviation: float) -> float:
    """The exact power of two near σ · 2⁻²⁰ that releases are rounded to multiples of."""
    return 2.0 ** (math.floor(math.log2(standard_deviation)) - 20)


def _uniform53(word: jax.Array) -> jax.Array:
    """The 53 high bits as a number in (0, 1], near the midpoint of their cell."""
    return ((word >> 11).astype(jnp.float64) + 0.5) * 2.0**-53
