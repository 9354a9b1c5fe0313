"""The check finds an ONNX file that disagrees with the model, wherever the mistake is."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from tacit.data.users import BOS, FIRST_WORD, OOV
from tacit.errors import RunError
from tacit.export.onnx_check import SENTENCE, require_agreement, synthetic_contexts
from tacit.export.onnx_step import onnx_step
from tacit.models.word_lm import PRESETS, WordLM, build

WORDS = [f"w{i}" for i in range(200)]


@pytest.fixture(scope="module")
def model() -> WordLM:
    return build(replace(PRESETS["tiny"], vocabulary=200), key=jax.random.key(3))


def file_of(model: WordLM, words: list[str] = WORDS) -> bytes:
    return onnx_step(model, words, begin=BOS, first_word=FIRST_WORD, shown=3, metadata={})


@pytest.mark.parametrize("contexts", [1, 19, 230])
def test_a_faithful_file_agrees_on_as_many_contexts_as_asked_for(model: WordLM, contexts: int) -> None:
    found = require_agreement(file_of(model), model, WORDS, contexts=contexts, seed=0)
    assert found.contexts == contexts
    assert found.same >= contexts - 1  # but for a tie
    assert 0 < found.largest_difference < 1e-4
    assert 0 < found.largest_logit_difference < 1e-4


def test_many_contexts_are_compared_part_by_part(model: WordLM, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tacit.export.onnx_check.AT_ONCE", 100)
    found = require_agreement(file_of(model), model, WORDS, contexts=230, seed=0)
    assert found.contexts == 230
    assert found.same >= 229
    with pytest.raises(RunError, match="disagree on"):
        require_agreement(file_of(MISTAKES["one word's bias"](model)), model, WORDS, contexts=230, seed=0)


MISTAKES: dict[str, Callable[[WordLM], WordLM]] = {
    "one kernel a little off": lambda m: eqx.tree_at(lambda n: n.cell.gates["forget"].kernel, m, replace_fn=lambda a: a * 1.1),
    "fed back a little off": lambda m: eqx.tree_at(
        lambda n: n.cell.gates["output"].kernel, m, replace_fn=lambda a: a.at[-20:].multiply(jnp.float32(1.1))
    ),
    "one word's bias": lambda m: eqx.tree_at(lambda n: n.output_bias, m, replace_fn=lambda a: a.at[9].add(jnp.float32(3))),
    "the bias of a word that is never shown": lambda m: eqx.tree_at(
        lambda n: n.output_bias, m, replace_fn=lambda a: a.at[0].add(jnp.float32(-9)).at[199].add(jnp.float32(-9))
    ),
    "not a number": lambda m: eqx.tree_at(lambda n: n.cell.projection, m, replace_fn=lambda a: a * jnp.float32(jnp.nan)),
}  # fmt: skip


@pytest.mark.parametrize("mistake", MISTAKES)
def test_another_model_is_found_out(model: WordLM, mistake: str) -> None:
    with pytest.raises(RunError, match=r"disagree on .* nothing was written"):
        require_agreement(file_of(MISTAKES[mistake](model)), model, WORDS, contexts=100, seed=0)


def test_numbers_that_are_none_agree_with_nothing(model: WordLM) -> None:
    broken = MISTAKES["not a number"](model)
    with pytest.raises(RunError, match="disagree"):
        require_agreement(file_of(broken), broken, WORDS, contexts=10, seed=0)


def test_words_in_another_order_are_found_out(model: WordLM) -> None:
    with pytest.raises(RunError, match="disagree"):
        require_agreement(file_of(model, WORDS[::-1]), model, WORDS, contexts=10, seed=0)


def test_equally_likely_words_may_change_places(model: WordLM, monkeypatch: pytest.MonkeyPatch) -> None:
    silent = jax.tree.map(jnp.zeros_like, model)
    monkeypatch.setattr("tacit.export.onnx_check.likeliest", lambda p, n: np.tile(np.array([9, 8, 7]), (len(p), 1)))
    found = require_agreement(file_of(silent), silent, WORDS, contexts=40, seed=0)
    assert (found.contexts, found.same) == (40, 0)


def test_made_up_sentences_begin_twice_and_hold_no_padding() -> None:
    tokens: Any = synthetic_contexts(500, 200, np.random.default_rng(0))
    assert tokens.shape == (500, 2 * SENTENCE)
    assert (tokens[:, [0, SENTENCE]] == BOS).all()
    inside = np.delete(tokens, [0, SENTENCE], axis=1)
    assert inside.min() == OOV
    assert inside.max() == 199
    assert (inside < 20).sum() > (inside >= 100).sum()
