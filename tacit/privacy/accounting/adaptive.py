"""What adaptively chosen releases have cost so far: a Rényi odometer.

Somebody looks at what was released and then decides whether to run again, with which noise, sampling and number of rounds.
The number of releases and their costs are then random, and neither a composition of privacy loss distributions nor the best
Rényi order for the costs that came about is proven: both take the costs as settled beforehand.

**Setting.** Releases Y₁, Y₂, ... One user's data differ between D and D′. Given the past, the settings of release i are chosen
without looking at the data again, and release i has Rényi divergence at most ρᵢ(α) at every order α used here, for
neighbours in either order. L is the privacy loss of everything released until now, log p_D(Y)/p_D′(Y), and S(α) = Σ ρᵢ(α).

**One order** (Feldman and Zrnic 2021; Whitehouse et al. 2023). For Y drawn under D, given the past,
E[e^{(α−1) Lᵢ}] = e^{(α−1) D_α} ≤ e^{(α−1) ρᵢ(α)}. So e^{(α−1)(L − S(α))} is a supermartingale that begins at 1. It
needs no budget that is fixed in advance: S is subtracted as it comes about.

**Several orders.** With orders α_j and weights w_j, Σ w_j = 1, all fixed in advance,

    M = Σ_j w_j e^{(α_j − 1)(L − S(α_j))}

is a supermartingale too, so E[M] ≤ 1 whenever one stops, also by a rule that looks at the releases.

**The reading** is the least ε ≥ 0 with (1 − e^{ε − L})₊ ≤ δ M for every real L; S is known, L is not. It is a function of the
releases' costs alone. For any set O of outcomes in which the reading is at most ε:

    P_D(O) − e^ε P_D′(O) = E_D[1_O (1 − e^{ε − L})] ≤ E_D[(1 − e^{reading − L})₊] ≤ δ E_D[M] ≤ δ.

This is (ε, δ)-privacy of everything that is released while the odometer reads ε or less. With a single order it is the usual
conversion (Canonne, Kamath and Steinke 2020). Several orders cost at most ln(1/w_j)/(α_j − 1) more than the best of them alone.

**The orders and weights** depend on δ and nothing else. The order that suits a Gaussian of a certain ε is near
1 + 2 ln(1/δ)/ε: there is one for each ε on a geometric grid, and those of usual ε weigh more.

**What may be a release.** Gaussian rounds on sampled users are one release each: when to stop may be decided after each. A ρ is
charged as a whole, at α ρ, for a run that was settled when it began. Gaussian rows of such a run, given what came before, have
conditional divergences that add up to no more than α ρ on every path, so other releases may come in between.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from tacit.privacy.accounting.composition import Composed, Concentrated, Part, Sampled, merged, the_one
from tacit.privacy.accounting.sampled_gaussian import renyi_divergences

ACCOUNTANT = "Rényi odometer (adaptively chosen runs)"

# The epsilons that orders are made for, and how the weights fall off on either side of the usual one, in e-folds.
_TARGETS = np.geomspace(0.05, 200.0, 80)
_USUAL_EPSILON, _SPREAD = 3.0, 1.5
# Accountants are slow at larger orders.
_LARGEST_ORDER = 1000.0
# Where L − ε is looked at; what lies between two points is bounded by both.
_EXCESS = np.concatenate([[0.0], np.geomspace(1e-5, 30.0, 400)])
_HALVINGS = 50

Array = NDArray[np.float64]


def orders_for(delta: float) -> tuple[Array, Array]:
    """The orders at which adaptively chosen releases are added up for this δ, whole numbers above 8, and their weights."""
    orders = np.minimum(1 + 2 * math.log(1 / delta) / _TARGETS, _LARGEST_ORDER)
    weights = 1 / (1 + (np.log(_TARGETS / _USUAL_EPSILON) / _SPREAD) ** 2)
    unique, place = np.unique(np.where(orders > 8, np.ceil(orders), orders), return_inverse=True)
    return unique, np.bincount(place, weights) / weights.sum()


def adaptively_composed(parts: Sequence[Part], delta: float) -> Composed:
    """The ε that the odometer reads after all these parts; infinite where one has no noise.

    Each part may have been chosen by looking at what the earlier ones released, and so may their number. There is no ρ: the
    sum of adaptively chosen ones is not settled beforehand. PrivacyError if the parts are stated for different neighbours.
    """
    if parts:
        the_one("adjacency", (part.adjacency for part in parts))
    orders, weights = orders_for(delta)
    spent = renyi_divergences(merged(part.rounds for part in parts if isinstance(part, Sampled)), orders)
    spent = spent + orders * math.fsum(part.rho for part in parts if isinstance(part, Concentrated))
    return Composed(reading(orders, weights, spent, delta), None, ACCOUNTANT)


def reading(orders: Array, weights: Array, spent: Array, delta: float) -> float:
    """The least ε, rounded up, with (1 − e^{ε − L})₊ ≤ δ M for every L; `spent` is S at each order.

    Orders and weights were fixed beforehand, and the weights add up to 1.
    """
    if np.isnan(spent).any():
        return math.inf  # fail closed: a cost that is not a number is no cost of zero
    if not np.any(spent > 0):
        return 0.0
    finite = np.isfinite(spent)
    if not finite.any():
        return math.inf
    slopes, log_weights = orders[finite] - 1, np.log(weights[finite])
    from scipy import special  # slow to import, and few commands need it

    # log M at L = ε + x is a log-sum-exp of these plus ε times the slopes. On a stretch of x the left side is largest at its
    # upper end, and M is least at its lower end.
    exponents = log_weights + slopes * (_EXCESS[:, None] - spent[finite])
    left = np.log(-np.expm1(-np.append(_EXCESS[1:], math.inf)))

    def holds(epsilon: float) -> bool:
        return bool((left <= math.log(delta) + special.logsumexp(exponents + slopes * epsilon, axis=1)).all())

    if holds(0.0):
        return 0.0
    low, high = 0.0, float((spent[finite] - (math.log(delta) + log_weights) / slopes).min())  # M ≥ 1/δ at L = high
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        low, high = (low, middle) if holds(middle) else (middle, high)
    return high
