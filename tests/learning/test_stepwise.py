"""Every model that reads word by word keeps the contract; a neural one says what it says when it reads a whole row."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import jax
import numpy as np
import pytest

from tacit.data.users import BOS, EOS
from tacit.keyboard.history import WithHistory
from tacit.keyboard.ngram import Katz, train_katz
from tacit.learning.stepwise import Neural, Stepwise
from tacit.models.word_lm import WordLMConfig, build, preset
from tacit.testing.stepwise import StepwiseContract
from tests.support.implementations import covered, implementations

VOCABULARY = 9


def katz(order: int) -> Katz:
    words, offsets = np.array([4, 5, 6, 4, 5, 7, 8, 3, 5, 5]), np.array([0, 3, 8, 10])
    facts: Any = {"never": (0, BOS), "provenance": "a test", "is_public": True}
    return train_katz(words, offsets, order=order, vocabulary=VOCABULARY, bos=BOS, eos=EOS, **facts)


def neural() -> Neural:
    config = WordLMConfig(vocabulary=VOCABULARY, embedding=3, units=4, projection=3, output_bias=True)
    return Neural(build(config, key=jax.random.key(1)))


class TestNeural(StepwiseContract):
    implementation = Neural

    def model(self) -> Stepwise:
        return neural()


class TestKatz(StepwiseContract):
    implementation = Katz

    def model(self) -> Stepwise:
        return katz(3)


class TestKatzOfSingleWords(TestKatz):
    def model(self) -> Stepwise:
        return katz(1)


class TestWithHistory(StepwiseContract):
    implementation = WithHistory
    forgets_sentences = False

    def model(self) -> Stepwise:
        return WithHistory(katz(2), BOS, weight=0.5, half_way=3.0, memory=12)


class TestNeuralWithHistory(TestWithHistory):
    def model(self) -> Stepwise:
        return WithHistory(neural(), BOS, weight=0.5, half_way=3.0, memory=12)


def test_no_model_that_reads_word_by_word_is_forgotten() -> None:
    assert covered(globals(), StepwiseContract) == implementations(Stepwise)


class _Unscaled(Katz):
    def log_probabilities(self, state: Any) -> Any:
        return super().log_probabilities(state) - np.float32(0.1)


class _Shares(Katz):
    """The first row's context for all."""

    def read(self, state: Any, tokens: Any) -> Any:
        return tuple(np.repeat(each[:1], len(each), axis=0) for each in super().read(state, tokens))


class _Overwrites(Katz):
    def read(self, state: Any, tokens: Any) -> Any:
        (found,) = super().read(state, tokens)
        state[0][:] = found
        return (state[0],)


class _NeverForgets(Katz):
    def read(self, state: Any, tokens: Any) -> Any:
        tokens = np.where(tokens == BOS, state[0][:, 0], tokens)
        return super().read(state, tokens)


@pytest.mark.parametrize(
    ("broken", "promise"),
    [
        (_Unscaled, "test_it_gives_every_id_a_probability"),
        (_Shares, "test_a_row_depends_on_its_own_text_alone"),
        (_Shares, "test_a_copied_state_goes_on_like_its_original"),
        (_Overwrites, "test_reading_changes_nothing_but_what_it_returns"),
        (_NeverForgets, "test_a_bos_begins_a_sentence"),
    ],
)
def test_the_contract_notices_a_model_that_breaks_it(broken: type[Katz], promise: str) -> None:
    class Broken(TestKatz):
        def model(self) -> Stepwise:
            return broken(**vars(katz(3)))

    with pytest.raises(AssertionError):
        getattr(Broken(), promise)()


@pytest.mark.parametrize("name", ["tiny", "dp-fedavg"])
def test_reading_by_word_equals_reading_at_once(name: str) -> None:
    config = replace(preset(name), vocabulary=40, units=9)
    model = build(config, key=jax.random.key(3))
    stepwise = Neural(model)
    assert stepwise.vocabulary == 40
    rows = np.random.default_rng(0).integers(4, 40, (3, 6)).astype(np.int32)
    rows[:, 0] = BOS
    state = stepwise.begin(3)
    state = stepwise.read(state, np.array([9, 9, 9]))  # another sentence before: a bos forgets it
    for t in range(6):
        state = stepwise.read(state, rows[:, t])
    found = stepwise.log_probabilities(state)
    logits = np.asarray(jax.vmap(model)(rows))[:, -1]
    expected = logits - np.log(np.exp(logits.astype(np.float64)).sum(axis=1, keepdims=True))
    np.testing.assert_allclose(found, expected, atol=2e-5)
