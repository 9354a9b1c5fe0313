"""Users' accuracies as a histogram that crosses the gate, and the thresholds read from it (Debugging, C.3).

A threshold such as "the 25th percentile of users' accuracies" is a function of everybody's data: used as it is, one user
would move other users in and out of a subpopulation, and no accountant would see it. So a threshold is either a public
constant, or it is read from a histogram to which each user adds 1 in one bin. That is a `BoundedSum` with bound 1, and a
Gaussian mechanism with noise multiplier z makes a release of it.

What it costs: one release of the Gaussian mechanism with multiplier z on *all* users (nobody is sampled, so nothing is
amplified), to be recorded in the ledger as a round of its own with the block `ACCURACY`, and composed with every model that
is trained on what the threshold selects. The percentile, and the picture of Figure 5, are then free.
"""

from __future__ import annotations

from collections.abc import Mapping

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray

from tacit.data.store import BLOCK
from tacit.data.users import Users
from tacit.errors import DataError, PrivacyError
from tacit.inspection.judging import Judge
from tacit.privacy.sums import Block, BoundedSum

# The block's name, as intents call it.
ACCURACY = "accuracy"


def accuracies(users: Users, judge: Judge) -> NDArray[np.float64]:
    """The accuracy of the primary model on each user, nan for users without predictions.

    It reads every user and crosses no gate: in a simulation it may be shown, marked as outside the guarantee; it must not
    choose a threshold.
    """
    found = [np.empty(0)]
    for start in range(0, len(users), BLOCK):
        examples = users.gather(np.arange(start, min(start + BLOCK, len(users)), dtype=np.int64))
        found.append(judge(examples).by_user(examples.user_offsets).accuracy())
    return np.concatenate(found)


def accuracy_histogram(users: Users, judge: Judge, *, bins: int = 50) -> BoundedSum:
    """How many users have an accuracy in each of `bins` equal parts of [0, 1]; a user adds to one bin at most."""
    if bins < 1:
        raise DataError(f"Expected at least 1 bin in a histogram, got {bins}.")
    own = accuracies(users, judge)
    place = np.minimum((own[~np.isnan(own)] * bins).astype(np.int64), bins - 1)
    counts = np.bincount(place, minlength=bins).astype(np.float64)  # whole numbers, so sums and the bound are exact
    with jax.enable_x64(True):
        return BoundedSum({ACCURACY: Block(jnp.asarray(counts), 1.0)})


def percentile(release: Mapping[str, jax.Array], share: float) -> float:
    """The accuracy that `share` of the users in a released histogram do not exceed, to the end of its bin."""
    if not 0 < share < 1:
        raise DataError(f"Expected a percentile's share between 0 and 1, got {share:g}.")
    # Noise leaves bins below zero; a histogram has none, and cutting them off is post-processing.
    counts = np.maximum(np.asarray(release[ACCURACY], np.float64), 0.0)
    if not counts.sum() > 0:
        raise PrivacyError("Expected a histogram of accuracies with users in it, got none that outweigh the noise.")
    reached = np.searchsorted(np.cumsum(counts), share * counts.sum())
    return float(min(reached + 1, len(counts)) / len(counts))
