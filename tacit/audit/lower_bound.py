"""A lower bound on epsilon: an attack on one trained model refutes every epsilon that is too small.

Each of m canary users is in the training data or not, by a fair coin of its own. The attacker computes a score for each of
them from the mechanism's output, guesses "in" for the highest and "out" for the lowest, r guesses in all, and is
right v times. Under (ε, δ)-differential privacy, r independent answers of randomised response with parameter ε are right at
least as often, up to δ (Steinke, Nasr and Jagielski, "Privacy Auditing with One (1) Training Run", 2023, theorem 5.2):

    P[right ≥ v] ≤ P[W ≥ v] + m δ max_{1≤i≤m} (2/i) P[v - i ≤ W < v]        W ~ Binomial(r, e^ε / (1 + e^ε))

An ε for which the right side is below 1 - confidence is refuted; a mechanism that satisfies a smaller ε satisfies the larger
one too, so every refuted value is a lower bound. r is chosen from a fixed list, and the failure probability is
split among its entries, so the best of them may be reported.

All coins belong to one run, so the bound says nothing about the variation between runs. One run with m canaries cannot show
more than `strongest`, so a low bound is no proof of privacy.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cache

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import special

from tacit.errors import AuditError

CONFIDENCE = 0.999
# The share of canary users that the attacker guesses about: all, or those with the most extreme scores.
SHARES = (1.0, 0.5, 0.25, 0.125)

_LARGEST = 50.0
_HALVINGS = 45


@dataclass(frozen=True)
class LowerBound:
    """Epsilon is at least `epsilon` with this confidence, because `right` of `guesses` about `canaries` users were right.

    `strongest` is the bound if all guesses had been right.
    """

    epsilon: float
    confidence: float
    canaries: int
    guesses: int
    right: int
    strongest: float


def probability_bound(canaries: int, guesses: int, right: int, epsilon: float, delta: float) -> float:
    """An upper bound on P[at least `right` guesses are right] under (epsilon, delta)-differential privacy."""
    if right == 0:
        return 1.0
    p = 1 / (1 + math.exp(-epsilon))
    enough = float(special.bdtrc(right - 1, guesses, p))
    if delta == 0:
        return enough
    w = np.arange(right - 1, -1, -1)
    ways = special.gammaln(guesses + 1) - special.gammaln(w + 1) - special.gammaln(guesses - w + 1)
    below = np.cumsum(np.exp(ways + w * math.log(p) - (guesses - w) * (epsilon - math.log(p))))
    steepest = float((2 * below / np.arange(1, right + 1)).max())  # below[i - 1] is P[right - i ≤ W < right]
    return min(1.0, enough + canaries * delta * steepest)


def largest_refuted(canaries: int, guesses: int, right: int, *, delta: float, failure: float) -> float:
    """The largest epsilon that this many right guesses refute with failure probability `failure`; 0 if none."""
    low, high = 0.0, _LARGEST
    if probability_bound(canaries, guesses, right, low, delta) > failure:
        return 0.0
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        if probability_bound(canaries, guesses, right, middle, delta) <= failure:
            low = middle
        else:
            high = middle
    return low


def lower_bound(
    scores: ArrayLike, is_in: NDArray[np.bool_], *, delta: float, confidence: float = CONFIDENCE
) -> LowerBound:
    """The bound from one score per canary user; a higher score means more likely to be in.

    AuditError if a score is not finite.
    """
    values = np.asarray(scores, np.float64)
    if not np.isfinite(values).all():
        raise AuditError("The score of a canary user is not a finite number.")
    if len(values) < 2:
        raise AuditError(f"Expected at least 2 canary users for a lower bound, got {len(values)}.")
    failure = (1 - confidence) / len(SHARES)
    order = np.argsort(-values, kind="stable")
    found = []
    for share in SHARES:
        half = max(1, int(len(values) * share) // 2)
        right = int(is_in[order[:half]].sum() + (~is_in[order[-half:]]).sum())
        found.append((largest_refuted(len(values), 2 * half, right, delta=delta, failure=failure), 2 * half, right))
    epsilon, guesses, right = max(found)
    best = strongest(len(values), delta=delta, confidence=confidence)
    return LowerBound(epsilon, confidence, len(values), guesses, right, best)


@cache
def strongest(canaries: int, *, delta: float, confidence: float = CONFIDENCE) -> float:
    """The lower bound of an attacker who is always right, with this many canary users."""
    failure = (1 - confidence) / len(SHARES)
    sizes = [2 * max(1, int(canaries * share) // 2) for share in SHARES]
    return max(largest_refuted(canaries, size, size, delta=delta, failure=failure) for size in sizes)
