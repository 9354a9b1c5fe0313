"""Gaussian noise, rounded to a grid exactly: n = ⌊c + s·G⌉ for a float64 number c and G a real N(0, 1) variable.

A release is a multiple of a step near σ · 2⁻²⁰ (`grid_step`). With c = x / step and s = σ / step, n · step is the release of
the ideal Gaussian mechanism x + σ·G, rounded to the grid; rounding is post-processing. So nothing is charged for floating
point if n is *exactly* that integer, for every float64 number c, and this file makes it so.

**The real number G.** A pair of coordinates takes 128 bits of key stream: w and v, 64 bits each. They are the first bits of two
uniform real numbers U = (w + w')/2⁶⁴ and V = (v + v')/2⁶⁴, whose further bits w' and v' exist too, under a key of their own
(`randomness.NoiseStream.further_bits`). Box-Muller makes two independent N(0, 1) variables of them:

    R = √(−2 ln U),   G₁ = R cos 2πV,   G₂ = R sin 2πV.

**Most coordinates.** Float64 gives g with |g − G| ≤ tol(r, w), whatever the further bits are. Then t = f + s·g with f
= c − ⌊c⌉, which is exact, and where t lies further than s · tol from every half-integer, ⌊t⌉ is the answer.
Otherwise, once in about 2²⁴ coordinates, the result is NaN, and `exact.rounded` decides it with as many further bits
and decimal places as needed. So the tail of the noise is complete.

**The bound.** Only IEEE float64 addition, multiplication, division and square root are used, each with a relative
error of at most ν = 2⁻⁵³ (a fused multiply-add makes fewer errors); logarithm, sine and cosine are polynomials below.
First-order terms:

- u = (fl(w) + ½)/2⁶⁴ and U differ by two roundings and by half a cell: |ln u − ln U| ≤ 2ν + 2⁻⁶⁴/u for w ≥ 8.
- E = −ln u = −(e ln 2 + ln m), m in [√½, √2): ln m = 2 artanh z, z = (m − 1)/(m + 1), |z| ≤ 0.1716. m − 1 is exact; z
  has relative error 2ν; ten terms of the series leave 2.4e-17; Horner's rule in z² ≤ 0.03 adds 2ν: 5ν in all. If e =
  0 this is the relative error of E. If not, E ≥ |e| ln 2 / 2; e ln 2 has 2ν, so E has (2·2 + 5 + 1)ν = 10ν < 2⁻⁴⁹.
- r = √(2E): |r − R| ≤ 2 |E − (−ln U)|/r + 2ν r ≤ (2⁻⁴⁹ + 2ν) r + (4ν + 2⁻⁶³/u)/r.
- 2πV = quadrant · π/2 + φ, |φ| ≤ π/4; the integer remainder is exact, φ has 3ν relative and 2π · 2⁻⁶⁴ from the cell,
  3ν in all. Eight terms of the sine leave 5e-17 < ν/2, nine of the cosine 2e-18. Horner's rule adds 3ν to either. cos
  and sin are off by at most 7ν < 2⁻⁵⁰.
- Together |g − G| ≤ (2⁻⁴⁹ + 2⁻⁵⁰ + 4ν) r + (2⁻⁵¹ + 2⁻⁶³/u)/r.

tol(r, w) = 2⁻⁴⁶ r + (2⁻⁴⁹ + 2⁻⁶¹/u)/r is at least four times that (higher-order terms, and the roundings of s·g and
of f + s·g, which are below 2⁻⁵¹ s·r + 2⁻⁵³, are within the rest and within the 2⁻⁵⁰ that is added to s · tol). Where
w < 8 or r = 0, tol exceeds any distance. The tests compare g with G to 60 digits.

The results are integers with exactly this distribution, and the same on every device whose float64 follows IEEE 754.
"""

from __future__ import annotations

import math
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from tacit.errors import PrivacyError
from tacit.privacy.noise import exact
from tacit.privacy.noise.chacha import key_stream
from tacit.privacy.noise.randomness import NoiseStream

# A cipher block of 512 bits makes four pairs of coordinates; its counter has 32 bits.
PAIRS_PER_BLOCK = 4
_COORDINATES_PER_BLOCK = 2 * PAIRS_PER_BLOCK
LARGEST_SIZE = _COORDINATES_PER_BLOCK << 32
LANES = 1024


def grid_step(standard_deviation: float) -> float:
    """The exact power of two near σ · 2⁻²⁰ that releases are rounded to multiples of."""
    return 2.0 ** (math.floor(math.log2(standard_deviation)) - 20)


def rounded_gaussian(centre: Any, scale: float, stream: NoiseStream) -> Any:
    """⌊c + scale · G⌉ for every c in a pytree of float64 arrays, exactly, as whole numbers in float64.

    Every coordinate has its own G, at its own place of the key stream. Call it with 64-bit types enabled.
    """
    leaves, tree = jax.tree.flatten(centre)
    sizes = [math.prod(leaf.shape) for leaf in leaves]
    size = sum(sizes)
    if size > LARGEST_SIZE:
        raise PrivacyError(f"Expected at most {LARGEST_SIZE} coordinates in a block, got {size}.")
    whole, undecided = decided(leaves, scale, stream.key, stream.nonce)
    if int(undecided):
        start = 0
        for number, leaf_size in enumerate(sizes):
            values, centres = np.array(whole[number]).ravel(), np.asarray(leaves[number]).ravel()
            for place in np.flatnonzero(np.isnan(values)).tolist():
                values[place] = exact.rounded(float(centres[place]), scale, *place_of(start + place, size), stream)
            whole[number] = jax.device_put(values.reshape(leaves[number].shape), whole[number].sharding)
            start += leaf_size
    return jax.tree.unflatten(tree, whole)


def place_of(coordinate: int, size: int) -> tuple[int, int, int]:
    """Cipher block, pair in the block and member of the pair (0: cosine, 1: sine) of a coordinate among `size`."""
    lanes = _lanes(size)
    tile, within = divmod(coordinate, _COORDINATES_PER_BLOCK * lanes)
    row, lane = divmod(within, lanes)
    member, pair = divmod(row, PAIRS_PER_BLOCK)
    return tile * lanes + lane, pair, member


def block_count(size: int) -> int:
    """How many cipher blocks `size` coordinates take, rounded up to whole tiles."""
    lanes = _lanes(size)
    return -(-size // (_COORDINATES_PER_BLOCK * lanes)) * lanes


def standard_normal(size: int, key: jax.Array, nonce: jax.Array) -> tuple[jax.Array, jax.Array]:
    """The float64 approximations g of `size` draws, and how far each may be from its G. Trace it with 64-bit types enabled."""
    counters = jnp.arange(block_count(size), dtype=jnp.uint32).reshape(-1, _lanes(size))
    g, tolerance = jax.vmap(lambda each: _tile(each, key, nonce))(counters)  # [tiles, 8, lanes]
    return g.reshape(-1)[:size], tolerance.reshape(-1)[:size]


def _lanes(size: int) -> int:
    """How many cipher blocks make a tile: as many as a processor's cache holds, or fewer where there are no more."""
    return max(1, min(LANES, -(-size // _COORDINATES_PER_BLOCK)))


def _tile(counters: jax.Array, key: jax.Array, nonce: jax.Array) -> tuple[jax.Array, jax.Array]:
    """g and tolerance of a tile's cipher blocks, [8, lanes] each."""
    words = key_stream(key, nonce, counters)
    high, low, angle_high, angle_low = (jnp.stack(words[first::4]) for first in range(4))  # [4, lanes] each
    g, tolerance = normal_pairs(high, low, angle_high, angle_low)
    shape = (_COORDINATES_PER_BLOCK, *counters.shape)
    return g.reshape(shape), jnp.broadcast_to(tolerance, g.shape).reshape(shape)


def normal_pairs(
    high: jax.Array, low: jax.Array, angle_high: jax.Array, angle_low: jax.Array
) -> tuple[jax.Array, jax.Array]:
    """Two approximations g from each four 32-bit words, [2, ...], and the tolerance, which both share."""
    w = high.astype(jnp.float64) * 2.0**32 + low.astype(jnp.float64) + 0.5
    r = jnp.sqrt(2 * minus_log(w))
    tolerance = 2.0**-46 * r + (2.0**-49 + 8 / w) / r
    cosine, sine = cosine_and_sine(angle_high, angle_low)
    return jnp.stack([r * cosine, r * sine]), tolerance


def minus_log(w: jax.Array) -> jax.Array:
    """−ln(w / 2⁶⁴) for float64 numbers in [½, 2⁶⁴]."""
    bits = jax.lax.bitcast_convert_type(w, jnp.uint64)
    exponent = (bits >> 52).astype(jnp.int32) - 1023
    mantissa = jax.lax.bitcast_convert_type((bits & ((1 << 52) - 1)) | (1023 << 52), jnp.float64)  # [1, 2)
    large = mantissa > math.sqrt(2)
    mantissa = jnp.where(large, mantissa / 2, mantissa)
    exponent = exponent - 64 + large.astype(jnp.int32)
    z = (mantissa - 1) / (mantissa + 1)
    series = _horner(z * z, [2 / (2 * term + 1) for term in range(10)])
    # The logarithm is never positive; `abs` makes a zero of either sign the same.
    return jnp.abs(exponent.astype(jnp.float64) * math.log(2) + z * series)


def cosine_and_sine(high: jax.Array, low: jax.Array) -> tuple[jax.Array, jax.Array]:
    """cos 2πV and sin 2πV, V = (2³² high + low) / 2⁶⁴."""
    shifted = high + np.uint32(1 << 29)  # by an eighth of a turn, so that remainders lie around 0
    quadrant = shifted >> np.uint32(30)
    remainder = (shifted & np.uint32((1 << 30) - 1)).astype(jnp.int32) - (1 << 29)
    turn = remainder.astype(jnp.float64) * 2.0**32 + low.astype(jnp.float64)
    phi = turn * (2 * math.pi * 2.0**-64)
    square = phi * phi
    sine = phi * _horner(square, [(-1) ** term / math.factorial(2 * term + 1) for term in range(8)])
    cosine = _horner(square, [(-1) ** term / math.factorial(2 * term) for term in range(9)])
    odd = (quadrant & 1) == 1
    first, second = jnp.where(odd, sine, cosine), jnp.where(odd, cosine, sine)
    first_negative = (quadrant == 1) | (quadrant == 2)
    return jnp.where(first_negative, -first, first), jnp.where(quadrant >= 2, -second, second)


def _horner(x: jax.Array, coefficients: list[float]) -> jax.Array:
    total = jnp.full_like(x, coefficients[-1])
    for coefficient in coefficients[-2::-1]:
        total = total * x + coefficient
    return total


@jax.jit
def decided(
    centres: list[jax.Array], scale: float, key: jax.Array, nonce: jax.Array
) -> tuple[list[jax.Array], jax.Array]:
    """The results that float64 can decide, NaN where it cannot, and how many NaNs there are."""
    size = sum(leaf.size for leaf in centres)
    lanes, blocks = _lanes(size), block_count(size)
    flat = jnp.concatenate([leaf.ravel() for leaf in centres])
    padded = jnp.pad(flat, (0, _COORDINATES_PER_BLOCK * blocks - size)).reshape(-1, _COORDINATES_PER_BLOCK, lanes)

    def tile(counters: jax.Array, centre: jax.Array) -> jax.Array:
        g, tolerance = _tile(counters, key, nonce)
        nearest = jnp.round(centre)
        t = (centre - nearest) + scale * g
        whole = jnp.round(t)
        decided = 0.5 - jnp.abs(t - whole) > scale * tolerance + 2.0**-50
        # Every zero gets the same sign: otherwise a released -0 would show the sign of the sum.
        found = nearest + whole
        return jnp.where(decided, jnp.where(found == 0, 0.0, found), jnp.nan)

    # One tile after the other on a CPU, for its caches; all at once on a GPU. The results are the same.
    result = jax.lax.platform_dependent(
        jnp.arange(blocks, dtype=jnp.uint32).reshape(-1, lanes),
        padded,
        cpu=lambda *tiles: jax.lax.map(lambda each: tile(*each), tiles),
        default=jax.vmap(tile),
    ).reshape(-1)[:size]
    borders = np.cumsum([leaf.size for leaf in centres])[:-1]
    pieces = [piece.reshape(leaf.shape) for piece, leaf in zip(jnp.split(result, borders), centres, strict=True)]
    return pieces, jnp.sum(jnp.isnan(result))
