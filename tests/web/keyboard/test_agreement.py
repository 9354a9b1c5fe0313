"""The models in the page are those of Python: the same suggestions in the same order, with the same probabilities."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import jax
import numpy as np
import pytest
from safetensors.numpy import save

from tacit.api.run import open_run
from tacit.data.text import tokenize
from tacit.data.users import BOS, EOS, FIRST_WORD, OOV, PAD, RESERVED
from tacit.export.model_files import words_metadata
from tacit.keyboard.ngram import train_katz
from tacit.keyboard.ngram_tree import tree_of
from tacit.learning.next_word import suggest
from tacit.models import transformer, word_lm
from tacit.models.transformer import TransformerConfig
from tacit.models.word_lm import WordLMConfig
from tests.support.typed_runs import file_of, shaken

pytestmark = pytest.mark.process

Suggestions = list[tuple[str, float]]
WORDS = [*RESERVED, *(f"w{''.join(chr(97 + int(digit)) for digit in str(number))}" for number in range(60))]
SHAPES = {
    "cifg fed back, tied, bias": WordLMConfig(embedding=12, units=20, projection=12, output_bias=True),
    "lstm with a dense layer": WordLMConfig(embedding=12, units=20, projection=12, cell="lstm", fed_back=False),
    "cifg, untied, unit norm": WordLMConfig(embedding=9, units=20, projection=14, tied=False, unit_norm=True),
    "lstm without projection": WordLMConfig(embedding=12, units=12, projection=None, cell="lstm", output_bias=True),
}
# Unequal probabilities that are nearer than this may change places: sums are rounded in another order.
NEAR = 1e-6


def texts(words: list[str], count: int = 25) -> list[str]:
    generator = np.random.default_rng(3)
    drawn = [generator.choice(words[FIRST_WORD:], generator.integers(0, 14)) for _ in range(count - 1)]
    return ["", *(" ".join(["zzz" if generator.random() < 0.1 else word for word in row]) for row in drawn)]


def in_page(page: Any, name: str, typed: list[str], count: int) -> list[Suggestions]:
    found = page.evaluate(
        "([name, typed, count]) => typed.map((text) => tacitKeyboard[name](text, count))", [name, typed, count]
    )
    return [[(each["word"], each["probability"]) for each in row] for row in found]


def require_same(there: list[Suggestions], here: list[Suggestions]) -> None:
    for page, python in zip(there, here, strict=True):
        chances = dict(python)
        for (word, probability), (own, expected) in zip(page, python, strict=True):
            assert probability == pytest.approx(expected, abs=1e-4, rel=1e-3)
            assert word == own or chances.get(word, 0) == pytest.approx(expected, abs=NEAR)


def test_recurrent_models_of_every_shape(made: Callable[[dict[str, bytes]], Any]) -> None:
    models = {
        name: shaken(word_lm.build(replace(shape, vocabulary=len(WORDS)), key=jax.random.key(1)), 1)
        for name, shape in SHAPES.items()
    }
    page, number = (
        made({name: file_of(model, WORDS) for name, model in models.items()}),
        {w: i for i, w in enumerate(WORDS)},
    )
    for name, model in models.items():
        own = [
            [(WORDS[i], p) for i, p in suggest(model, [number.get(word, OOV) for word in text.split()], 5)]
            for text in texts(WORDS)
        ]
        require_same(in_page(page, name, texts(WORDS), 5), own)


@pytest.mark.parametrize("longest", [None, 5])
def test_transformers(made: Callable[[dict[str, bytes]], Any], longest: int | None) -> None:
    shape = TransformerConfig(vocabulary=len(WORDS), width=24, heads=3, layers=2, hidden=20)
    model = shaken(transformer.build(shape, key=jax.random.key(2)), 2)
    page, number = made({"attends": file_of(model, WORDS, longest=longest)}), {w: i for i, w in enumerate(WORDS)}
    own = [
        [(WORDS[i], p) for i, p in suggest(model, [number.get(w, OOV) for w in text.split()], 5, longest=longest)]
        for text in texts(WORDS)
    ]
    require_same(in_page(page, "attends", texts(WORDS), 5), own)


@pytest.mark.parametrize("order", [1, 3, 5])
def test_ngrams(made: Callable[[dict[str, bytes]], Any], order: int) -> None:
    generator = np.random.default_rng(5)
    sentences = [generator.zipf(1.3, generator.integers(1, 9)) % 40 + OOV for _ in range(400)]
    katz = train_katz(
        np.concatenate(sentences),
        np.cumsum([0, *map(len, sentences)]),
        order=order,
        vocabulary=len(WORDS),
        bos=BOS,
        eos=EOS,
        never=(PAD, BOS),
        provenance="made up",
        is_public=True,
    )
    about = {**words_metadata(WORDS), "architecture": json.dumps({"kind": "ngram", "order": order})}
    page, number = made({"counted": save(tree_of(katz), about)}), {word: i for i, word in enumerate(WORDS)}
    own = []
    for text in texts(WORDS):
        state = katz.begin(1)
        for token in [BOS, *(number.get(word, OOV) for word in text.split())]:
            state = katz.read(state, np.array([token]))
        logs = katz.log_probabilities(state)[0, FIRST_WORD:]
        order_of_words = np.argsort(-logs, kind="stable")[:5]
        own.append([(WORDS[FIRST_WORD + i], float(np.exp(logs[i]))) for i in order_of_words])
    require_same(in_page(page, "counted", texts(WORDS), 5), own)


def test_the_run_suggests_what_predict_does(opened: Any, run: Path) -> None:
    trained = open_run(run)
    typed = [*texts(trained.words, 12), "see you", "See  you, at", "Don't  you’d"]
    require_same(in_page(opened, run.name, typed, 3), [trained.predict(text) for text in typed])


def test_text_is_cut_into_the_same_tokens(opened: Any) -> None:
    marks = [chr(code) for code in range(0x300, 0x330)]
    typed = [
        "Hello, WORLD! it's 5pm; don't--stop: 'tis o'clock's...",
        "año e\u0301te\u0301 nai\u0308ve \u2019quoted\u2019 rock\u2019n\u2019roll",
        "हिन्दी में लिखो நன்றி 日本語 テスト Ⅷ ½ ² x² \U0001d49c\U0001d4b7",
        "snake_case a.b e-mail @me #tag 100% 3,14 ?! ;-) İstanbul ΣΊΣΥΦΟΣ straße",
        "a" + "b".join(marks) + " " + " ".join(f"x{mark}" for mark in marks),
    ]
    assert opened.evaluate("(typed) => typed.map(tacitKeyboard.tokens)", typed) == [tokenize(text) for text in typed]
