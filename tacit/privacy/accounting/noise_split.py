"""Adaptive clipping's share of the noise (Gboard, Theorem 1; Andrew et al. 2021).

Besides the update Δ, clipped at S, each user sends one bit b: whether the norm was within the clip. The server releases
both sums, and the clip follows the noisy share of ones towards a quantile.

**The bit.** What is summed is b − ½, not b. It is +½ or −½, so a user who takes part moves the sum by exactly ½, where b
itself would move it by up to 1. Nothing is lost: the share of ones is the noisy sum over the public number of reports,
plus ½. Noise of standard deviation σ_b on a sum bounded by ½ is a noise multiplier of z_b = σ_b / ½ = 2 σ_b.

**The split.** Measure each block in units of its own noise: then all noise has standard deviation 1, and one user moves
the two blocks together by at most

    √( (S / (z_Δ S))² + (½ / σ_b)² )  =  √( z_Δ⁻² + (2 σ_b)⁻² )  =  1/z.

That is the Gaussian mechanism with noise multiplier z, so z_Δ = (z⁻² − (2 σ_b)⁻²)^(−½): the update gets a little more noise
than z. The argument holds in each round, and so for every way to put rounds together that asks only for z: sampling,
trees, other factorisations (where the bits' noise must then be correlated as the updates' is). `combined_noise_multiplier`
is the same sum for any number of blocks. No split exists where z_b ≤ z: the bits alone would cost all of z or more.
"""

from __future__ import annotations

import math

from tacit.errors import PrivacyError
from tacit.privacy.accounting.sampled_gaussian import combined_noise_multiplier

# |b − ½|
BIT_BOUND = 0.5


def bit_noise_multiplier(bit_noise: float) -> float:
    """z_b of noise with standard deviation σ_b on the sum of the users' b − ½."""
    return bit_noise / BIT_BOUND


def overall_noise_multiplier(update_noise_multiplier: float, bit_noise: float) -> float:
    """z of a round whose updates get z_Δ and whose bits get noise of standard deviation σ_b; 0 if either gets none."""
    return combined_noise_multiplier((update_noise_multiplier, bit_noise_multiplier(bit_noise)))


def update_noise_multiplier(noise_multiplier: float, bit_noise: float) -> float:
    """z_Δ of the updates, so that with σ_b on the bits a round costs z or, by rounding, a hair less.

    PrivacyError where there is no such split: σ_b must be above z / 2.
    """
    z_b = bit_noise_multiplier(bit_noise)
    if not (0 < noise_multiplier < z_b and math.isfinite(noise_multiplier)):
        raise PrivacyError(
            f"Expected bit noise above half of a positive noise multiplier, here {noise_multiplier:g}, got {bit_noise:g}: "
            "the clipped bits alone would cost as much as the whole round may."
        )
    return other_block(noise_multiplier, z_b)


def bit_noise(noise_multiplier: float, update_noise_multiplier: float) -> float:
    """σ_b of the bits, so that with z_Δ on the updates a round costs z or, by rounding, a hair less.

    PrivacyError where there is no such split: z_Δ must be above z.
    """
    if not (0 < noise_multiplier < update_noise_multiplier and math.isfinite(noise_multiplier)):
        raise PrivacyError(
            f"Expected the updates' noise multiplier to be above the round's, here {noise_multiplier:g}, "
            f"got {update_noise_multiplier:g}: nothing would be left for the clipped bits."
        )
    return other_block(noise_multiplier, update_noise_multiplier) * BIT_BOUND


def other_block(z: float, z_given: float) -> float:
    """The multiplier of a second block that brings both together to z or above, never below."""
    if math.isinf(z_given):
        return z
    # (z⁻² − z_given⁻²)^(−½) without the cancellation of the two squares where they are close.
    found = z * (z_given / math.sqrt((z_given - z) * (z_given + z)))
    # Rounding may leave the sum a hair below z. Where the blocks differ much it hardly moves with `found`: hence doubling.
    raised, step = found, 2.0**-50
    while combined_noise_multiplier((raised, z_given)) < z:
        raised, step = found * (1 + step), 2 * step
        if math.isinf(raised):
            raise PrivacyError(
                f"Expected noise multipliers that floating point can tell apart, got {z!r} of {z_given!r}: "
                "nothing would be left for the other block."
            )
    return raised
