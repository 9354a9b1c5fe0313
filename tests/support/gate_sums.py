"""A few users' vectors through the gate."""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np
import pytest

from tacit.privacy.gate.sums import HEADROOM, BoundedSum, ClipThresholds, Contributions, Gate

TEMPLATE = {"a": jnp.zeros((3, 2), jnp.float32), "b": jnp.zeros(4, jnp.float32)}


def admit(values: np.ndarray, weights: np.ndarray, *, clip_norm=1.0, style="flat", weighted=True) -> BoundedSum:
    gate = Gate(TEMPLATE, ClipThresholds(clip_norm), style=style, weighted=weighted)
    updates = {"a": jnp.asarray(values[:, :6].reshape(-1, 3, 2)), "b": jnp.asarray(values[:, 6:])}
    gate.admit(Contributions(updates, jnp.asarray(weights), jnp.ones(len(values), bool)))
    return gate.close()


def flat(bounded: BoundedSum) -> np.ndarray:
    total = bounded.blocks["update"].total
    return np.concatenate([np.asarray(total["a"]).ravel(), np.asarray(total["b"])])


def require_counted_as_zero(bad: float) -> None:
    """One of two users sends an update with this coordinate: the sum is the other user's."""
    values = np.ones((2, 10), np.float32)
    values[1, 4] = bad
    bounded = admit(values, np.ones(2, np.float32), clip_norm=100.0)
    np.testing.assert_allclose(flat(bounded), HEADROOM)
    assert float(bounded.blocks["weight"].total) == pytest.approx(HEADROOM)
