"""Secure sums of a discovery by letters, and how far their rounding can lift the total of what one user alone has.

Secure aggregation rotates each user's vector by random public signs and a Walsh-Hadamard transform, scales it, rounds it to
integers and clips these to ±E (`tacit.secagg.encoding`). What is decoded at a coordinate is then not only the sum of what users
have there: rounding and clipping at all other coordinates leave errors on it. (ε, δ) allows for that by a larger bound. The
promise about what one user alone has (`tacit.privacy.discovery.prefix_threshold`) needs it in the threshold. Let there be n
users a round, L rounds, d integers in blocks of b, M coordinates, and β be the probability that is spent here.

**Clipping.** An entry before rounding is scale · Σᵢ ± xᵢ / √b with random signs and Σ xᵢ² ≤ 1, so it exceeds t with the
probability 2 exp(−t² b / (2 scale²)) at most (Hoeffding). The scale is chosen with

    2 n L d exp(−(E − 1)² b / (2 scale²)) ≤ β / 2,

so that with probability 1 − β/2 no entry of anybody is clipped in any round.

**Rounding.** Errors of entries are independent, of mean 0 and of range 1. The error on a coordinate is a sum of n b of them,
each times ± 1 / (√b scale), so it exceeds t with the probability exp(−2 t² scale² / n) at most (Hoeffding), and with
t = √(n ln(4 L M / β) / 2) / scale in none of all coordinates but for β/4.

**Vectors that rounding made too long** are rounded towards zero instead. That happens to a user with the probability η =
`rounding_failure` at most, and moves a coordinate by at most b / (√b scale) = √b / scale. More than m users of a round are
concerned with the probability (n η)^(m+1) / (m+1)! at most; m is the least for which L times that is at most β/4.

So the errors lift no coordinate by more than t + m √b / scale, but for β. That needs the server to draw the signs at random,
after the users' vectors are settled: a server that does so is assumed of a fleet in any case, because it adds the noise.
"""

from __future__ import annotations

import dataclasses
import math

from tacit.learning.secure_sums import SecureSums
from tacit.privacy.plan import PrivacyPlan


def secure_letters(plan: PrivacyPlan, coordinates: int, rounds: int, failure: float) -> tuple[SecureSums | None, float]:
    """The secure sums of the plan, with a scale at which hardly anything is clipped, and the margin that T needs for them.

    `failure` is β. (None, 0) where the plan asks for no secure sums.
    """
    made = SecureSums.of_plan(plan, coordinates)
    if made is None:
        return None, 0.0
    users, encoding = made.cohort, made.encoding
    deviations = math.sqrt(2 * math.log(4 * users * rounds * encoding.padded / failure))
    scale = min(encoding.scale, max(encoding.element_clip - 1, 0.5) * math.sqrt(encoding.block) / deviations)
    secure = dataclasses.replace(made, encoding=dataclasses.replace(encoding, scale=scale))
    rounding = math.sqrt(users * math.log(4 * rounds * coordinates / failure) / 2) / scale
    return secure, rounding + _too_long(users, rounds, encoding.rounding_failure, failure) * math.sqrt(
        encoding.block
    ) / scale


def _too_long(users: int, rounds: int, each: float, failure: float) -> int:
    """m: how many users of a round, at most, are rounded towards zero, but for a quarter of `failure`."""
    m, probability = 0, users * each
    while rounds * probability > failure / 4 and m < users:
        m += 1
        probability *= users * each / (m + 1)
    return m
