"""The noise and the threshold of a discovery of words, from the epsilon and the delta that it may cost.

A tenth of δ goes to the threshold (`tacit.privacy.discovery.threshold`). The threshold T = s + z Φ̄⁻¹(δ_T / k) grows with z and
only slowly with δ_T, so a small share serves.
"""

from __future__ import annotations

import math

from tacit.errors import PrivacyError
from tacit.privacy.accounting.cost import Cost
from tacit.privacy.accounting.discovered_words import discovery_rho
from tacit.privacy.accounting.sampled_gaussian import ADJACENCY
from tacit.privacy.noise.multipliers import LEAST_NOISE, MOST_NOISE
from tacit.privacy.noise.tail import apart_from_tail

THRESHOLD_SHARE = 0.1
_HALVINGS = 60


def word_noise(epsilon: float, delta: float, threshold_delta: float) -> float:
    """The least noise multiplier, rounded up, with which one discovery costs at most ε at δ, its threshold included.

    PrivacyError if no noise is enough: the threshold alone costs more.
    """
    if not (epsilon > 0 and math.isfinite(epsilon)):
        raise PrivacyError(f"Expected an epsilon above 0 for the discovery of words, got {epsilon:g}.")
    if not 0 < delta < 1:
        raise PrivacyError(f"Expected a delta above 0 and below 1 for the discovery of words, got {delta:g}.")
    if _epsilon(MOST_NOISE, delta, threshold_delta) > epsilon:
        raise PrivacyError(
            f"No noise makes a discovery of words cost epsilon {epsilon:g} at delta {delta:g}: its threshold takes "
            f"{threshold_delta:g} of delta."
        )
    low, high = math.log(LEAST_NOISE), math.log(MOST_NOISE)
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        low, high = (low, middle) if _epsilon(math.exp(middle), delta, threshold_delta) <= epsilon else (middle, high)
    return math.exp(high)


def _epsilon(noise: float, delta: float, threshold_delta: float) -> float:
    rho = discovery_rho(noise, 1, ADJACENCY["poisson"])
    return Cost.of_rho(rho, gaussian=True, threshold_delta=threshold_delta).epsilon(apart_from_tail(delta))[0]
