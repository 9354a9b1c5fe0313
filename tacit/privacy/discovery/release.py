"""The release of a discovery: noisy totals of words, those that no public list has only above the threshold.

`threshold` has the proof. The noise is the ideal Gaussian, rounded to a grid (`tacit.privacy.noise.gaussian`): a total is shown
if the rounded value is at least half a grid step above the threshold, which the unrounded value then reaches too. How many
words there are below the threshold is nowhere in the result.

Totals are whole numbers, and a total beyond 2⁵³ counts as 2⁵³. So all of them are exact in float64, however many users there
are, and one user's share of what noise is added to is no larger than before.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import jax
import numpy as np

from tacit.privacy.discovery.shares import UNIT, SharesRule
from tacit.privacy.discovery.threshold import threshold_for
from tacit.privacy.noise.gaussian import grid_step, rounded_gaussian
from tacit.privacy.noise.randomness import NoiseStream

_LARGEST_TOTAL = 1 << 53


@dataclass(frozen=True)
class WordTotals:
    """Noisy totals of shares: of every candidate, in the order of the public list, and of the words that were found."""

    candidates: dict[str, float]
    found: dict[str, float]
    noise: float


@dataclass
class ShareSum:
    """The shares of all users, added word by word. It holds private words and is never released itself."""

    rule: SharesRule
    totals: dict[str, int] = field(default_factory=dict, repr=False)

    def add(self, counts: Mapping[str, int]) -> None:
        """One user's words. Each user may be added once."""
        for word, units in self.rule.shares(counts).items():
            self.totals[word] = self.totals.get(word, 0) + units


def summed(users: Iterable[Mapping[str, int]], rule: SharesRule) -> ShareSum:
    """The shares of these users, each given as the counts of their words."""
    total = ShareSum(rule)
    for counts in users:
        total.add(counts)
    return total


def release(
    total: ShareSum, candidates: Sequence[str], *, noise: float, threshold_delta: float, stream: NoiseStream
) -> WordTotals:
    """The totals with noise of standard deviation `noise`; other words than the candidates only above the threshold.

    `threshold_delta`: the probability, at most, with which a word of one user alone is shown.
    """
    public = dict.fromkeys(candidates)
    # Sorted, so that a seeded run gives a word the same noise whichever user came first.
    words = [*public, *sorted(word for word in total.totals if word not in public)]
    step, least = grid_step(noise), threshold_for(threshold_delta, noise, total.rule)
    units = np.array([min(total.totals.get(word, 0), _LARGEST_TOTAL) for word in words], np.float64)
    if not words:
        return WordTotals({}, {}, noise)
    with jax.enable_x64(True):
        noisy = np.asarray(rounded_gaussian(units * UNIT / step, noise / step, stream)) * step
    values = dict(zip(words, noisy.tolist(), strict=True))
    shown = {word: value for word, value in values.items() if word not in public and value - step / 2 >= least}
    return WordTotals({word: values[word] for word in public}, shown, noise)
