"""Words found letter by letter: what a round costs, and the threshold below which nothing is shown.

The server asks for sums over known coordinates. With secure aggregation it sees nothing but these sums, and nobody's words.

**A round.** There is a tree of live prefixes; in the first round it has the empty prefix alone. A round asks for the next k
letters of words that begin with a live prefix. Its coordinates are the pairs of a live prefix and k symbols, each a letter of a
public alphabet or the end of the word. That is a known domain of `coordinates` numbers at most, whatever users typed. A user
whose words have n different such extensions contributes 1/√n to each of these and 0 to all others. Words whose prefix is dead
take no part in this, so they use up nothing of a user's contribution.

**The cost.** The squares of one user's contributions add up to n · (1/√n)² = 1 at most, in every round, whatever the tree is.
So adding or removing a user moves the sum by at most 1 in L2 norm; two vectors without negative entries and of norm 1 differ by
at most √2, which is how far replacing a user moves it. (The gate clips at 1 in any case: the cost does not rest on what the
work computes.) The domain is known, so with noise of standard deviation z every round is an ordinary Gaussian mechanism of
sensitivity 1, and no part of δ pays for an unknown domain. The next tree, the threshold and the words are computed from the
release and from public constants: they cost nothing. L rounds are L adaptively composed Gaussian releases, which the ledger
accounts as it does for training: where everybody takes part in every round, as one release with z / √L; where a device takes
part once (`max_participation = 1`), as one release with z.

**What one user alone has.** A prefix or word is kept if its noised total reaches a threshold T. The contribution of one user is
at most 1 to any coordinate. So a coordinate to which one user contributes, or nobody, is kept in one round with the
probability Φ̄((T − 1)/z) at most. The noise of a round is independent of everything before it, so a union over the coordinates
of all L rounds bounds the probability that any such prefix or word is ever shown:

    L · coordinates · Φ̄((T − 1) / z) ≤ δ_shown.                                                       (1)

In particular a word that one user alone has is shown with the probability δ_shown at most, and so is a prefix of which no other
user has a word. (1) is a promise of its own, beside (ε, δ): it takes nothing from δ.

Releases are rounded to float32 and to a grid, and T has room for both: `ROOM` for float32, which is off by 2⁻⁷ at most in
sums of 2¹⁷ users, and 2⁻¹⁹ z for a grid of 2⁻²⁰ z. Secure aggregation rounds what each user sends as well; `margin` is for that
(`tacit.learning.letter_sums`).
"""

from __future__ import annotations

import math

from tacit.errors import PrivacyError

# For rounding to float32; the grid of the noise is added to it.
ROOM = 2.0**-6
# One user's contribution to a coordinate, at most: the bound of the gate.
LARGEST_SHARE = 1.0
# Far below this, float64 has no digits left; and room for the float64 error of the tail function, as a factor.
_LEAST_TAIL, _ERROR = 1e-300, 1 + 1e-9


def shown_probability(threshold: float, noise: float, coordinates: int, *, margin: float = 0.0) -> float:
    """δ_shown by (1), for so many coordinates in all rounds together; 1 where nothing is proven.

    `noise` is the standard deviation of the noise on a total. Without noise, only what two users have reaches the threshold.
    """
    above = threshold - LARGEST_SHARE - ROOM - noise * 2.0**-19 - margin
    if noise == 0:
        return 0.0 if above > 0 else 1.0
    if not (noise > 0 and math.isfinite(threshold)):
        return 1.0
    return min(1.0, coordinates * max(0.5 * math.erfc(above / noise / math.sqrt(2)), _LEAST_TAIL) * _ERROR)


def prefix_threshold(delta: float, noise: float, coordinates: int, *, margin: float = 0.0) -> float:
    """The least threshold, up to rounding, whose `shown_probability` is at most `delta`."""
    if not 0 < delta < 1:
        raise PrivacyError(f"Expected shown_delta above 0 and below 1, got {delta:g}.")
    low, high = LARGEST_SHARE, LARGEST_SHARE + 2 * ROOM + margin + 40 * noise
    if shown_probability(high, noise, coordinates, margin=margin) > delta:
        raise PrivacyError(f"No threshold shows what one user alone has with a probability as low as {delta:g}.")
    while (middle := (low + high) / 2) not in (low, high):
        within = shown_probability(middle, noise, coordinates, margin=margin) <= delta
        low, high = (low, middle) if within else (middle, high)
    return high
