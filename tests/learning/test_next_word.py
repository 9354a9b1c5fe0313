"""Scores: what counts as a word, what counts as a mistake."""

from __future__ import annotations

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from tacit.data.users import BOS, EOS, FIRST_WORD, OOV, PAD
from tacit.learning.next_word import evaluate, head_word_histogram, prediction_mask, suggest, unigram_guess
from tacit.models.word_lm import WordLMConfig, build

VOCABULARY = 130
A, B, C = FIRST_WORD, FIRST_WORD + 1, FIRST_WORD + 2


@pytest.fixture(scope="module")
def model():
    return build(
        WordLMConfig(vocabulary=VOCABULARY, embedding=6, units=5, projection=6, output_bias=True), key=jax.random.key(0)
    )


def preferring(model, *words: int):
    """A model that ranks these words first, in this order, whatever came before."""
    bias = jnp.full(VOCABULARY, -50.0).at[jnp.array(words)].set(50.0 - jnp.arange(len(words), dtype=jnp.float32))
    return jax.tree.map(jnp.zeros_like, model).__class__(
        embedding=jnp.zeros_like(model.embedding),
        cell=model.cell,
        output=None,
        output_bias=bias,
        unit_norm=False,
    )


ROWS = np.array([[BOS, A, B, OOV, EOS, BOS, A], [BOS, C, EOS, PAD, PAD, PAD, PAD]], np.int32)


def test_mask_leaves_out_padding_and_bos():
    assert prediction_mask(jnp.asarray(ROWS)).tolist() == [[1, 1, 1, 1, 0, 1], [1, 1, 0, 0, 0, 0]]


def test_unknown_words_are_mistakes_and_sentence_ends_do_not_count(model):
    scores = evaluate(preferring(model, OOV, EOS, A), ROWS, chunk=2)
    assert scores.words == 5  # A B OOV A C
    assert scores.top1 == 0  # it always says "unknown", which is never right
    assert scores.top3 == pytest.approx(2 / 5)
    assert scores.out_of_vocabulary == pytest.approx(1 / 5)
    better = evaluate(preferring(model, A, B, C), ROWS, chunk=2)
    assert (better.top1, better.top3) == (pytest.approx(2 / 5), pytest.approx(4 / 5))
    assert better.in_vocabulary_top1 == pytest.approx(2 / 4)


def test_perplexity_is_the_exponential_of_the_mean_loss(model):
    uniform = jax.tree.map(jnp.zeros_like, model)
    assert evaluate(uniform, ROWS, chunk=3).perplexity == pytest.approx(VOCABULARY, rel=1e-4)


def test_chunks_do_not_change_the_scores(model):
    whole, parts = (evaluate(model, ROWS, chunk=chunk) for chunk in (2, 1))
    assert whole.as_dict() == pytest.approx(parts.as_dict())


def test_logits_that_overflow_are_mistakes(model):
    scores = evaluate(jax.tree.map(lambda leaf: leaf * 1e25, model), ROWS, chunk=2)
    assert scores.top1 == scores.top3 == 0
    assert not np.isfinite(scores.perplexity)


def test_unigram_guess():
    assert unigram_guess(np.array([[BOS, OOV, OOV, OOV, B, B, A]], np.int32)) == pytest.approx(2 / 6)
    assert unigram_guess(ROWS) == pytest.approx(2 / 5)


def test_head_words(model):
    heads = list(range(FIRST_WORD, FIRST_WORD + 5)) + list(range(FIRST_WORD + 20, FIRST_WORD + 25))
    histogram = head_word_histogram(preferring(model, *heads), ROWS, chunk=2)
    assert histogram[10][5] == 5  # five of ten, at each of the five words
    assert histogram[50][10] == histogram[100][10] == 5
    assert sum(histogram[10]) == 5


def test_suggestions_are_words_in_order(model):
    top = suggest(preferring(model, EOS, B, A, OOV, C), [A, C], 3)
    assert [word for word, _ in top] == [B, A, C]
    probabilities = [p for _, p in top]
    assert probabilities == sorted(probabilities, reverse=True)
    assert suggest(model, [A] * 40, 3)


def test_a_model_that_is_asked_again_is_not_compiled_again():
    traced = []

    class Watched(eqx.Module):
        bias: jax.Array

        def __call__(self, tokens):
            traced.append(tokens.shape)
            return jnp.broadcast_to(self.bias, (len(tokens), VOCABULARY))

    model = Watched(jnp.zeros(VOCABULARY))
    for context in ([A], [A, B], [C]):
        assert len(suggest(model, context, 200)) == VOCABULARY - FIRST_WORD
    assert len(traced) == 1
