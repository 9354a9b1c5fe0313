"""Noise that the devices add: n of them each add an independent discrete Gaussian N_Z(0, σ²) to each integer entry, and the
sum is released. What one user costs, as ρ of zero-concentrated differential privacy.

Let P be the law of the noise in one entry of the sum, V = n σ², and Q = N_Z(0, V). P is not quite Q, and this file bounds the
difference (after Kairouz, Liu and Steinke 2021, with constants of our own derivation).

**Ripple.** For X ~ N_Z(0, a) and Y ~ N_Z(0, b), completing the square gives
P[X + Y = m] ∝ exp(-m² / (2 (a + b))) · θ(a m / (a + b)), where θ(c) = Σ_x exp(-(x - c)² / (2 s²)) and s² = a b / (a + b).
By Poisson summation θ(c) ∝ 1 + 2 Σ_{j ≥ 1} q^(j²) cos(2π j c) with q = exp(-2π² s²). So P[X + Y = m] / N_Z(0, a + b)(m) varies
with m by a factor of at most (1 + 2η) / (1 - 2η), where η = Σ_j q^(j²). Adding the devices one by one, the k-th step has
s² = σ² k / (k + 1), and averaging over the next device's noise does not widen what varied before. So P/Q varies by a
factor of at most exp(Λ), Λ = Σ_{k=1}^{n-1} log((1 + 2η_k) / (1 - 2η_k)). As both are probabilities, |log P/Q| ≤ Λ.

**Cost, first bound.** Let one user move an entry by the integer Δ. log P(m)/P(m - Δ) ≤ log Q(m)/Q(m - Δ) + Λ
= (Δ² - 2mΔ)/(2V) + Λ. N_Z(0, σ²) is sub-Gaussian (θ is largest at whole c), so E_P exp(-u m) ≤ exp(u² V/2), and the Rényi
divergence of order α is at most α Δ²/(2V) + Λ ≤ α (Δ²/(2V) + Λ). Over the entries, of which d₀ move:
ρ ≤ Δ₂²/(2V) + d₀ Λ.

**Cost, second bound.** P to Q is Λ-differentially private, so (Λ²/2)-concentrated; so is Q' to P'; Q to Q' is (Δ²/(2V)).
Roots of ρ add along such a chain (Bun and Steinke 2016, Lemma 5.2, with the best k), so one entry has
√(2ρ) ≤ |Δ|/√V + 2Λ, and all together √(2ρ) ≤ Δ₂/√V + 2Λ √d₀.

The smaller of the two is taken. Entries are whole numbers, so d₀ is at most Δ₂² as well as the dimension. With σ² ≥ 4 a device,
Λ is below 10⁻¹⁶ and the sum costs what one Gaussian would.

**Neighbours** differ in one user's data, set to zero; the user's device still adds its noise. **Losses**: `devices` counts
those whose vectors are in the sum *and* whose noise an attacker does not know: the included devices less the corrupt ones.
The cost is stated for the fewest that a round accepts, which is public, so that the number that really came says nothing.
Noise is fresh in each round: ρ adds up over rounds, and nothing here combines with tree, banded or BLT noise.
"""

from __future__ import annotations

import math

import numpy as np

from tacit.errors import PrivacyError


def ripple(local_variance: int, devices: int) -> float:
    """Λ: by how much, in the logarithm, the law of the summed noise differs from a discrete Gaussian's."""
    if devices < 2:
        return 0.0
    k = np.arange(1, devices, dtype=np.float64)
    q = np.exp(-2 * math.pi**2 * local_variance * k / (k + 1))
    eta = q + q**4 / (1 - q**5)  # Σ_{j ≥ 2} q^(j²) is below the geometric series with ratio q⁵
    # Sums of positive terms err by far less than the factor allows for.
    return float(2 * np.arctanh(2 * eta).sum()) * (1 + 1e-9)


def rho(sensitivity_squared: float, *, local_variance: int, devices: int, dimension: int) -> float:
    """ρ of one release that one user moves by at most √sensitivity_squared, in units of the integers; infinite without noise.

    `devices` is how many shares of noise of this (whole) variance are certainly in the sum and unknown to the attacker.
    """
    if sensitivity_squared == 0:
        return 0.0
    if local_variance < 1 or devices < 1:
        return math.inf
    variance = local_variance * devices
    moved = min(dimension, math.floor(sensitivity_squared))
    difference = ripple(local_variance, devices)
    gaussian = sensitivity_squared / (2 * variance)
    first = gaussian + moved * difference
    # The square multiplied out, so that rounding cannot bring it below the Gaussian's part.
    second = gaussian + 2 * difference * math.sqrt(moved * sensitivity_squared / variance) + 2 * difference**2 * moved
    return min(first, second)


def local_variance_for(target_rho: float, sensitivity_squared: float, *, devices: int, dimension: int) -> int:
    """The smallest whole variance of one device's share with which `devices` shares cost at most `target_rho`."""
    if not target_rho > 0:
        raise PrivacyError(f"Expected a target ρ > 0, got {target_rho}.")
    if devices < 1:
        raise PrivacyError(f"Expected at least 1 device with noise, got {devices}.")

    def enough(variance: int) -> bool:
        cost = rho(sensitivity_squared, local_variance=variance, devices=devices, dimension=dimension)
        return cost <= target_rho

    low, high = 0, 1
    while not enough(high):
        low, high = high, 2 * high
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if enough(middle) else (middle, high)
    return high
