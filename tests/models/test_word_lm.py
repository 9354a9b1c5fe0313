"""The word model: its sizes, its one-example meaning, its loss."""

from __future__ import annotations

from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from tacit.errors import RecipeError
from tacit.models.word_lm import PRESETS, WordLMConfig, build, loss_sum, parameter_count, preset

SMALL = WordLMConfig(vocabulary=17, embedding=5, units=9, projection=5)


@pytest.mark.parametrize(
    ("name", "count", "vectors"),
    [
        ("dp-fedavg", 1_346_144, 11),
        ("production", 1_412_250, 8),
        ("gboard-10k", 2_372_250, 9),
        ("gboard-20k", 4_292_250, 9),
        ("gboard-30k", 6_212_250, 9),
        ("benchmark", 1_142_800, 9),
        ("tiny", 51_152, 9),
    ],
)
def test_presets_have_the_documented_sizes(name: str, count: int, vectors: int) -> None:
    shapes = jax.eval_shape(lambda key: build(preset(name), key=key), jax.random.key(0))
    leaves = jax.tree.leaves(shapes)
    assert sum(leaf.size for leaf in leaves) == count
    assert len(leaves) == vectors


def test_every_preset_is_pinned_above() -> None:
    assert len(PRESETS) == 7


def test_gboard_figures_are_met_when_k_is_1024() -> None:
    for thousands, paper in ((10, 2.4), (20, 4.4), (30, 6.4)):
        config = replace(preset("gboard-10k"), vocabulary=1024 * thousands)
        shapes = jax.eval_shape(lambda key, config=config: build(config, key=key), jax.random.key(0))
        assert round(sum(leaf.size for leaf in jax.tree.leaves(shapes)) / 1e6, 1) == paper


def test_parameter_count_counts_a_built_model() -> None:
    # Embedding 17·5, three gates of 10·9 + 9, projection 9·5.
    assert parameter_count(build(SMALL, key=jax.random.key(0))) == 85 + 297 + 45


@pytest.mark.parametrize(
    "config", [SMALL, replace(SMALL, cell="lstm", fed_back=False, unit_norm=True, output_bias=True)]
)
def test_steps_one_by_one_give_the_logits_of_the_sequence(config: WordLMConfig) -> None:
    model = build(config, key=jax.random.key(1))
    tokens = jnp.array([1, 5, 16, 5], jnp.int32)
    state, logits = model.initial_state(), []
    for token in tokens:
        state, now = model.step(state, token)
        logits.append(now)
    np.testing.assert_allclose(jnp.stack(logits), model(tokens), rtol=1e-5, atol=1e-6)


def test_a_word_does_not_see_the_words_after_it() -> None:
    model = build(SMALL, key=jax.random.key(1))
    one, other = jnp.array([1, 5, 16], jnp.int32), jnp.array([1, 5, 3], jnp.int32)
    np.testing.assert_array_equal(model(one)[:2], model(other)[:2])
    assert float(jnp.max(jnp.abs(model(one)[2] - model(other)[2]))) > 1e-4


@pytest.mark.parametrize("cell", ["lstm", "cifg"])
def test_a_cell_follows_its_equations(cell: str) -> None:
    """One word through the gates, spelled out in numpy."""
    model = build(replace(SMALL, cell=cell, unit_norm=True, output_bias=True), key=jax.random.key(3))

    def sigmoid(z: np.ndarray) -> np.ndarray:
        return 1 / (1 + np.exp(-z))

    c, r = np.zeros(9), np.zeros(5)
    table = np.asarray(model.embedding, np.float64)
    table = table / np.linalg.norm(table, axis=1, keepdims=True)
    for token in (4, 8):
        seen = np.concatenate([table[token], r])
        z = {name: seen @ np.asarray(gate.kernel) + np.asarray(gate.bias) for name, gate in model.cell.gates.items()}
        forget = sigmoid(z["forget"])
        let_in = sigmoid(z["input"]) if cell == "lstm" else 1 - forget
        c = forget * c + let_in * np.tanh(z["candidate"])
        r = (sigmoid(z["output"]) * np.tanh(c)) @ np.asarray(model.cell.projection)
    expected = table @ r + np.asarray(model.output_bias)
    np.testing.assert_allclose(model(jnp.array([4, 8], jnp.int32))[1], expected, rtol=1e-4, atol=1e-6)


def test_loss_is_the_cross_entropy_of_unmasked_predictions() -> None:
    model = build(replace(SMALL, output_bias=True), key=jax.random.key(2))
    tokens = jnp.array([[1, 5, 6, 2], [1, 9, 2, 0]], jnp.int32)
    mask = jnp.array([[1, 1, 1], [1, 1, 0]], jnp.float32)
    total, count = loss_sum(model, {"tokens": tokens, "mask": mask})
    log_p = jax.nn.log_softmax(jax.vmap(model)(tokens[:, :-1]))
    expected = -sum(log_p[b, t, tokens[b, t + 1]] for b, t in ((0, 0), (0, 1), (0, 2), (1, 0), (1, 1)))
    assert float(count) == 5
    np.testing.assert_allclose(total, expected, rtol=1e-5)


def test_bf16_rounds_products_but_not_the_result() -> None:
    model = build(SMALL, key=jax.random.key(1))
    tokens = jnp.array([1, 5, 16], jnp.int32)
    exact, rounded = model(tokens), model(tokens, precision="bf16")
    assert rounded.dtype == jnp.float32
    assert 0 < float(jnp.linalg.norm(rounded - exact) / jnp.linalg.norm(exact)) < 0.02


def test_mistakes_are_named() -> None:
    with pytest.raises(RecipeError, match="'gpt'"):
        preset("gpt")
    with pytest.raises(RecipeError, match=r"model\.units >= 1, got 0"):
        build(replace(SMALL, units=0), key=jax.random.key(0))
    with pytest.raises(RecipeError, match="output width of 5"):
        build(replace(SMALL, projection=4), key=jax.random.key(0))
