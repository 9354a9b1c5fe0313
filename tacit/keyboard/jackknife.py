"""Relative change with a confidence interval, by the jackknife over buckets of users (Production, Table 2).

A metric is a ratio of two sums over users. Its relative change θ against a baseline is the ratio of the two models' metrics on
the same users, minus 1. Users are assigned to B buckets at random; θ₍ᵢ₎ is the change without bucket i. The interval is

    θ ± t · √( (B - 1)/B · Σᵢ (θ₍ᵢ₎ - mean θ₍.₎)² ),      t: the quantile of Student's t with B - 1 degrees of freedom.

The interval covers the choice of users. It does not cover how much a model would differ if it were trained again.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from tacit.errors import DataError

BUCKETS = 20


@dataclass(frozen=True)
class Ratio:
    """A metric's two counts for each user; the metric is the sum of `numerator` over the sum of `denominator`."""

    numerator: NDArray[np.float64]
    denominator: NDArray[np.float64]


@dataclass(frozen=True)
class Change:
    """`relative` is (new - baseline) / baseline, between `low` and `high`; nan where the baseline is 0 or undefined."""

    relative: float
    low: float
    high: float

    @property
    def is_clear(self) -> bool:
        """Whether the interval excludes 0."""
        return self.low > 0 or self.high < 0


def assign_buckets(users: int, buckets: int = BUCKETS, *, seed: int) -> NDArray[np.int64]:
    """The bucket of each user, at random; the sizes of two buckets differ by at most one user."""
    if buckets < 2:
        raise DataError(f"Expected at least 2 buckets of users, got {buckets}.")
    if users < buckets:
        raise DataError(f"Expected at least {buckets} held-out users, one a bucket, got {users}.")
    return np.random.default_rng(seed).permutation(users).astype(np.int64) % buckets


def relative_change(new: Ratio, baseline: Ratio, bucket: NDArray[np.int64], *, level: float = 0.95) -> Change:
    """The change of the metric from `baseline` to `new`, both counted on the same users."""
    buckets = int(bucket.max()) + 1
    sums = np.stack(
        [
            np.bincount(bucket, counts, buckets)
            for counts in (new.numerator, new.denominator, baseline.numerator, baseline.denominator)
        ]
    )
    total = sums.sum(axis=1)
    change = _change(total)
    without = _change(total[:, None] - sums)
    spread = math.sqrt((buckets - 1) / buckets * float(((without - without.mean()) ** 2).sum()))
    half = float(stats.t.ppf((1 + level) / 2, buckets - 1)) * spread
    return Change(float(change), float(change - half), float(change + half))


def _change(sums: NDArray[np.float64]) -> NDArray[np.float64]:
    with np.errstate(divide="ignore", invalid="ignore"):
        found = (sums[0] / sums[1]) / (sums[2] / sums[3]) - 1
    return np.where(np.isfinite(found), found, np.nan)
