"""The exported step is the model: every shape of cell and table, word by word, in ONNX Runtime."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import onnx
import onnxruntime
import pytest

from tacit.export.onnx_step import INPUTS, OPSET, OUTPUTS, onnx_step
from tacit.models.word_lm import PRESETS, WordLM, WordLMConfig, build

BEGIN, FIRST_WORD, SHOWN = 1, 4, 3
SMALL = WordLMConfig(vocabulary=30, embedding=5, units=7, projection=5, output_bias=True)
SHAPES = {
    "cifg": SMALL,
    "lstm": replace(SMALL, cell="lstm"),
    "not fed back": replace(SMALL, fed_back=False),
    "no projection": replace(SMALL, projection=None, tied=False),
    "two tables": replace(SMALL, tied=False, projection=6),
    "no output bias": replace(SMALL, output_bias=False),
    "unit norm": replace(SMALL, unit_norm=True),
    "unit norm, two tables": replace(SMALL, unit_norm=True, tied=False),
}
WORDS = ["<pad>", "<bos>", "<eos>", "<oov>", "naïve", *(f"w{i}" for i in range(5, 30))]


def shaken(config: WordLMConfig) -> WordLM:
    """A model none of whose arrays is zero: a bias that is left out shows."""
    model = build(config, key=jax.random.key(1))
    leaves, structure = jax.tree.flatten(model)
    keys = jax.random.split(jax.random.key(2), len(leaves))
    return jax.tree.unflatten(
        structure, [leaf + jax.random.normal(key, leaf.shape) for key, leaf in zip(keys, leaves, strict=True)]
    )


def session(model: WordLM, **metadata: str) -> Any:
    made = onnx_step(model, WORDS, begin=BEGIN, first_word=FIRST_WORD, shown=SHOWN, metadata=metadata)
    return onnxruntime.InferenceSession(made, providers=["CPUExecutionProvider"])


def step(running: Any, tokens: list[int], state: tuple[Any, Any]) -> tuple[Any, Any, Any, tuple[Any, Any]]:
    words, ids, probabilities, _, c, r = running.run(
        list(OUTPUTS), dict(zip(INPUTS, (np.array(tokens), *state), strict=True))
    )
    return words, ids, probabilities, (c, r)


def empty(model: WordLM, rows: int) -> tuple[Any, Any]:
    return np.zeros((rows, model.cell.units), np.float32), np.zeros((rows, model.cell.fed_back_width), np.float32)


@pytest.mark.parametrize("name", SHAPES)
def test_each_step_shows_what_the_model_would(name: str) -> None:
    model = shaken(SHAPES[name])
    running, state = session(model), empty(model, 2)
    texts = [[BEGIN, 7, 4, 29, 3], [BEGIN, 12, 12, 5, 6]]
    expected = [np.asarray(jax.nn.softmax(model(jnp.array(text)))) for text in texts]
    for position in range(5):
        words, ids, probabilities, state = step(running, [text[position] for text in texts], state)
        for row in range(2):
            ours = expected[row][position][FIRST_WORD:]
            best = np.argsort(-ours, kind="stable")[:SHOWN]
            assert ids[row].tolist() == (best + FIRST_WORD).tolist()
            assert words[row].tolist() == [WORDS[id] for id in ids[row]]
            np.testing.assert_allclose(probabilities[row], ours[best], rtol=2e-5)


@pytest.mark.parametrize("name", SHAPES)
def test_logits_are_the_models(name: str) -> None:
    model = shaken(SHAPES[name])
    running, (c, r) = session(model), empty(model, 1)
    text = [BEGIN, 7, 4, 29, 3]
    expected = np.asarray(model(jnp.array(text)))
    for position, token in enumerate(text):
        logits, c, r = running.run(["logits", "next_c", "next_r"], {"token": np.array([token]), "c": c, "r": r})
        assert logits.shape == (1, len(WORDS))
        np.testing.assert_allclose(logits[0], expected[position], rtol=2e-5, atol=2e-5)


def test_a_begin_leaves_the_sentence_before_behind_and_nothing_else_does() -> None:
    model = shaken(SMALL)
    running = session(model)
    fresh = step(running, [BEGIN], empty(model, 1))
    *_, typed = step(running, [9], fresh[3])
    again = step(running, [BEGIN], typed)
    np.testing.assert_array_equal(again[2], fresh[2])
    assert not np.allclose(step(running, [9], typed)[2], step(running, [9], fresh[3])[2])


def test_reserved_entries_are_never_shown() -> None:
    model = shaken(SMALL)
    loud = eqx.tree_at(lambda m: m.output_bias, model, model.output_bias.at[:FIRST_WORD].set(30.0))
    _, ids, probabilities, _ = step(session(loud), [BEGIN], empty(model, 1))
    assert ids.min() >= FIRST_WORD
    assert probabilities.sum() < 1e-6  # they are likelier all the same, and the probabilities say so


def test_equally_likely_words_come_by_their_ids() -> None:
    silent = jax.tree.map(jnp.zeros_like, build(SMALL, key=jax.random.key(1)))
    words, ids, probabilities, _ = step(session(silent), [BEGIN], empty(silent, 1))
    assert ids.tolist() == [[4, 5, 6]]
    assert words.tolist() == [["naïve", "w5", "w6"]]
    np.testing.assert_allclose(probabilities, 1 / 30)


def test_the_file_is_plain_onnx_with_its_metadata() -> None:
    made = onnx_step(
        shaken(SMALL), WORDS, begin=BEGIN, first_word=FIRST_WORD, shown=SHOWN, metadata={"guarantee": "ε = 2"}
    )
    read = onnx.load_from_string(made)
    assert {each.key: each.value for each in read.metadata_props} == {"guarantee": "ε = 2"}
    assert [(each.domain, each.version) for each in read.opset_import] == [("", OPSET)]
    assert [each.name for each in read.graph.input] == list(INPUTS)
    assert [each.name for each in read.graph.output] == list(OUTPUTS)


def test_a_tied_table_is_in_the_file_once() -> None:
    tied = onnx_step(
        build(replace(PRESETS["tiny"], vocabulary=30), key=jax.random.key(1)),
        WORDS, begin=BEGIN, first_word=FIRST_WORD, shown=SHOWN, metadata={},
    )  # fmt: skip
    tables = [each.name for each in onnx.load_from_string(tied).graph.initializer if list(each.dims) == [30, 20]]
    assert tables == ["embedding"]
