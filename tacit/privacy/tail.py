"""What our noise lacks of the true Gaussian, and what it costs.

A Box-Muller pair whose radius is drawn from TAIL_BITS leading-zero bits (`tacit.privacy.noise`) differs from the true law,
before rounding, only where all of them are zero: total variation at most 2^−TAIL_BITS a pair. A run that draws P pairs is
within τ = P · 2^−TAIL_BITS of the run with perfect noise, whatever the data, and (ε, δ) for perfect noise becomes
(ε, δ + (1 + e^ε) τ) for ours:

    Pr[ours(d)] ≤ Pr[perfect(d)] + τ ≤ e^ε Pr[perfect(d')] + δ + τ ≤ e^ε (Pr[ours(d')] + τ) + δ + τ.
"""

from __future__ import annotations

import math

TAIL_BITS = 86
# Share of δ set aside for the tail of the noise.
TAIL_SHARE = 1e-3


def tail_probability(coordinates: int, arrays: int, releases: int) -> float:
    """τ of a run: each of its arrays draws whole pairs, in each release."""
    return (coordinates + arrays) / 2 * releases * 2.0**-TAIL_BITS


def apart_from_tail(delta: float) -> float:
    """The δ at which ε is computed: what a run sets aside for the tail is not in it."""
    return delta * (1 - TAIL_SHARE)


def tail_objection(tail: float, epsilon: float, delta: float) -> str | None:
    """Why this ε cannot be claimed with noise of this τ, though it holds for perfect noise; None where it can."""
    if epsilon <= 700 and (1 + math.exp(epsilon)) * tail <= delta * TAIL_SHARE:
        return None
    return (
        "the noise generator cannot produce the largest values of a Gaussian, and at an epsilon of "
        f"{epsilon:.4g} the missing tail costs more than delta allows"
    )
