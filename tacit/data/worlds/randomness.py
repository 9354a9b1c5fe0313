"""Randomness without a generator: every draw is a hash of the numbers that identify it.

A world makes user 400,000 without making the users before it, so its draws cannot come from a stream. Instead
the draw named (seed, user, sentence, position) is SplitMix64's mixing function folded over those four numbers. This is
randomness for made-up data only; noise that protects anybody never comes from here.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

_GOLDEN = np.uint64(0x9E3779B97F4A7C15)
_FIRST = np.uint64(0xBF58476D1CE4E5B9)
_SECOND = np.uint64(0x94D049BB133111EB)


def name(key: ArrayLike, *numbers: ArrayLike) -> NDArray[np.uint64]:
    """The key of the draws named by `numbers` under `key`; arrays broadcast. Other numbers give unrelated keys."""
    mixed = np.asarray(key, dtype=np.uint64)
    with np.errstate(over="ignore"):
        for number in numbers:
            # The multiple keeps small numbers apart; the three rounds are SplitMix64's finaliser.
            mixed = mixed * _SECOND + (np.asarray(number).astype(np.uint64) + np.uint64(1)) * _GOLDEN
            mixed = (mixed ^ (mixed >> np.uint64(30))) * _FIRST
            mixed = (mixed ^ (mixed >> np.uint64(27))) * _SECOND
            mixed = mixed ^ (mixed >> np.uint64(31))
    return np.asarray(mixed)


def uniform(key: ArrayLike, *numbers: ArrayLike) -> NDArray[np.float64]:
    """Uniform on [0, 1), in steps of 2⁻⁵³."""
    return (name(key, *numbers) >> np.uint64(11)).astype(np.float64) * 2.0**-53


def normal(key: ArrayLike, *numbers: ArrayLike) -> NDArray[np.float64]:
    """Standard normal, by Box and Muller."""
    radius = np.sqrt(-2.0 * np.log1p(-uniform(key, *numbers, 0)))
    return radius * np.cos(2.0 * np.pi * uniform(key, *numbers, 1))


class Choices:
    """Several discrete distributions, drawn from by inverting their cumulative sums in one search."""

    def __init__(self, distributions: list[NDArray[np.float64]]) -> None:
        self.sizes = np.array([len(weights) for weights in distributions], dtype=np.int64)
        self.starts = np.concatenate([[0], np.cumsum(self.sizes)])
        # Distribution d occupies the interval [d, d + 1] of one sorted array.
        self._sums = np.concatenate([d + np.cumsum(w) / np.sum(w) for d, w in enumerate(distributions)])

    def draw(self, which: NDArray[np.int64], uniforms: NDArray[np.float64]) -> NDArray[np.int64]:
        """For each uniform number, an entry of the distribution `which`, as its place among all entries."""
        found = np.searchsorted(self._sums, which + uniforms, side="right")
        return np.minimum(found, self.starts[which + 1] - 1)
