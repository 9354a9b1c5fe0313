"""A model that has diverged."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp

from tacit.privacy.gate.clipping import global_norm


def stretched(model: Any, norm: float) -> Any:
    """The model as long as this; a model that is longer than LARGEST_NORM is one that has diverged."""
    factor = jnp.float32(norm) / global_norm(model)
    return jax.tree.map(lambda leaf: leaf * factor, model)
