"""The character model: its size, its loss and step, the words it says."""

from __future__ import annotations

import re

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from tacit.data import users as data
from tacit.data.rows import to_rows
from tacit.errors import RecipeError
from tacit.models.char_lm import (
    END,
    FIRST_BYTE,
    PAD,
    START,
    CharLM,
    CharLMConfig,
    NextSymbol,
    build,
    encode_words,
    likely_words,
    log_likelihoods,
    preset,
    sample_words,
)
from tacit.privacy.gate.rounding import LARGEST_NORM
from tests.support.diverged import stretched

TINY = CharLMConfig(layers=2, embedding=6, units=8, projection=5)
MODEL = jax.jit(lambda key: build(TINY, key=key))(jax.random.key(1))
ROWS = jnp.asarray(encode_words(["a b", "ü", ""], 4))
TASK = NextSymbol()
STEP = jax.jit(TASK.sgd_step)
LIKELIHOODS = jax.jit(log_likelihoods)


@pytest.mark.parametrize(("name", "count", "vectors"), [("paper", 756_738, 24), ("small", 90_114, 17)])
def test_presets_have_the_documented_sizes(name: str, count: int, vectors: int) -> None:
    leaves = jax.tree.leaves(jax.eval_shape(lambda key: build(preset(name), key=key), jax.random.key(0)))
    assert sum(leaf.size for leaf in leaves) == count
    assert len(leaves) == vectors


def test_the_papers_shape_is_counted_by_hand() -> None:
    symbols, width, units = 258, 128, 256
    layer = 3 * ((width + width) * units + units) + units * width
    assert 2 * symbols * width + symbols + 3 * layer == 756_738


def test_an_unknown_preset_is_named() -> None:
    with pytest.raises(RecipeError, match="among paper, small, got 'large'"):
        preset("large")


def test_rows_of_words_are_rows_of_sentences() -> None:
    """The layout the engines use for sentences is that of words as bytes."""
    assert (PAD, START, END) == (data.PAD, data.BOS, data.EOS)
    words = ["i have", "über", "x"]
    symbols = [np.frombuffer(word.encode(), np.uint8).astype(np.uint16) + FIRST_BYTE for word in words]
    offsets = np.cumsum([0, *map(len, symbols)]).astype(np.int64)
    examples = data.Examples(np.concatenate(symbols), offsets, np.array([0, 3]))
    for length in (4, 9):
        laid_out = to_rows(examples, layout="sentences", length=length, max_rows=9).tokens
        np.testing.assert_array_equal(laid_out, encode_words(words, length))


def test_the_loss_is_the_surprise_at_the_bytes_and_the_end() -> None:
    word = [*(byte + FIRST_BYTE for byte in "ü".encode()), END]
    scores = jax.nn.log_softmax(eqx.filter_jit(MODEL)(jnp.array([START, *word[:-1]], jnp.int32)))
    by_hand = -sum(float(scores[i, symbol - 1]) for i, symbol in enumerate(word))
    loss, count = jax.jit(TASK.loss_sum)(MODEL, ROWS[1:2])
    assert (float(loss), float(count)) == (pytest.approx(by_hand, rel=1e-5), len(word))
    np.testing.assert_allclose(LIKELIHOODS(MODEL, ROWS)[1], -by_hand, rtol=1e-5)


def test_a_step_is_that_of_plain_gradients() -> None:
    def mean(model: CharLM) -> jax.Array:
        loss, count = TASK.loss_sum(model, ROWS)
        return loss / count

    gradient = jax.jit(jax.grad(mean))(MODEL)
    expected = jax.tree.map(lambda leaf, g: leaf - 0.7 * g, MODEL, gradient)
    for ours, plain, before in zip(*map(jax.tree.leaves, (STEP(MODEL, ROWS, 0.7), expected, MODEL)), strict=True):
        np.testing.assert_allclose(ours, plain, rtol=1e-4, atol=1e-6)
        assert not np.array_equal(ours, before)


def test_padding_teaches_nothing() -> None:
    for model in (MODEL, stretched(MODEL, 2 * LARGEST_NORM)):
        nothing = STEP(model, jnp.zeros_like(ROWS), 0.7)
        assert all(np.array_equal(a, b) for a, b in zip(*map(jax.tree.leaves, (nothing, model)), strict=True))
    wider = jnp.concatenate([ROWS, jnp.zeros((2, 5), jnp.int32)])
    for a, b in zip(*map(jax.tree.leaves, (STEP(MODEL, wider, 0.7), STEP(MODEL, ROWS, 0.7))), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-6)


@pytest.fixture(scope="module")
def taught() -> CharLM:
    """A model that has read four words, in the shares 4 : 2 : 1 : 1."""
    words = ["i am"] * 4 + ["regex"] * 2 + ["é", "i have"]
    rows, task = jnp.asarray(encode_words(words, 8)), NextSymbol()
    model = build(CharLMConfig(layers=1, embedding=16, units=32, projection=16), key=jax.random.key(2))
    return jax.jit(lambda model: jax.lax.fori_loop(0, 1000, lambda _, m: task.sgd_step(m, rows, 2.0), model))(model)


def test_the_likeliest_words_are_the_ones_it_read_most(taught: CharLM) -> None:
    found = likely_words(taught, 4, longest=8, width=32)
    assert [word for word, _ in found][:2] == ["i am", "regex"]
    assert {word for word, _ in found} == {"i am", "regex", "é", "i have"}
    np.testing.assert_allclose([p for _, p in found], [0.5, 0.25, 0.125, 0.125], atol=0.05)


def test_a_words_probability_is_the_product_of_its_symbols(taught: CharLM) -> None:
    found = likely_words(taught, 4, longest=8, width=32)
    joint = np.exp(LIKELIHOODS(taught, jnp.asarray(encode_words([word for word, _ in found], 8))))
    np.testing.assert_allclose([p for _, p in found], joint, rtol=1e-4)
    drawn = sample_words(taught, 64, longest=8, key=jax.random.key(0))
    joint = np.exp(LIKELIHOODS(taught, jnp.asarray(encode_words([word for word, _ in drawn], 12))))
    np.testing.assert_allclose([p for _, p in drawn], joint, rtol=1e-3)


def test_words_are_drawn_as_often_as_they_are_likely(taught: CharLM) -> None:
    drawn = [word for word, _ in sample_words(taught, 2000, longest=8, key=jax.random.key(3))]
    assert drawn.count("i am") / 2000 == pytest.approx(0.5, abs=0.06)
    assert drawn.count("regex") / 2000 == pytest.approx(0.25, abs=0.05)


def test_words_that_do_not_end_are_left_out(taught: CharLM) -> None:
    short = [word for word, _ in sample_words(taught, 200, longest=4, key=jax.random.key(3))]
    assert "i am" in short
    assert "regex" not in short
    likely = [re.sub(r"\\x..", "?", word) for word, _ in likely_words(taught, 30, longest=4, width=16)]
    assert max(map(len, likely)) == 4


def test_the_beam_is_exhaustive_when_it_is_wide_enough() -> None:
    """All words of at most one byte, against the model asked directly."""
    every = ["", *(chr(code) for code in range(128))]
    direct = np.exp(LIKELIHOODS(MODEL, jnp.asarray(encode_words(every, 3))))
    found = dict(likely_words(MODEL, 300, longest=1, width=300))
    for word, p in zip(every, direct, strict=True):
        assert found[word] == pytest.approx(float(p), rel=1e-4)


def test_users_are_batched_with_models_of_their_own() -> None:
    models = jax.tree.map(lambda leaf: jnp.stack([0.9 * leaf, leaf, 1.1 * leaf]), MODEL)
    stepped = jax.jit(jax.vmap(lambda model: TASK.sgd_step(model, ROWS, 0.7)))(models)
    for ours, own in zip(*map(jax.tree.leaves, (stepped, STEP(MODEL, ROWS, 0.7))), strict=True):
        np.testing.assert_allclose(ours[1], own, rtol=1e-4, atol=1e-6)
