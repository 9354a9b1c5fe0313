"""Clipping: what makes one user's contribution bounded.

π(Δ, S) = Δ · min(1, S/‖Δ‖)  (DP-FedAvg, equation 1), over all parameters together ("flat") or over each parameter
vector j with S_j = S/√m ("per_layer"), so that in both cases the whole update has norm at most S = √(Σ S_j²).
"""

from __future__ import annotations

import math
from typing import Any, Literal

import jax
import jax.numpy as jnp

# Far above the rounding of a norm in float32, far below anything that matters.
SLACK = 1e-4

ClipStyle = Literal["flat", "per_layer"]


def global_norm(update: Any, dtype: Any = jnp.float32) -> jax.Array:
    """‖Δ‖₂ over every leaf, accumulated in `dtype`."""
    return jnp.sqrt(sum(_squares(leaf, dtype) for leaf in jax.tree.leaves(update)))


def clip_scales(update: Any, clip_norm: jax.Array, style: ClipStyle, dtype: Any = jnp.float32) -> Any:
    """A factor in (0, 1] for each leaf that brings the update within its bound; the same for all leaves when flat."""
    leaves, tree = jax.tree.flatten(update)
    if style == "flat":
        scale = _scale(global_norm(update, dtype), clip_norm.astype(dtype))
        return jax.tree.unflatten(tree, [scale] * len(leaves))
    bound = clip_norm.astype(dtype) / math.sqrt(len(leaves))
    return jax.tree.unflatten(tree, [_scale(jnp.sqrt(_squares(leaf, dtype)), bound) for leaf in leaves])


def clip(update: Any, clip_norm: jax.Array, style: ClipStyle) -> Any:
    """The update, clipped, in its own precision: for work on a user's side. The gate clips again in float64.

    An update that exceeds the bound only by rounding is not changed, so that clipping twice gives the same as clipping once: a
    user's update must not depend on how many empty batches pad it.
    """
    scales = jax.tree.map(lambda scale: jnp.where(scale > 1 - SLACK, 1.0, scale), clip_scales(update, clip_norm, style))
    return jax.tree.map(lambda leaf, scale: leaf * scale.astype(leaf.dtype), update, scales)


def _squares(leaf: jax.Array, dtype: Any) -> jax.Array:
    return jnp.sum(jnp.square(leaf.astype(dtype)))


def _scale(norm: jax.Array, bound: jax.Array) -> jax.Array:
    return jnp.where(norm > bound, bound / jnp.where(norm > bound, norm, 1.0), 1.0).astype(norm.dtype)
