"""The transformer: sees no later word, knows the order of words, and learns."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from tacit.errors import RecipeError
from tacit.learning.next_word import NextWord, suggest
from tacit.learning.tasks import mean_metrics
from tacit.models.transformer import TransformerConfig, build, positions

CONFIG = TransformerConfig(vocabulary=12, width=8, heads=2, layers=2, hidden=16)
MODEL = build(CONFIG, key=jax.random.key(0))
LOGITS = jax.jit(MODEL.__call__)
TOKENS = jnp.array([1, 5, 7, 6, 5, 2], jnp.int32)


def test_size() -> None:
    per_block = 4 * 8 * 8 + 2 * 8 * 16 + 16 + 2 * 8
    assert sum(leaf.size for leaf in jax.tree.leaves(MODEL)) == 12 * 8 + 2 * per_block + 8


def test_logits_depend_on_the_words_so_far_and_on_no_later_one() -> None:
    logits = LOGITS(TOKENS)
    assert logits.shape == (6, 12)
    for place in range(6):
        other = LOGITS(TOKENS.at[place].set(9))
        np.testing.assert_array_equal(other[:place], logits[:place])
        assert (np.abs(other[place:] - logits[place:]).max(axis=1) > 1e-4).all()


def test_the_order_of_words_matters() -> None:
    swapped = LOGITS(TOKENS[jnp.array([0, 2, 1, 3])])
    assert np.abs(swapped[-1] - LOGITS(TOKENS[:4])[-1]).max() > 1e-4
    assert np.linalg.matrix_rank(positions(6, 8)) == 6


def test_it_learns_to_count() -> None:
    rows = np.array([[1, *((start + np.arange(5)) % 8 + 4)] for start in range(8)], np.int32)
    task, model = NextWord(), MODEL
    step = jax.jit(lambda model: task.sgd_step(model, jnp.asarray(rows), 0.3))
    for _ in range(200):
        model = step(model)
    before, after = (mean_metrics(task, each, [rows[None]])["loss"] for each in (MODEL, model))
    assert after < 0.6 < 2.0 < before  # the first word is a guess among eight: 2.08 nats, of five
    assert suggest(model, [5, 6, 7], 1)[0][0] == 8


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [({"layers": 0}, "Expected layers >= 1, got 0."), ({"width": 10}, "multiple of 2 · heads = 4, got 10")],
)
def test_a_wrong_shape_is_refused(changes: dict[str, int], sentence: str) -> None:
    with pytest.raises(RecipeError, match=sentence):
        build(TransformerConfig(**{**vars(CONFIG), **changes}), key=jax.random.key(0))
