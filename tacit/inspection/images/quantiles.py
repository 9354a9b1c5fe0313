"""Users' accuracies as a histogram that crosses the gate, and the thresholds read from it (Debugging, C.3 and Figure 5).

A threshold such as "the 25th percentile of users' accuracies" is a function of everybody's data: used as it is, one user
would move other users in and out of a subpopulation, and no accountant would see it. So a threshold is either a public
constant, or it is read from a histogram to which each user adds 1 in one bin.

Such a histogram is a run like any other, of one round: the *model* is the histogram, a user's *update* is 1 in the bin of
his own accuracy, the clip is 1, and the mean over the public number of users is what is released. Ledger, noise, sampling and
guarantee are those of every run. The percentile, and the picture, are then free.
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

    All zeros for a user without images. The broadcast model is the histogram, float32 [bins], and is not looked at.
    """

    classifier: Classifier

    @property
    def ignores_padding(self) -> bool:
        """A batch without images is not counted."""
        return True

    def __call__(self, model: Array, batches: Any, steps: Array, clip_norm: Array) -> Array:
        """The user's place, [bins]; its norm is at most 1."""

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
    """The end of the bin in which this share of the users in a released histogram is reached.

    The upper end for the ``low`` side, so that at least this share is at or below it; the lower end for ``high``, so that at
    least the rest is at or above it.
    """
    if not 0 < share < 1:
        raise DataError(f"Expected a percentile's share between 0 and 1, got {share:g}.")
    # Noise leaves bins below zero; a histogram has none, and cutting them off is post-processing.
    counts = np.maximum(np.asarray(histogram, np.float64), 0.0)
    if not counts.sum() > 0:
        raise PrivacyError("Expected a histogram of accuracies with users in it, got none that outweigh the noise.")
    reached = min(int(np.searchsorted(np.cumsum(counts), share * counts.sum())), len(counts) - 1)
    return (reached + (side == "low")) / len(counts)


def share_beyond(histogram: NDArray[np.generic], threshold: float, *, side: Literal["low", "high"]) -> float:
    """The sum of the bins at or below (``low``) or at or above (``high``) a threshold, noise and all.

    A bin that the threshold cuts in two counts.
    """
    counts, bins = np.asarray(histogram, np.float64), len(histogram)
    edge = threshold * bins
    inside = np.arange(bins) < edge - 1e-9 if side == "low" else np.arange(1, bins + 1) > edge + 1e-9
    return float(counts[inside].sum())
