"""The threshold above which a word is shown that no public list has, and the δ that it costs.

**The mechanism.** Each user gives shares whose squares add up to at most 1 (`shares`). Shares of the same word are added,
every word that somebody has gets Gaussian noise of standard deviation z, and

- a word of a public list of candidates is released with its noisy total, whether anybody has it or not,
- any other word is released, with its noisy total, only if that total reaches the threshold T.

The second kind is the set union of Korolova et al. (2009) and Gopi et al. (2020): which words there are is itself private.

**The cost.** Let D and D′ differ in one user u, who is in D′. Call a word *lonely* if u has it, nobody else does, and it is no
candidate. Let E be the event that a lonely word reaches T on D′. u has at most k words, no share above s, so

    Pr[E] ≤ δ_T = k · Pr[N(s, z²) ≥ T] = k · Φ̄((T − s) / z).                                        (1)

Let M*(D′) be the mechanism that never shows a lonely word. It adds noise to the words of D and the candidates, a
set that is the same for D and D′, and shows what both would: so M(D) and M*(D′) are post-processings of one Gaussian mechanism
with sensitivity 1 on the same coordinates, and (ε, δ_G) holds between them in both directions. The noise of lonely words is
independent of all other noise, so outside of E the mechanism M(D′) shows what M*(D′) shows, and E is independent of that:

    Pr[M(D′) ∈ S] ≤ Pr[M*(D′) ∈ S] + Pr[E]               ≤ e^ε Pr[M(D) ∈ S] + δ_G + δ_T,
    Pr[M(D) ∈ S]  ≤ e^ε Pr[M*(D′) ∈ S] + δ_G,  and  Pr[M*(D′) ∈ S] (1 − Pr[E]) = Pr[M(D′) ∈ S, not E] ≤ Pr[M(D′) ∈ S],

so that M is (ε − ln(1 − δ_T), δ_G + δ_T)-private. The same lines hold with anything that is computed later from the release and
from the users, a training run for example, in place of M alone: composed with M*, it is an ordinary adaptive composition
with one Gaussian release more. If one user is *replaced*, both sides have lonely words. The first line then leads from M(D) to
M*(D), the last one from M*(D′) to M(D′), and the result is the same with the Gaussian mechanism's bound for
replacing: two vectors without negative entries and of norm 1 differ by at most √2.

Several attempts at a discovery are several such mechanisms: their Gaussian costs compose, and their δ_T add up.
"""

from __future__ import annotations

import math

from tacit.errors import PrivacyError
from tacit.privacy.discovery.shares import SharesRule

# Room for the float64 error of the tail function and of its inverse, as a factor on δ_T.
_ROOM = 1 + 1e-9
# Far below this, float64 has no digits left.
_LEAST_TAIL = 1e-300


def threshold_delta(threshold: float, noise: float, rule: SharesRule) -> float:
    """δ_T by (1): the probability that a word of one user alone is shown, at most. 1 where nothing is proven."""
    if not (noise > 0 and math.isfinite(threshold)):
        return 1.0
    tail = max(0.5 * math.erfc((threshold - rule.largest_share) / noise / math.sqrt(2)), _LEAST_TAIL)
    return min(1.0, rule.words_per_user * tail * _ROOM)


def threshold_for(delta: float, noise: float, rule: SharesRule) -> float:
    """A threshold whose `threshold_delta` is at most δ, and which is smaller than any such by no more than rounding."""
    if not 0 < delta < 1:
        raise PrivacyError(f"Expected a threshold delta above 0 and below 1, got {delta:g}.")
    if not (noise > 0 and math.isfinite(noise)):
        raise PrivacyError(f"Expected noise above 0 on the totals of words, got {noise:g}.")
    low, high = rule.largest_share - 40 * noise, rule.largest_share + 40 * noise
    if threshold_delta(high, noise, rule) > delta:
        raise PrivacyError(f"No threshold shows a word of one user alone with a probability as low as {delta:g}.")
    while (middle := (low + high) / 2) not in (low, high):
        low, high = (middle, high) if threshold_delta(middle, noise, rule) > delta else (low, middle)
    return high
