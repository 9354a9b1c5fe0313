"""Group privacy: what a guarantee for one user says about k of them together (Dwork and Roth 2014; Bun and Steinke 2016)."""

from __future__ import annotations

import math


def group_epsilon_delta(epsilon: float, delta: float, size: int) -> tuple[float, float]:
    """(kε, δ (e^{kε} - 1) / (e^ε - 1)): the sum of δ e^{iε} over the k steps from one data set to the other.

    δ reaches 1 soon; then nothing is promised, and (∞, 1) is returned.
    """
    if math.isinf(epsilon):
        return math.inf, 1.0
    # Each term is at most the last, so beyond this exponent the sum is above 1 or the delta is 0.
    if delta > 0 and (size - 1) * epsilon + math.log(delta) >= 0:
        return math.inf, 1.0
    if delta == 0:
        return size * epsilon, 0.0
    # Σ e^{iε} = (1 - e^{-kε}) / (1 - e^{-ε}) · e^{(k-1)ε}, whose last factor, in two halves, never overflows here.
    steps = float(size) if epsilon == 0 else math.expm1(-size * epsilon) / math.expm1(-epsilon)
    half = math.exp((size - 1) * epsilon / 2)
    grown = delta * half * half * steps
    return (size * epsilon, grown) if grown < 1 else (math.inf, 1.0)


def group_rho(rho: float, size: int) -> float:
    """k² ρ: zCDP for k users, under the same adjacency."""
    return rho * size**2
