"""The reference engine: DP-FedAvg's pseudocode in plain Python, one user and one batch at a time.

It is slow, and shares only the model's definition with the batched engine: rows are cut with lists, gradients come from plain
autodiff, clipping and sums are NumPy in float64. The other engines are tested to be equal to it.
"""

from __future__ import annotations

import math
from typing import Any, Literal

import jax
import jax.numpy as jnp
import numpy as np

from tacit.data.users import BOS, EOS, Users
from tacit.learning.batches import TextBatches
from tacit.models.word_lm import WordLM
from tacit.privacy.plan import PrivacyPlan

Vectors = list[np.ndarray]


def user_sentences(users: Users, user: int) -> list[list[int]]:
    """One user's sentences as lists of word numbers."""
    examples = users.gather(np.array([user]))
    offsets = examples.example_offsets
    return [examples.items[offsets[e] : offsets[e + 1]].tolist() for e in range(len(offsets) - 1)]


def user_batches(sentences: list[list[int]], shape: TextBatches) -> list[list[list[int]]]:
    """The user's data split into batches of rows."""
    rows = []
    if shape.layout == "windows":
        stream = [token for sentence in sentences for token in [BOS, *sentence, EOS]]
        for start in range(0, max(len(stream) - 1, 0), shape.length):
            rows.append(stream[start : start + shape.length + 1])
    else:
        rows = [[BOS, *sentence, EOS][: shape.length + 1] for sentence in sentences]
    rows = rows[: shape.steps * shape.batch_size]
    return [rows[start : start + shape.batch_size] for start in range(0, len(rows), shape.batch_size)]


def predictions(batch: list[list[int]]) -> int:
    """The number of predictions in a batch."""
    return sum(token != BOS for row in batch for token in row[1:])


@jax.jit
@jax.grad
def row_gradient(model: WordLM, row: jax.Array) -> jax.Array:
    """The gradient of the cross-entropies of one row's predictions, summed."""
    scores = jax.nn.log_softmax(model(row[:-1]))
    targets = row[1:]
    counts = (targets != BOS).astype(jnp.float32)
    return -jnp.sum(scores[jnp.arange(len(targets)), targets] * counts)


def mean_gradient(model: WordLM, batch: list[list[int]]) -> Vectors:
    """The gradient of the cross-entropy averaged over the batch's predictions."""
    total = [np.zeros(leaf.shape) for leaf in jax.tree.leaves(model)]
    for row in batch:
        if len(row) > 1:
            gradient = jax.tree.leaves(row_gradient(model, jnp.array(row, jnp.int32)))
            total = [t + np.asarray(g, np.float64) for t, g in zip(total, gradient, strict=True)]
    return [t / max(predictions(batch), 1) for t in total]


def clip(update: Vectors, bound: float, style: Literal["flat", "per_layer"]) -> Vectors:
    """FlatClip or PerLayerClip."""
    if style == "flat":
        norm = math.sqrt(sum(float((leaf**2).sum()) for leaf in update))
        return [leaf * min(1.0, bound / norm) if norm > 0 else leaf for leaf in update]
    share = bound / math.sqrt(len(update))
    return [clip([leaf], share, "flat")[0] for leaf in update]


def user_update_fedavg(
    model: WordLM,
    batches: list[list[list[int]]],
    *,
    epochs: int,
    learning_rate: float,
    bound: float,
    style: Literal["flat", "per_layer"],
    clip_every_step: bool,
    update_penalty: float = 0.0,
) -> Vectors:
    """UserUpdateFedAvg(k, θ⁰, ClipFn), with the penalty on the update of the paper's appendix D."""
    start, tree = jax.tree.flatten(model)
    theta = [np.asarray(leaf, np.float64) for leaf in start]
    for _ in range(epochs):
        for batch in batches:
            local = jax.tree.unflatten(tree, [jnp.asarray(leaf, jnp.float32) for leaf in theta])
            gradient = mean_gradient(local, batch)
            if predictions(batch):
                gradient = [g + update_penalty * away for g, away in zip(gradient, _minus(theta, start), strict=True)]
            theta = [leaf - learning_rate * g for leaf, g in zip(theta, gradient, strict=True)]
            if clip_every_step:
                moved = clip(_minus(theta, start), bound, style)
                theta = [np.asarray(leaf, np.float64) + step for leaf, step in zip(start, moved, strict=True)]
    return clip(_minus(theta, start), bound, style)


def user_update_fedsgd(
    model: WordLM,
    batches: list[list[list[int]]],
    *,
    learning_rate: float,
    bound: float,
    style: Literal["flat", "per_layer"],
) -> Vectors:
    """UserUpdateFedSGD(k, θ⁰, ClipFn) with the user's whole data as the batch."""
    everything = [row for batch in batches for row in batch]
    return clip([-learning_rate * g for g in mean_gradient(model, everything)], bound, style)


def user_weight(plan: PrivacyPlan, count: int) -> float:
    """w_k = min(n_k / ŵ, 1); without a cap, 1 for every user who has examples."""
    if plan.example_cap is None:
        return float(count > 0)
    return min(count / plan.example_cap, 1.0)


def weighted_sum(updates: list[Vectors], weights: list[float], like: Vectors) -> tuple[Vectors, float]:
    """Σ w_k Δ_k and Σ w_k."""
    total = [np.zeros(leaf.shape) for leaf in like]
    for update, weight in zip(updates, weights, strict=True):
        total = [t + weight * leaf for t, leaf in zip(total, update, strict=True)]
    return total, sum(weights)


def _minus(a: Any, b: Any) -> Vectors:
    return [np.asarray(x, np.float64) - np.asarray(y, np.float64) for x, y in zip(a, b, strict=True)]
