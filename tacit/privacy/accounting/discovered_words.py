"""What a discovery of words costs, by itself and as part of a training run that uses the words.

`tacit.privacy.discovery.threshold` has the proof: a release is one Gaussian mechanism with noise multiplier z, and a threshold
that shows words of one user alone with probability δ_T at most. The Gaussian part composes with whatever else is released about
the same users. The δ_T of all discoveries are taken from δ, and −ln(1 − δ_T) comes on top of ε (`Cost.epsilon`).
"""

from __future__ import annotations

import dataclasses

from tacit.privacy.accounting.cost import Cost
from tacit.privacy.accounting.sampled_gaussian import ADJACENCY
from tacit.privacy.accounting.zcdp import gaussian_rho
from tacit.privacy.record.facts import VocabularyRecord

_DOES_NOT_COMPOSE = "the cost of its mechanism is one that does not compose with that of its vocabulary"


def discovery_rho(noise_multiplier: float, releases: int, adjacency: str) -> float:
    """ρ of so many releases: the squared sensitivity is 1, or 2 where one user is replaced by another."""
    return gaussian_rho(noise_multiplier, releases * (2.0 if adjacency == ADJACENCY["fixed"] else 1.0))


def discovery_objection(cost: Cost, delta: float) -> str | None:
    """Why δ is too small for what the threshold of a discovery takes from it, or None."""
    if cost.threshold_delta < delta:
        return None
    return f"the threshold of the discovery of words takes {cost.threshold_delta:g} of delta, and the run has {delta:g} in all"


def with_vocabulary(cost: Cost, vocabulary: VocabularyRecord | None, adjacency: str) -> Cost:
    """The cost of a run's releases together with that of the discovery that chose its words; None: nothing chose them."""
    if vocabulary is None or cost.objection is not None:
        return cost
    rho, delta = discovery_rho(vocabulary.noise_multiplier, vocabulary.releases, adjacency), vocabulary.threshold_delta
    both = cost.threshold_delta + delta
    if cost.rounds is not None:
        return dataclasses.replace(cost, beside=cost.beside + rho, threshold_delta=both)
    if cost.rho is not None:
        return dataclasses.replace(cost, rho=cost.rho + rho, threshold_delta=both)
    return Cost.unknown(_DOES_NOT_COMPOSE)
