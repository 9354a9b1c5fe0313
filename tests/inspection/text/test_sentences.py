"""Generated sentences are draws from the model's distribution."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from tacit.data.users import BOS, EOS, OOV, PAD
from tacit.inspection.text import sentences
from tacit.inspection.text.sentences import draw_sentences, in_words
from tacit.models.word_lm import WordLM, WordLMConfig, build

WORDS = ("<pad>", "<bos>", "<eos>", "<oov>", "good", "day", "zog")


@pytest.fixture
def model() -> WordLM:
    """A model with seven entries, whose probabilities are far from uniform."""
    config = WordLMConfig(vocabulary=len(WORDS), embedding=6, units=8, projection=6)
    return jax.tree.map(lambda leaf: leaf * 3, build(config, key=jax.random.key(2)))


def test_words_come_as_often_as_the_model_says(model: WordLM) -> None:
    drawn = draw_sentences(model, 20_000, longest=2, key=jax.random.key(3))
    logits = np.array(model(jnp.array([BOS], jnp.int32))[0], np.float64)
    logits[[PAD, BOS]] = -np.inf
    expected = np.exp(logits - logits.max())
    expected /= expected.sum()
    found = np.bincount(drawn[:, 0], minlength=len(WORDS)) / len(drawn)
    found[EOS] = found[PAD]  # an empty sentence is all padding
    error = np.sqrt(expected * (1 - expected) / len(drawn))
    assert (np.abs(found - expected)[EOS:] <= 5 * error[EOS:]).all()
    assert expected[EOS:].max() > 0.3  # an even draw would not pass


def test_the_second_word_depends_on_the_first(model: WordLM) -> None:
    drawn = draw_sentences(model, 20_000, longest=2, key=jax.random.key(3))
    first = int(np.bincount(drawn[:, 0])[OOV:].argmax()) + OOV
    after = drawn[drawn[:, 0] == first, 1]
    logits = np.array(model(jnp.array([BOS, first], jnp.int32))[1], np.float64)
    logits[[PAD, BOS]] = -np.inf
    expected = np.exp(logits - logits.max())
    expected /= expected.sum()
    found = np.bincount(after, minlength=len(WORDS)) / len(after)
    error = np.sqrt(expected * (1 - expected) / len(after))
    assert (np.abs(found - expected)[OOV:] <= 5 * error[OOV:]).all()


def test_a_sentence_ends_once_and_is_padded(model: WordLM, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sentences, "CHUNK", 16)
    drawn = draw_sentences(model, 40, longest=9, key=jax.random.key(1))
    assert drawn.shape == (40, 9)
    assert set(np.unique(drawn)) <= {PAD, *range(OOV, len(WORDS))}
    is_word = drawn >= OOV
    assert (is_word[:, 1:] <= is_word[:, :-1]).all()  # nothing after the end
    assert len(np.unique(drawn, axis=0)) > 10  # the calls do not repeat each other
    assert (draw_sentences(model, 40, longest=9, key=jax.random.key(1)) == drawn).all()


def test_unknown_words_are_shown_as_such() -> None:
    assert in_words(np.array([4, 3, 6, 0, 0], np.int32), WORDS) == "good UNK zog"
    assert in_words(np.zeros(3, np.int32), WORDS) == ""
