"""Vectors as small integers, so that they can be added under masks, with a proven bound on one user's share of the sum.

    clip to norm S ─► random signs, Walsh-Hadamard ─► times scale ─► round at random ─► clip entries to ±E ─► modulo 2^bits
    sum of integers ─► centre ─► divide by scale ─► Walsh-Hadamard, signs                                    (`decoded`)

After Kairouz, Liu and Steinke 2021 (the discretisation that Gboard uses, section 2.4). **The norm.** Rounding x at random to
a neighbouring integer, up with the probability that makes it unbiased, can lengthen it: always ‖z‖ ≤ ‖x‖ + √d, and
E‖z‖² ≤ ‖x‖² + d/4, with ‖z‖² ≤ ‖x‖² + d/4 + √(2 log 1/β) (‖x‖ + √d/2) but for a probability of β. The smaller of the two
bounds, with ‖x‖ = scale · S, is the limit. The code checks it on the integers, in arithmetic that is exact because no sum of
squares reaches 2⁵³: a vector above the limit is rounded towards zero instead, which cannot lengthen it, and this is checked as
well. So the integers of every user, for any input (also one that is not finite), have ‖z‖² ≤ limit, and clipping entries only
shortens them. The inverse keeps norms, so one user moves the decoded sum by at most
√limit / scale · (1 + 2⁻²⁰) = `inflated_bound`, where the last factor is for decoding in float64: at most four products with
32 × 32 matrices, each off by 32 √32 · 2⁻⁵³ of the norm, so less than 2⁻⁴³ · cohort · bound for either of two neighbours, and a
round has no more than 2¹⁷ users.

**The modulus.** When the server adds the noise, no entry may wrap around: a user whose contribution makes an entry wrap would
move it by 2^bits (the risk of Gboard's footnote 1). `for_server_noise` chooses E with cohort · E < 2^(bits-1), so that wrapping
is impossible. When the devices add the noise, the sum with its noise is private before it is reduced, and wrapping is
post-processing: `for_device_noise` only makes it rare.

All arithmetic is float64 over the array namespace of the arguments (NumPy on a device, JAX in the batched engine, under
`enable_x64`); random draws are passed in.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from tacit.errors import ProtocolError
from tacit.secagg.hadamard import rotated, unrotated
from tacit.secagg.session import MOST_BITS

BLOCK = 1 << 15
_LARGEST_BLOCK = 1 << 20
_EXACT = 2.0**52
_DECODING_ROOM = 1 + 2.0**-20


@dataclass(frozen=True)
class Encoding:
    """The public constants of the discretisation; the same for every user and the server."""

    dimension: int
    clip_norm: float
    scale: float
    element_clip: int
    bits: int
    block: int = BLOCK
    rounding_failure: float = 1e-6

    def __post_init__(self) -> None:
        for name in ("clip_norm", "scale"):
            value = getattr(self, name)
            if not (math.isfinite(value) and value > 0):
                raise ProtocolError(f"Expected {name} > 0, got {value}.")
        if self.dimension < 1 or not 1 <= self.block <= _LARGEST_BLOCK or self.block & (self.block - 1):
            raise ProtocolError(
                f"Expected dimension ≥ 1 and block to be a power of two up to 2²⁰, got {self.dimension} and {self.block}."
            )
        if not 0 < self.rounding_failure < 1:
            raise ProtocolError(f"Expected rounding_failure between 0 and 1, got {self.rounding_failure}.")
        if not (2 <= self.bits <= MOST_BITS and 1 <= self.element_clip < 1 << (self.bits - 1)):
            raise ProtocolError(
                f"Expected 2 ≤ bits ≤ {MOST_BITS} and 1 ≤ element_clip < 2^(bits-1), got {self.bits} and {self.element_clip}."
            )
        if (self.scale * self.clip_norm + math.sqrt(self.padded)) ** 2 >= _EXACT:
            raise ProtocolError(
                f"Expected scale · clip_norm + √dimension below 2²⁶, got {self.scale * self.clip_norm} + √{self.padded}."
            )

    @property
    def padded(self) -> int:
        """The number of integers that encode a vector."""
        return -(-self.dimension // self.block) * self.block

    @property
    def rounding_limit_squared(self) -> int:
        """The bound on the squared norm of one user's integers before entries are clipped; checked for each user."""
        length, d = self.scale * self.clip_norm, self.padded
        always = (length + math.sqrt(d)) ** 2
        mostly = length**2 + d / 4 + math.sqrt(2 * math.log(1 / self.rounding_failure)) * (length + math.sqrt(d) / 2)
        return math.floor(min(always, mostly))

    @property
    def norm_limit_squared(self) -> int:
        """The bound on the squared norm of one user's integers."""
        return min(self.rounding_limit_squared, self.padded * self.element_clip**2)

    @property
    def inflated_bound(self) -> float:
        """The bound on one user's contribution to the decoded sum, for `BoundedSum`."""
        return math.sqrt(self.norm_limit_squared) / self.scale * _DECODING_ROOM

    def largest_cohort(self) -> int:
        """How many users' integers can be added without wrapping, whatever their values."""
        return ((1 << (self.bits - 1)) - 1) // self.element_clip


def for_server_noise(
    dimension: int, *, clip_norm: float, largest_cohort: int, bits: int, block: int = BLOCK, clipped: float = 1e-2
) -> Encoding:
    """The finest scale at which no cohort up to `largest_cohort` can wrap and entries are rarely clipped.

    Over the random signs, an update whose norm is spread over the blocks has an entry clipped with probability at most
    `clipped`. (An update concentrated in few blocks is clipped more often, which costs accuracy, never privacy.)
    """
    block = min(block, 1 << max(0, dimension - 1).bit_length())
    element_clip = ((1 << (bits - 1)) - 1) // largest_cohort
    if element_clip < 1:
        needed = largest_cohort.bit_length() + 1
        raise ProtocolError(f"Expected at least {needed} bits for cohorts of {largest_cohort}, got {bits}.")
    padded = -(-dimension // block) * block
    deviations = math.sqrt(2 * math.log(2 * padded / clipped))
    # Rounding adds less than one to an entry.
    scale = max(element_clip - 1, 0.5) * math.sqrt(padded) / (clip_norm * deviations)
    return Encoding(dimension, clip_norm, min(scale, _finest(clip_norm, padded)), element_clip, bits, block)


def for_device_noise(
    dimension: int,
    *,
    clip_norm: float,
    largest_cohort: int,
    bits: int,
    noise_deviation: float,
    block: int = BLOCK,
    deviations: float = 4.0,
) -> Encoding:
    """The finest scale at which the sum with its noise rarely wraps, even if all users' updates are the same.

    `noise_deviation` is that of the whole noise, in the units of `clip_norm`. An entry of the sum stays within its range up to
    this many standard `deviations`; its variance is at most cohort² S²/d (all the same) + cohort/4 (rounding) + noise's.
    """
    block = min(block, 1 << max(0, dimension - 1).bit_length())
    padded = -(-dimension // block) * block
    room = (2.0 ** (bits - 1) / deviations) ** 2 - largest_cohort / 4
    if room <= 0:
        raise ProtocolError(f"{bits} bits are too few for cohorts of {largest_cohort}.")
    scale = math.sqrt(room / (largest_cohort**2 * clip_norm**2 / padded + noise_deviation**2))
    element_clip = (1 << (bits - 1)) - 1
    return Encoding(dimension, clip_norm, min(scale, _finest(clip_norm, padded)), element_clip, bits, block)


def encoded(update: Any, encoding: Encoding, *, signs: Any, uniforms: Any, noise: Any = None) -> Any:
    """Integers in [0, 2^bits), uint32, along the last axis; each index of the leading axes is a user of its own.

    `update` [..., dimension] float64; `signs` [padded] ±1, public; `uniforms` [..., padded] in [0, 1), private;
    `noise` [..., padded] int64, the user's share of the noise if devices add it. An update that is not finite counts as zero.
    """
    xp = update.__array_namespace__()
    if update.dtype != xp.float64 or update.shape[-1] != encoding.dimension:
        raise ProtocolError(
            f"Expected float64 updates of {encoding.dimension} entries, got {update.dtype} of {update.shape[-1]}."
        )
    whole = integers(_flattened(xp, update, encoding, signs), encoding, uniforms)
    result = xp.astype(whole, xp.int64)
    if noise is not None:
        result = result + noise
    return xp.astype(result & ((1 << encoding.bits) - 1), xp.uint32)


def integers(scaled: Any, encoding: Encoding, uniforms: Any) -> Any:
    """Scaled vectors, rounded at random and clipped, as integers in float64; their squared norm is within the limit."""
    xp = scaled.__array_namespace__()
    low = xp.floor(scaled)
    drawn = low + xp.astype(uniforms < scaled - low, xp.float64)
    shortened = xp.trunc(scaled)
    limit = float(encoding.rounding_limit_squared)
    # The third choice is never needed if floating point is correct; it makes the bound independent of that.
    whole = xp.where(
        _squared(xp, drawn) <= limit, drawn, xp.where(_squared(xp, shortened) <= limit, shortened, xp.zeros_like(drawn))
    )
    return xp.clip(whole, -float(encoding.element_clip), float(encoding.element_clip))


def decoded(total: Any, encoding: Encoding, *, signs: Any) -> Any:
    """The sum of the users' updates [..., dimension] float64, from the sum of their integers modulo 2^bits."""
    xp = total.__array_namespace__()
    half = 1 << (encoding.bits - 1)
    centred = ((xp.astype(total, xp.int64) + half) & (2 * half - 1)) - half
    rotated_sum = xp.astype(centred, xp.float64) / encoding.scale
    return unrotated(rotated_sum, signs, encoding.block)[..., : encoding.dimension]


def _flattened(xp: Any, update: Any, encoding: Encoding, signs: Any) -> Any:
    finite = xp.all(xp.isfinite(update), axis=-1, keepdims=True)
    safe = xp.where(finite, update, xp.zeros_like(update))
    # Dividing by the largest entry first keeps the squares of any finite vector finite.
    largest = xp.max(xp.abs(safe), axis=-1, keepdims=True)
    unit = safe / xp.where(largest > 0, largest, xp.ones_like(largest))
    norm = xp.sqrt(_squared(xp, unit))
    clipped = unit * xp.minimum(largest, encoding.clip_norm / xp.where(norm > 0, norm, xp.ones_like(norm)))
    zeros = xp.zeros((*update.shape[:-1], encoding.padded - encoding.dimension), dtype=xp.float64)
    return rotated(xp.concat([clipped, zeros], axis=-1), signs, encoding.block) * encoding.scale


def _squared(xp: Any, vector: Any) -> Any:
    return xp.sum(vector * vector, axis=-1, keepdims=True)


def _finest(clip_norm: float, padded: int) -> float:
    return max(2.0**25 - math.sqrt(padded), 1.0) / clip_norm
