"""Membership inference: two scores for each canary user, higher if the user was more likely in the training data.

By loss (black box): how much more likely the user's phrase is to the trained model than to the model before training.

By trajectory (white box): the cosine c_k between the update u_k that user k would have sent to the first model and the
displacement w from the first model to the last. Updates of different users are correlated, so the cosines are decorrelated by a
ridge regression: the scores a solve (U U' + λ) a = c, with unit updates as the rows of U. They are the weights with which all
updates together explain w. The attacker may know all updates: they follow from public phrases and the first model, without the
coins.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from numpy.typing import NDArray

from tacit.audit.scoring import build_forest, log_perplexities, read_prefixes
from tacit.learning.work import LocalWork
from tacit.models.word_lm import WordLM

# λ: keeps the system well conditioned if two phrases are nearly the same.
RIDGE = 0.01


def loss_scores(before: WordLM, after: WordLM, phrases: Sequence[NDArray[np.int32]]) -> NDArray[np.float64]:
    """The log-likelihood ratio of each phrase, from the start of a sentence, after and before training, in nats."""
    lengths = np.array([len(phrase) for phrase in phrases])
    scores = np.zeros(len(phrases))
    for length in np.unique(lengths):
        rows = np.flatnonzero(lengths == length).tolist()
        forest = build_forest(np.stack([phrases[row] for row in rows]))
        was, now = (
            log_perplexities(model, read_prefixes(model, np.zeros((1, 0), np.int32)), 0, forest)
            for model in (before, after)
        )
        scores[rows] = was.astype(np.float64) - now
    return scores


def task_loss_scores(task: Any, before: Any, after: Any, batches: Any) -> NDArray[np.float64]:
    """By how much the task's loss over each user's batches [users, steps, ...] is smaller after training than before."""

    def losses(model: Any) -> NDArray[np.float64]:
        found = eqx.filter_jit(lambda model: jax.lax.map(lambda user: _loss(task, model, user), batches))(model)
        return np.asarray(found, np.float64)

    return losses(before) - losses(after)


def _loss(task: Any, model: Any, batches: Any) -> Array:
    return jnp.sum(jax.lax.map(lambda batch: task.loss_sum(model, batch)[0], batches))


def trajectory_scores(
    work: LocalWork, before: WordLM, after: WordLM, batches: NDArray[np.int32], steps: NDArray[np.int64]
) -> NDArray[np.float64]:
    """The weight of each user's update to `before` in the displacement to `after`. Needs a model's memory per user.

    `work` is the local work (`tacit.learning.work`); user u has the first steps[u] of batches[u], at least one.
    """
    way = _flat(jax.tree.map(jnp.subtract, work.learned(after), work.learned(before)))
    updates = _updates(work, before, batches, steps.astype(np.int32))
    common, cosines = (np.asarray(each, np.float64) for each in _products(updates, way))
    return np.asarray(np.linalg.solve(common + RIDGE * np.eye(len(common)), cosines), np.float64)


@eqx.filter_jit
def _updates(work: LocalWork, before: WordLM, batches: Any, steps: Any) -> Array:
    """Unit updates [users, parameters]."""
    return jax.lax.map(
        lambda user: _unit(_flat(work(before, user[0], user[1], jnp.float32(jnp.inf)))), (batches, steps)
    )


@jax.jit
def _products(updates: Array, way: Array) -> tuple[Array, Array]:
    highest = jax.lax.Precision.HIGHEST
    return jnp.dot(updates, updates.T, precision=highest), jnp.dot(updates, _unit(way), precision=highest)


def _flat(model: Any) -> Array:
    return jnp.concatenate([leaf.ravel() for leaf in jax.tree.leaves(model)])


def _unit(vector: Array) -> Array:
    return vector / jnp.maximum(jnp.linalg.norm(vector), jnp.float32(1e-30))
