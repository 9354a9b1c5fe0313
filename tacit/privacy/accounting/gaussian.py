"""Gaussian noise, fresh in each round, without sampling: what a user costs who takes part in up to MaxP rounds.

All releases together are one Gaussian mechanism. A user changes those they took part in by the clip S each, so all of
them by S √MaxP in L2 norm, and ρ = MaxP / (2 z²). Which rounds they were in may be known to everybody: there is no
amplification. The neighbour has the user's updates set to zero.
"""

from __future__ import annotations

from tacit.privacy.participation.limits import Gap, most_participations


def sensitivity_squared(rounds: int, gap: Gap, max_participation: int) -> int:
    """The squared L2 sensitivity of all rounds together, in units of the clip."""
    return most_participations(rounds, gap, max_participation)
