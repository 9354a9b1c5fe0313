"""What our noise lacks of the true Gaussian, and what it costs.

A Box-Muller pair whose radius is drawn from TAIL_BITS leading-zero bits (`tacit.privacy.noise`) differs from the true law,
before rounding, only where all of them are zero: total variation at most 2^−TAIL_BITS a pair. A run that draws P pairs is
within τ = P · 2^−TAIL_BITS of the run with perfect noise, whatever the data, and (ε, δ) for perfect noise becomes
(ε, δ + (1 + e^ε) τ) for ours:

    Pr[ours(d)] ≤ Pr[perfect(d)] + τ ≤ e^ε Pr[perfect(d')] + δ + τ ≤ e^ε (Pr[ours(d')] + τ) + δ + τ.
"""

from __future__ import annotations

TAIL_BITS = 86


def tail_probability(coordinates: int, arrays: int, releases: int) -> float:
    """τ of a run: each of its arrays draws whole pairs, in each release."""
    return (coordinates + arrays) / 2 * releases * 2.0**-TAIL_BITS
