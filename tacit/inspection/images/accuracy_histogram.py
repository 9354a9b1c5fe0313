"""A histogram of users' accuracies that crosses the gate, and thresholds read from it (Debugging, C.3 and Figure 5).

A threshold such as "the 25th percentile of users' accuracies" is a function of everybody's data. Without noise, one
user would move other users in and out of a subpopulation, and no accountant would count that. So a threshold is either a public
constant, or it is read from a released histogram to which each user adds 1 in one bin.

The histogram is a run of one round: the *model* is the histogram, a user's *update* is 1 in the bin of their own accuracy, the
clip norm is 1, and the release is the mean over the public number of users. Ledger, noise, sampling and guarantee are those of
every run. Percentiles and plots of the release cost nothing more.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from numpy.typing import NDArray

from tacit.errors import DataError, PrivacyError
from tacit.models.classifier import Classifier


@dataclass(frozen=True)
class AccuracyWork:
    """Work on one user: 1 in the bin of the accuracy that a (public) classifier has on this user's images.

    All zeros for a user without images. The broadcast model is the histogram, float32 [bins], and only its size is used.
    """

    classifier: Classifier

    @property
    def ignores_padding(self) -> bool:
        """A batch without images is not counted."""
        return True

    def __call__(self, model: Array, batches: Any, steps: Array, clip_norm: Array) -> Array:
        """The user's one-hot bin, [bins]; its norm is at most 1."""

        def one_batch(i: Array, counts: Array) -> Array:
            batch = jax.tree.map(lambda leaf: leaf[i], batches)
            there = batch["mask"] > 0
            guess = jnp.argmax(jax.vmap(self.classifier)(batch["images"]), axis=1).astype(jnp.int32)
            right = there & (guess == batch["labels"])
            return counts + jnp.stack([jnp.sum(right, dtype=jnp.int32), jnp.sum(there, dtype=jnp.int32)])

        right, asked = jax.lax.fori_loop(0, steps, one_batch, jnp.zeros((2,), jnp.int32))
        bins = len(model)
        place = jnp.minimum(right * bins // jnp.maximum(asked, 1), bins - 1)
        return jnp.where(asked > 0, jax.nn.one_hot(place, bins, dtype=jnp.float32), jnp.float32(0))


def percentile(histogram: NDArray[np.generic], share: float, *, side: Literal["low", "high"]) -> float:
    """The edge of the bin in which the cumulative share of a released histogram reaches `share`.

    For the ``low`` side it is the upper edge, so that at least this share is at or below it; for ``high`` the lower edge, so
    that at least the rest is at or above it.
    """
    if not 0 < share < 1:
        raise DataError(f"Expected a percentile's share between 0 and 1, got {share:g}.")
    # Noise can make bins negative; setting them to zero is post-processing.
    counts = np.maximum(np.asarray(histogram, np.float64), 0.0)
    if not counts.sum() > 0:
        raise PrivacyError(
            "No bin of the released histogram of accuracies is above zero: the noise is larger than the counts."
        )
    reached = min(int(np.searchsorted(np.cumsum(counts), share * counts.sum())), len(counts) - 1)
    return (reached + (side == "low")) / len(counts)


def share_beyond(histogram: NDArray[np.generic], threshold: float, *, side: Literal["low", "high"]) -> float:
    """The sum of the released bins at or below (``low``) or at or above (``high``) a threshold, noise included.

    A bin that contains the threshold counts fully.
    """
    counts, bins = np.asarray(histogram, np.float64), len(histogram)
    edge = threshold * bins
    inside = np.arange(bins) < edge - 1e-9 if side == "low" else np.arange(1, bins + 1) > edge + 1e-9
    return float(counts[inside].sum())
