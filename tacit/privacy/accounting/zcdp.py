"""Zero-concentrated differential privacy (Bun and Steinke 2016): ρ of Gaussian releases, and the (ε, δ) it stands for.

ρ adds up under composition, adaptive or not. Two ways lead from ρ to (ε, δ):

- `epsilon_of_gaussian`: what is released is one Gaussian mechanism, or an adaptive composition of Gaussian mechanisms
  whose noise was settled beforehand, trees and other factorisations among them. Their privacy loss is no worse than
  that of a single Gaussian of scale 1/√(2ρ), whose curve is known exactly (Balle and Wang 2018). The papers convert so
  (Gboard, Table 2).
- `epsilon_of_any`: nothing but ρ is known. Then the Rényi divergence of order α is at most αρ, and ε is the best
  conversion over α. It is larger, and holds for every ρ-zCDP mechanism.
"""

from __future__ import annotations

import math

import numpy as np

from tacit.privacy.accounting.library import dp_accounting

# Wide enough that the best order lies inside for every ρ in [1e-12, 1e12]. The orders are always the same ones, so
# that a smaller ρ or a larger δ never gives a larger ε.
_ORDERS_LESS_ONE = np.geomspace(1e-7, 1e10, 100_000)
# The library's search for ε stops this close to the root, on either side of it.
_SEARCH_ERROR = 1e-11


def gaussian_rho(noise_multiplier: float, sensitivity_squared: float = 1.0) -> float:
    """ρ = Δ² / (2 z²) of noise with standard deviation z on a release one user moves by Δ; infinite without noise."""
    if sensitivity_squared == 0:
        return 0.0
    if noise_multiplier <= 0:
        return math.inf
    return float(sensitivity_squared) / 2 / float(noise_multiplier) / float(noise_multiplier)


def composed(*rhos: float) -> float:
    """ρ of several releases about the same users, under the same adjacency: their sum."""
    return math.fsum(rhos)


def epsilon_of_gaussian(rho: float, delta: float) -> float:
    """The ε of a Gaussian mechanism with this ρ, rounded up by no more than the search's error."""
    if rho == 0:
        return 0.0
    if math.isinf(rho):
        return math.inf
    get_epsilon_gaussian = dp_accounting().get_epsilon_gaussian
    with np.errstate(all="ignore"):  # it takes log 0 on purpose
        found = float(get_epsilon_gaussian(1 / math.sqrt(2 * rho), float(delta)))
    return found if found == 0 else found * (1 + _SEARCH_ERROR) + _SEARCH_ERROR


def epsilon_of_any(rho: float, delta: float) -> float:
    """An ε at which every ρ-zCDP mechanism is (ε, δ)-private (conversion of Canonne, Kamath and Steinke 2020)."""
    if rho == 0:
        return 0.0
    if math.isinf(rho):
        return math.inf
    orders = 1 + _ORDERS_LESS_ONE
    log_order_term = np.log(_ORDERS_LESS_ONE) - np.log(orders)  # log(1 - 1/α), without cancellation
    bounds = orders * rho + log_order_term - (math.log(delta) + np.log(orders)) / _ORDERS_LESS_ONE
    return max(0.0, float(bounds.min()))
