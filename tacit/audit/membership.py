"""Was this user in the training data? Two scores for each canary user, higher if the model speaks for it.

By loss (black box): how much better the trained model likes the user's phrase than the model before training did.

By trajectory (white box): the cosine between the update that the user would have sent to the first model and the way that
the model went from there to the last. Phrases of random words have updates that are nearly orthogonal to each other and to
what real text asks for, so what a single user added stands out, if anything does.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from numpy.typing import NDArray

from tacit.audit.scoring import grow, log_perplexities, read
from tacit.models.word_lm import WordLM


def loss_scores(before: WordLM, after: WordLM, phrases: Sequence[NDArray[np.int32]]) -> NDArray[np.float64]:
    """By how many nats each phrase, from the start of a sentence, is likelier after training than before."""
    lengths = np.array([len(phrase) for phrase in phrases])
    scores = np.zeros(len(phrases))
    for length in np.unique(lengths):
        rows = np.flatnonzero(lengths == length).tolist()
        forest = grow(np.stack([phrases[row] for row in rows]))
        was, now = (
            log_perplexities(model, read(model, np.zeros((1, 0), np.int32)), 0, forest) for model in (before, after)
        )
        scores[rows] = was.astype(np.float64) - now
    return scores


def trajectory_scores(
    work: Any, before: WordLM, after: WordLM, batches: NDArray[np.int32], steps: NDArray[np.int64]
) -> NDArray[np.float64]:
    """The cosine of each user's update to `before` with the way to `after`.

    `work` is what a user computes (`tacit.learning.work`); user u has the first steps[u] of batches[u], at least one.
    """
    way = jax.tree.map(jnp.subtract, after, before)
    return np.asarray(_cosines(work, before, way, batches, steps.astype(np.int32)), np.float64)


@partial(jax.jit, static_argnames="work")
def _cosines(work: Any, before: WordLM, way: WordLM, batches: Array, steps: Array) -> Array:
    def one(user: tuple[Array, Array]) -> Array:
        update = work(before, user[0], user[1], jnp.float32(jnp.inf))
        lengths = jnp.sqrt(_inner(update, update) * _inner(way, way))
        return _inner(update, way) / jnp.maximum(lengths, jnp.float32(1e-30))

    return jax.lax.map(one, (batches, steps))


def _inner(one: Any, other: Any) -> Array:
    return jnp.sum(jnp.stack([jnp.vdot(a, b) for a, b in zip(*map(jax.tree.leaves, (one, other)), strict=True)]))
