"""What a run has cost its users so far, read off its ledger and nothing else.

Every intent counts as a release, with the noise its blocks got and the sampling constants it names; δ, the unit and the
reasons why nothing may be claimed are those of the ledger's first record. The tail that our noise lacks
(`tacit.privacy.tail`) is charged to δ: ε is computed at a slightly smaller δ, and the difference must cover
(1 + e^ε) τ, or no finite ε is claimed.
"""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from tacit.privacy.accounting.sampled_gaussian import Accountant, Rounds, combined_noise_multiplier, epsilon
from tacit.privacy.records import Intent, Opened
from tacit.privacy.tail import tail_probability

# Share of δ set aside for the tail of the noise.
TAIL_SHARE = 1e-3
# Below this noise multiplier privacy loss distributions take minutes; the bound is then RDP's.
SMALLEST_FOR_PLD = 0.2

ASSUMPTIONS: tuple[str, ...] = (
    "one person is one user, and who is trained on and who is held out was settled beforehand",
    "settings such as the clip and the number of rounds were not chosen by looking at these users",
    "this run alone: other runs on the same users add to it",
    "the cohorts, the process's memory and its timing stay secret",
    "keyed Threefry-2x32 and Philox words pass for random, and 53-bit draws for real numbers",
)


@dataclass(frozen=True)
class Spent:
    """(ε, δ) of a run, for a unit and an adjacency, under assumptions; infinite with the reasons."""

    epsilon: float
    delta: float
    accountant: str
    adjacency: str
    unit: str
    releases: int
    reasons_not_private: list[str] = field(default_factory=list)
    assumptions: tuple[str, ...] = ASSUMPTIONS

    def as_dict(self) -> dict[str, Any]:
        """For JSON: an infinite epsilon is null, and its reasons say why."""
        finite = math.isfinite(self.epsilon)
        return {**vars(self), "epsilon": self.epsilon if finite else None, "assumptions": list(self.assumptions)}


def spent_by(opened: Opened, intents: Iterable[Intent], *, quick: bool = False) -> Spent:
    """The bound on what these releases cost together. `quick`: a coarser bound, for a progress bar."""
    rounds = rounds_of(intents)
    releases = sum(group.count for group in rounds)
    delta = float(opened.plan["delta"])
    smallest = min((group.noise_multiplier for group in rounds), default=math.inf)
    poisson = opened.plan["sampling"] == "poisson"
    accountant: Accountant = "pld" if poisson and smallest >= SMALLEST_FOR_PLD else "rdp"
    reasons, value = list(opened.reasons_not_private), math.inf
    if not reasons:
        discretization = 1e-3 if quick else 1e-4
        value = epsilon(rounds, delta * (1 - TAIL_SHARE), accountant, discretization=discretization)
        tail = tail_probability(int(opened.data["coordinates"]), int(opened.data["arrays"]), releases)
        if math.isinf(value):
            reasons = ["no noise was added"]
        elif value > 700 or (1 + math.exp(value)) * tail > delta * TAIL_SHARE:
            value, reasons = math.inf, ["the tail that the noise lacks outweighs delta"]
    assumptions = ASSUMPTIONS
    if "vocabulary" in opened.data:
        assumptions += (f"the words were chosen without looking at these users ({opened.data['vocabulary']})",)
    return Spent(value, delta, accountant, opened.adjacency, opened.unit, releases, reasons, assumptions)


def rounds_of(intents: Iterable[Intent]) -> list[Rounds]:
    """The ledger's releases, grouped by what they cost."""
    counts: Counter[tuple[str, float]] = Counter()
    for intent in intents:
        blocks = intent.blocks.values()
        bounded = all(block["bound"] is not None for block in blocks)
        z = combined_noise_multiplier(block["noise_multiplier"] or 0.0 for block in blocks) if bounded else 0.0
        counts[json.dumps(intent.sampling, sort_keys=True), z] += 1
    return [Rounds(json.loads(sampling), z, count) for (sampling, z), count in counts.items()]
