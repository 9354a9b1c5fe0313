"""Adapters: they start as nothing, correct the matrices they were asked for, and merge into the plain model."""

from __future__ import annotations

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from tacit.errors import RecipeError
from tacit.models.lora import add_adapters, merge
from tacit.models.transformer import TransformerConfig, build

KEY = jax.random.key(3)
MODEL = build(TransformerConfig(vocabulary=9, width=8, heads=2, layers=1, hidden=6), key=KEY)
TOKENS = jnp.array([1, 5, 7], jnp.int32)


def test_fresh_adapters_change_nothing() -> None:
    adapted = add_adapters(MODEL, 2, key=KEY)
    assert eqx.tree_equal(merge(adapted), MODEL)
    np.testing.assert_array_equal(jax.jit(adapted.__call__)(TOKENS), jax.jit(MODEL.__call__)(TOKENS))


def test_a_correction_is_the_scaled_product() -> None:
    base: dict[str, Any] = {
        "w": np.ones((4, 3), np.float32),
        "b": np.zeros(3, np.float32),
        "ids": np.ones((2, 2), np.int32),
    }
    adapted = add_adapters(base, 2, key=KEY, scale=0.5)
    assert list(adapted.adapters) == ["w"]
    filled = eqx.tree_at(lambda model: model.adapters["w"].B, adapted, jnp.arange(6.0).reshape(2, 3))
    plain = merge(filled)
    np.testing.assert_allclose(
        plain["w"], 1 + 0.5 * np.asarray(filled.adapters["w"].A) @ np.arange(6.0).reshape(2, 3), rtol=1e-5
    )
    assert plain["b"] is base["b"]
    assert plain["ids"] is base["ids"]
    assert len({leaf.tobytes() for leaf in np.asarray(filled.adapters["w"].A)}) == 4  # random, row by row


def test_a_filter_says_which_matrices() -> None:
    adapted = add_adapters(MODEL, 2, key=KEY, where=lambda path, leaf: path.startswith("blocks.0.v"))
    assert list(adapted.adapters) == ["blocks.0.values"]
    both = add_adapters(MODEL, 2, key=KEY, where=lambda path, leaf: leaf.shape == (8, 6) or path == "embedding")
    assert list(both.adapters) == ["embedding", "blocks.0.inward"]
    assert not np.array_equal(both.adapters["embedding"].A[:8], both.adapters["blocks.0.inward"].A)


@pytest.mark.parametrize(
    ("rank", "where", "sentence"),
    [
        (0, None, "Expected rank >= 1, got 0."),
        (7, None, "Expected rank <= 6, the smaller side of blocks.0.inward, got 7."),
        (1, lambda path, leaf: False, "at least one matrix"),
    ],
)
def test_what_cannot_be_adapted_is_refused(rank: int, where: Any, sentence: str) -> None:
    with pytest.raises(RecipeError, match=sentence):
        add_adapters(MODEL, rank, key=KEY, where=where)
