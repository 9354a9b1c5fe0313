"""How much every contribution is shrunk, so that rounding errors cannot raise one user's share above the stated bound.

**Sums.** Norms, clipping and accumulation run in float64. A user's clipped contribution is computed to a relative
error below 2⁻⁴⁰ (d < 10¹⁰ coordinates), and the sum of n contributions of norm ≤ S is off by at most
n (n - 1) ν S / (1 - n ν), ν = 2⁻⁵³, in any order of addition: one by one, or parts of a round whose sums are then
added. It moves by at most twice that when one user is added. `SUM_SHARE` of what `HEADROOM` takes off is more than both
up to `MOST_USERS` in a round; a plan allows 100,000. In TF32 or float32 neither would hold.

**Correlated noise.** Float64 errors in the recurrence of the noise act as if a round's sum had moved
(`mechanisms.correlated`). Let d be the number of coordinates, T of rounds, B of blocks, z the noise multiplier of a
round, ν = 2⁻⁵³. The strategy's `recurrence_error` is a number A: in each round the error is at most A ν (√d + 16 √B)
standard deviations of what is drawn new, in L2 norm over all blocks, as long as every combination of draws that the
recurrence keeps, of variance v, has a norm of at most √v (√d_j + 16) in block j. (One exceeds that with probability
e⁻¹²⁸; `tail` charges it.) Adding the sum itself costs ν times its norm, at most ν n S. Two neighbours' errors differ
by at most twice as much, and over all rounds by

    2 √T ν (A z (√d + 16 √B) + n) S  ≤  NOISE_SHARE · S

at most, or the mechanism refuses to begin. One user at their worst moves C x by S or more, so `NOISE_SHARE` of what
`HEADROOM` takes off covers it.
"""

from __future__ import annotations

import math

# For errors in sums, and for errors in correlated noise; independent noise has none.
SUM_SHARE = 2.0**-18
NOISE_SHARE = 2.0**-16
HEADROOM = 1 - (SUM_SHARE + NOISE_SHARE)
MOST_USERS = 131_072

# A longer update counts as zero, and a longer model has diverged. A user with fewer batches than others is padded with empty
# ones, whose derivatives are products with zero. Below this norm such a product is really zero: in models with saturating cells
# each factor is a product of two parameters and of activations that a parameter bounds, at most about 1e27. Far above, 0 · inf
# would turn a padded user's update into NaN, and one user's share would depend on who else is in the chunk.
LARGEST_NORM = 1e12


def correlated_noise_error(
    recurrence_error: float, *, rounds: int, coordinates: int, blocks: int, noise_multiplier: float
) -> float:
    """How far float64 errors in correlated noise move all rounds' releases together, in units of the bound."""
    in_deviations = recurrence_error * (math.sqrt(coordinates) + 16 * math.sqrt(blocks))
    return 2 * math.sqrt(rounds) * 2.0**-53 * (in_deviations * noise_multiplier + MOST_USERS)
