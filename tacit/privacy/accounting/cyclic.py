"""Banded noise on users who are drawn by cyclic Poisson sampling: what the rounds cost together, with amplification.

(Choquette-Choo, Ganesh, McKenna, McMahan, Rush, Thakurta and Xu 2023 have the theorem; this is a proof of what runs here.)

**Setting.** Users are divided into b groups, and round t draws each user of group t mod b by a coin of probability q
(`participation.cyclic`). The releases are equivalent to the rows of C x + Z: x_t is the sum of round t's clipped updates, C
is lower triangular with ones on its diagonal, and C[i, t] = 0 from i - t = b on. Z is independent, with a standard deviation
of z clips. (With several blocks, measure each in its own deviation: together one user moves a round's sum by 1/z.) One user is
added or removed; their group is a function of their name, so let it be fixed.

**One coin a row.** The rounds t₁ < t₂ < ... of the user's group are b apart. Row i contains the sums of rounds i - b + 1 .. i,
and so exactly one round t_k of the user's group, or none. Let R_k be the rows that contain t_k. These sets are disjoint,
and in row i of R_k the user's share is C[i, t_k] · B_k · Δ_k, with the coin B_k of round t_k and the user's clipped update Δ_k,
which follows from their data and from the releases before round t_k.

**The whole run is a function of independent sampled Gaussians.** Fix the data, coins and local randomness of everybody else.
Given the releases before it, row i has the mean f_i + C[i, t_k] B_k Δ_k, where f_i, the others' share, is a function of those
releases: the same with and without the user. Along v_i = C[i, t_k] Δ_k the row therefore shows B_k ‖v_i‖ + z · N(0, 1), with
Δ_k in clips; in every other direction it shows fresh noise alone. Now take for every k one independent draw of

    H_k = B_k · s_k + z · N(0, 1),    s_k² = Σ_(i in R_k) C[i, t_k]²,

where B_k is the coin, or 0 if the user is not there. H_k can be divided up: a Brownian motion with drift B_k, observed for
the time s_k² and in units of z, is determined by its end point H_k up to randomness that does not depend on B_k. Row i takes a
stretch of length ‖v_i‖² of it, which shows B_k ‖v_i‖² + z ‖v_i‖ · N(0, 1): what row i shows along v_i. The lengths may depend
on earlier releases, and the stretches are enough because Σ ‖v_i‖² ≤ s_k² on every path. So all releases follow
from (H_1, H_2, ...), from the others' data and from fresh randomness, and cost no more than the H_k. Coins are independent, so
the H_k are: each is a Poisson-sampled Gaussian mechanism with probability q and noise multiplier z / s_k.

s_k is at most the largest norm of a column of C, and the user's group has at most ⌈T/b⌉ rounds. b = 1 is
ordinary Poisson sampling with independent noise.

**Who may look when.** H_k may be thought of as released as a whole in round t_k, where its coin is thrown. So when other runs
on the same users are chosen by looking at this one, each coin is one release of the odometer (`accounting.adaptive`).

**Restarts** set C to zero between stretches: columns end there, and s_k is smaller.

**Rounds that ran again.** A run that lost rounds goes on from the state before them, with fresh coins and fresh noise. A row of
a lost branch and a row of the branch in use may both contain the sum of a round before the loss, with the *same* coin. Two
sampled Gaussians with one coin are not a composition of two with coins of their own. They are one, with the rows of
both: R_k is then the set of all rows, of any branch, that contain this attempt at round t_k. Every row still contains one coin
of the user at most, because a branch has one attempt at each round. So the proof holds with these R_k, and
`squared_norms` computes s_k² from the ledger, attempt by attempt.

**Floating point.** Errors in the recurrence of the noise act as if rows had moved (`noise.mechanisms.correlated`). A
banded recurrence keeps the last b - 1 rounds' noise, so an error in row i depends on rounds i - b + 1 .. i alone: without a
coin in row i, the row is the same number with and without the user. The errors in R_k are at most `NOISE_SHARE` clips
together (`gate.rounding`), s_k is at least 1, and the updates are shrunk to make room for that.

**Which group.** The s_k of each group are put in falling order, and the n-th of the run is the largest n-th of any group. That
is at least as much as any one group has, so the cost holds for every user.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence

import numpy as np

from tacit.privacy.accounting.sampled_gaussian import SampledRounds
from tacit.privacy.record.records import Intent

# Above the relative rounding of sums of thousands of squares.
_ROUNDING = 1e-12


def cyclic_rounds(
    intents: Sequence[Intent],
    branches: Sequence[Sequence[int]],
    coefficients: Sequence[float],
    *,
    probability: float,
    groups: int,
    noise_multiplier: float,
) -> list[SampledRounds]:
    """The Poisson-sampled Gaussian rounds that a user of any group is exposed to, at most.

    `branches` are the ways through the rounds as places in `intents`, each with one attempt at every round from 0 on;
    `coefficients` are the first column of C, no more than there are groups.
    """
    squared = squared_norms(intents, branches, coefficients)
    by_group: list[list[float]] = [[] for _ in range(groups)]
    for intent, square in zip(intents, squared, strict=True):
        by_group[intent.round % groups].append(square)
    longest = max(map(len, by_group), default=0)
    ordered = np.zeros((groups, longest))
    for group, found in enumerate(by_group):
        ordered[group, : len(found)] = sorted(found, reverse=True)
    counts = Counter(ordered.max(axis=0).tolist())
    sampling = {"kind": "poisson", "probability": probability}
    return [SampledRounds(sampling, noise_multiplier / math.sqrt(square), count) for square, count in counts.items()]


def squared_norms(
    intents: Sequence[Intent], branches: Sequence[Sequence[int]], coefficients: Sequence[float]
) -> list[float]:
    """s² of each attempt at a round: of its column's entries in all rows that contain it, rounded up."""
    sums = np.concatenate([[0.0], np.cumsum(np.square(np.asarray(coefficients, np.float64)))])
    bands = len(coefficients)
    found, seen = [0.0] * len(intents), set[int]()
    for branch in branches:
        # The rows of this branch that no earlier branch has: all from some round on.
        first = next((place for place, number in enumerate(branch) if number not in seen), len(branch))
        seen.update(branch)
        ends, end = [0] * len(branch), len(branch)
        for place in reversed(range(len(branch))):  # where the stretch of each round ends
            ends[place] = end
            if intents[branch[place]].restart:
                end = place
        for place in range(max(0, first - bands + 1), len(branch)):
            start, stop = max(first - place, 0), min(ends[place] - place, bands)
            if start < stop:
                found[branch[place]] += float(sums[stop] - sums[start])
    # A single coefficient is exactly 1, and b = 1 is exactly Poisson sampling.
    return found if bands == 1 else [square * (1 + _ROUNDING) for square in found]
