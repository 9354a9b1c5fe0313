"""The probability τ that the noise is outside what the proof covers, and what it adds to δ.

Independent noise has exactly the distribution that is accounted (`noise.gaussian`): its tail is complete, and it is charged
only τ. Correlated noise is computed by a recurrence in float64, whose errors are bounded as long as
no combination of draws that it keeps is longer than √v (√d + 16), v being its variance and d the number of
coordinates of its block (`rounding`), and none of its coordinates is beyond 64 standard deviations. The norm of d
independent N(0, 1) variables exceeds √d + t with probability at most e^(−t²/2): here e⁻¹²⁸ < 2⁻¹⁸⁴. A block keeps
fewer than 64 such combinations in a round (a tree's heights, a BLT's buffers, the newest of a band), which makes
2⁻¹⁷⁸, and a coordinate goes beyond 64 with probability below 2⁻²⁰⁰⁰.

A run in which this happens with probability at most τ is within τ of one that the proof is about, whatever the data,
and (ε, δ) for that one becomes (ε, δ + (1 + e^ε) τ) for ours:

    Pr[ours(d)] ≤ Pr[proven(d)] + τ ≤ e^ε Pr[proven(d')] + δ + τ ≤ e^ε (Pr[ours(d')] + τ) + δ + τ.
"""

from __future__ import annotations

import math

TAIL_BITS = 178
# The share of δ that is set aside for τ.
TAIL_SHARE = 1e-3


def tail_probability(coordinates: int, arrays: int, releases: int) -> float:
    """τ of a run; arrays are at least as many as blocks."""
    return (coordinates + arrays) * releases * 2.0**-TAIL_BITS


def apart_from_tail(delta: float) -> float:
    """The δ at which ε is computed: δ minus the share that is set aside for the tail."""
    return delta * (1 - TAIL_SHARE)


def tail_objection(tail: float, epsilon: float, delta: float) -> str | None:
    """Why τ is too large for this ε, which holds at δ minus the share for the tail; None if it is not."""
    if epsilon <= 700 and (1 + math.exp(epsilon)) * tail <= delta * TAIL_SHARE:
        return None
    return (
        "the proof does not cover draws of noise that are extremely far out, and at an epsilon of "
        f"{epsilon:.4g} the probability of such a draw costs more than delta allows"
    )
