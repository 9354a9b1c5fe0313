"""What a run has cost its users so far, read off its ledger.

Every intent counts as a release, with the noise its blocks got and the sampling constants it names; nothing is taken from
what was configured. The tail that our noise lacks (see `tacit.privacy.noise`) is charged to δ: ε is computed at a slightly
smaller δ, and the difference must cover (1 + e^ε) τ, or no finite ε is claimed.
"""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from tacit.privacy.accounting.sampled_gaussian import ADJACENCY, Accountant, Rounds, combined_noise_multiplier, epsilon
from tacit.privacy.records import Intent

# Share of δ set aside for the tail of the noise.
TAIL_SHARE = 1e-3


@dataclass(frozen=True)
class Spent:
    """(ε, δ) of a run, for a unit and an adjacency; infinite with the reasons."""

    epsilon: float
    delta: float
    accountant: str
    adjacency: str
    releases: int
    unit: str = "user"
    reasons_not_private: list[str] = field(default_factory=list)

    def as_dict(self) -> dict[str, Any]:
        """For JSON: an infinite epsilon is null, and its reasons say why."""
        return {**vars(self), "epsilon": self.epsilon if math.isfinite(self.epsilon) else None}


def rounds_of(intents: Iterable[Intent]) -> list[Rounds]:
    """The ledger's releases, grouped by what they cost."""
    counts: Counter[tuple[str, float]] = Counter()
    for intent in intents:
        blocks = intent.blocks.values()
        bounded = all(block["bound"] is not None for block in blocks)
        z = combined_noise_multiplier(block["noise_multiplier"] or 0.0 for block in blocks) if bounded else 0.0
        counts[json.dumps(intent.sampling, sort_keys=True), z] += 1
    return [Rounds(json.loads(sampling), z, count) for (sampling, z), count in counts.items()]


def spent(
    rounds: list[Rounds],
    *,
    delta: float,
    sampling: str,
    tail_probability: float,
    reasons: list[str],
    accountant: Accountant,
    discretization: float = 1e-4,
) -> Spent:
    """The bound at δ. `tail_probability` is τ of the whole run (`tacit.privacy.noise.tail_probability`)."""
    count = sum(group.count for group in rounds)
    value = math.inf
    if not reasons:
        value = epsilon(rounds, delta * (1 - TAIL_SHARE), accountant, discretization=discretization)
        if math.isinf(value):
            reasons = ["no noise was added"]
        elif value > 700 or (1 + math.exp(value)) * tail_probability > delta * TAIL_SHARE:
            value, reasons = math.inf, ["the tail that the noise lacks outweighs delta"]
    return Spent(value, delta, accountant, ADJACENCY[sampling], count, reasons_not_private=list(reasons))
