"""From noisy totals to a vocabulary: which words are worth a place.

Everything here is computed from the release and from public lists, so it costs nothing.

A public list comes in the order of public frequency, and a noisy total alone says little about a rare word. So the totals
of a list are smoothed by their neighbours in the list: in a window of words of about the same public rank, totals spread
around a mean m with a variance s² + z², of which z² is the noise. The best linear estimate of a word's true total is then

    m + s² / (s² + z²) · (total − m),

with m and s² estimated from the window itself (empirical Bayes; Efron and Morris 1973). Where noise dominates, the order is
that of the public list; where people's use of a word stands out from the noise, the word moves. A window of rare words has a
small s², though most of it comes from few words that people do use. So no estimate is below total − 3 z, which noise alone
hardly ever exceeds. Words that were found are estimated by their totals.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from tacit.privacy.discovery.release import WordTotals

WINDOW = 1501
STANDS_OUT = 3.0  # standard deviations of the noise


def estimates(totals: WordTotals) -> dict[str, float]:
    """The estimated total of every candidate and of every word that was found."""
    values = np.array(list(totals.candidates.values()), np.float64)
    shrunk = dict(zip(totals.candidates, smoothed(values, totals.noise).tolist(), strict=True))
    return {**shrunk, **totals.found}


def best_words(totals: WordTotals, size: int) -> tuple[str, ...]:
    """The `size` words with the largest estimates, largest first; equal ones in the order of the lists, then the alphabet."""
    found = estimates(totals)
    place = {word: number for number, word in enumerate(totals.candidates)}
    return tuple(sorted(found, key=lambda word: (-found[word], place.get(word, len(place)), word))[:size])


def smoothed(values: NDArray[np.float64], noise: float) -> NDArray[np.float64]:
    """The estimates of these noisy values, whose expectations change slowly along the array."""
    if len(values) == 0:
        return values
    mean = _window_mean(values)
    signal = np.maximum(_window_mean((values - mean) ** 2) - noise**2, 0.0)
    return np.maximum(mean + signal / (signal + noise**2) * (values - mean), values - STANDS_OUT * noise)


def _window_mean(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """The mean of the values at most WINDOW // 2 places away."""
    sums = np.concatenate([[0.0], np.cumsum(values)])
    place, half = np.arange(len(values)), WINDOW // 2
    low, high = np.maximum(place - half, 0), np.minimum(place + half + 1, len(values))
    return np.asarray((sums[high] - sums[low]) / (high - low))
