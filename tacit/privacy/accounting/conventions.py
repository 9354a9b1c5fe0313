"""The papers' own ways to count, by name: for parity with their printed numbers, never as Tacit's claim.

Each convention says how its number differs from a proven bound on the mechanism that ran.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

import numpy as np

from tacit.privacy.accounting.library import dp_accounting, rdp_accountant
from tacit.privacy.accounting.zcdp import epsilon_of_gaussian

# Abadi et al. 2016 and DP-FedAvg look at the moments 1 to 32.
_MOMENTS = range(1, 33)
_ORDERS = range(2, 65)


@dataclass(frozen=True)
class Convention:
    """A paper's way to count: for which command, under which neighbours it is stated, and what is amiss with it."""

    name: str
    paper: str
    command: Literal["fedavg", "ftrl"]
    sampling: Literal["poisson", "fixed"] | None
    adjacency: str
    accountant: str
    differs: str


_SIGMA_OVER_S = (
    "the theorem is for replace-one neighbours, whose sums differ by up to 2S, but σ/S is used as if they differed by S: "
    "the proven bound enters half the noise multiplier and is several times larger"
)
_WANG = "RDP of sampling without replacement (Wang et al. 2019), integer orders, Mironov 2017 Proposition 3"


def _without_replacement(name: str, paper: str) -> Convention:
    return Convention(name, paper, "fedavg", "fixed", "replace one user", _WANG, _SIGMA_OVER_S)


CONVENTIONS: dict[str, Convention] = {
    each.name: each
    for each in (
        Convention(
            "dp-fedavg-2018",
            "McMahan et al. 2018, Learning Differentially Private Recurrent Language Models",
            "fedavg",
            "poisson",
            "add or remove one user",
            "moments accountant (Abadi et al. 2016), moments 1 to 32",
            "a valid bound for Poisson sampling, but looser than need be: with few moments and a plain tail bound, "
            "Table 2's 4.634 is 3.90 by privacy loss distributions",
        ),
        _without_replacement(
            "production-2020", "Ramaswamy et al. 2020, Training Production Language Models without Memorizing User Data"
        ),
        _without_replacement(
            "debugging-2020",
            "Augenstein et al. 2020, Generative Models for Effective ML on Private, Decentralized Datasets",
        ),
        _without_replacement(
            "memorization-2020",
            "Thakkar et al. 2020, Understanding Unintended Memorization in Language Models Under Federated Learning",
        ),
        Convention(
            "gboard-2023",
            "Xu et al. 2023, Federated Learning of Gboard Language Models with Differential Privacy",
            "ftrl",
            None,
            "zero out one user",
            "one binary tree over all rounds, zCDP, exact Gaussian curve",
            "Tacit's bound for one tree without restarts, but ρ is rounded to the two decimals that the paper prints before it "
            "becomes ε, which can make ε too small; restarts and what secure aggregation adds to the norm are left out",
        ),
    )
}


def moments_epsilon(probability: float, noise_multiplier: float, rounds: int, delta: float) -> float:
    """`dp-fedavg-2018`: min over λ = 1..32 of (rounds · log-moment of order λ + log 1/δ) / λ."""
    if noise_multiplier <= 0:
        return math.inf
    return min(
        (rounds * _log_moment(order + 1, probability, noise_multiplier) - math.log(delta)) / order for order in _MOMENTS
    )


def rounded_rho_epsilon(rho: float, delta: float) -> float:
    """`gboard-2023`: the exact Gaussian curve at ρ rounded to two decimals, as Tables 1 and 2 print it."""
    return epsilon_of_gaussian(round(rho, 2) or rho, delta)


def without_replacement_epsilon(
    population: int, cohort: int, noise_multiplier: float, rounds: int, delta: float
) -> float:
    """`production-2020` and its kin: min over integer orders α of rounds · RDP(α) + log(1/δ) / (α - 1), with z = σ/S."""
    if noise_multiplier <= 0:
        return math.inf
    library = dp_accounting()
    once = library.SampledWithoutReplacementDpEvent(
        int(population), int(cohort), library.GaussianDpEvent(float(noise_multiplier))
    )
    accountant = rdp_accountant(orders=list(_ORDERS), neighboring_relation=library.NeighboringRelation.REPLACE_ONE)
    accountant.compose(once, int(rounds))
    orders = np.asarray(_ORDERS)
    return float((accountant.rdp - math.log(delta) / (orders - 1)).min())


def _log_moment(order: int, q: float, z: float) -> float:
    """log Σ_k C(order, k) (1-q)^(order-k) q^k exp(k (k-1) / (2 z²)), the larger of Abadi's two directions."""
    k = np.arange(order + 1)
    if q == 1:
        return order * (order - 1) / (2 * z**2)
    binomials = np.array([math.log(math.comb(order, each)) for each in k])
    terms = binomials + (order - k) * math.log1p(-q) + k * math.log(q) + k * (k - 1) / (2 * z**2)
    top = float(terms.max())
    return top + math.log(float(np.exp(terms - top).sum()))
