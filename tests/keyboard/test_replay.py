"""Replayed typing: every count equals one computed by hand on simple models, and no model is favoured."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import equinox as eqx
import jax
import numpy as np
import pytest
from numpy.typing import NDArray

from tacit.data.users import BOS, EOS, OOV
from tacit.errors import DataError
from tacit.keyboard.replay import ReplayCounts, TypingHabits, record, replay
from tacit.keyboard.taps import Keyboard, Typist
from tacit.learning.next_word import evaluate
from tacit.learning.stepwise import Neural
from tacit.models.word_lm import WordLMConfig, build
from tests.support.list_users import ListUsers

WORDS = ["<pad>", "<bos>", "<eos>", "<oov>", "a", "be", "cat", "dune", "early"]
A, B, C, D, E = range(4, 9)
FINE = Typist(spread=0.01)  # nobody misses


@dataclass(frozen=True)
class ByLastWord:
    """A model that knows the last token alone: `table[last]` are the probabilities of those it thinks possible."""

    table: dict[int, dict[int, float]]
    vocabulary: int = len(WORDS)

    def begin(self, batch: int) -> tuple[NDArray[Any], ...]:
        return (np.zeros(batch, np.int64),)

    def read(self, state: tuple[NDArray[Any], ...], tokens: NDArray[np.integer]) -> tuple[NDArray[Any], ...]:
        return (tokens.astype(np.int64),)

    def log_probabilities(self, state: tuple[NDArray[Any], ...]) -> NDArray[np.float32]:
        rows = np.full((len(state[0]), self.vocabulary), 1e-4, np.float32)
        for row, last in zip(rows, state[0].tolist(), strict=True):
            for word, probability in self.table.get(last, {}).items():
                row[word] = probability
        return np.log(rows)


TABLE = {
    BOS: {A: 0.6, B: 0.3, C: 0.05},
    A: {B: 0.9, EOS: 0.05},
    B: {EOS: 0.95},
    C: {D: 0.4, A: 0.3, E: 0.2, B: 0.005},
    OOV: {OOV: 0.9, A: 0.05},
}


def play(users: list[list[list[int]]], model: Any = None, **habits: Any) -> ReplayCounts:
    recording = record(ListUsers(users), Keyboard.of(WORDS, FINE), habits=TypingHabits(**habits), seed=0)
    return replay(model or ByLastWord(TABLE), recording)


def counts(tally: ReplayCounts, name: str) -> list[float]:
    return tally.counts[name].tolist()


def test_recall_and_picks_by_hand() -> None:
    # User 0: a (1st of 3 shown), b (1st, one shown); c (3rd), e (3rd). User 1 wrote nothing. User 2: an unknown word, a.
    tally = play([[[A, B], [C, E]], [], [[OOV, A]]], attention=(0.5, 0.25, 0.125))
    assert counts(tally, "words") == [4, 0, 2]
    assert counts(tally, "top1") == [2, 0, 1]
    assert counts(tally, "top3") == [4, 0, 1]
    assert counts(tally, "shown") == [3 + 1 + 3 + 3, 0, 3 + 1]
    assert counts(tally, "picked") == [0.5 + 0.5 + 0.125 + 0.125, 0, 0.5]
    metrics = tally.metrics()
    assert metrics["top-1 recall"] == 3 / 6
    assert metrics["click-through rate"] == pytest.approx(1.75 / 14)


def test_a_word_that_is_too_unlikely_is_not_shown() -> None:
    assert counts(play([[[C]]], least_shown=0.06), "picked") == [0]
    assert counts(play([[[C]]], least_shown=0.04), "picked") == [pytest.approx(0.3)]


def test_equal_probabilities_go_to_the_smaller_id() -> None:
    tally = play([[[A, B, C, D]]], ByLastWord({}))
    assert (counts(tally, "top1"), counts(tally, "top3")) == ([1], [3])


def test_phrases_by_hand() -> None:
    # After bos the phrase is "a b" (0.54), then the sentence ends. It is right once of three times.
    tally = play([[[A, B]], [[A, C], [A]]], confidence=0.5)
    assert counts(tally, "composed") == [1, 2]
    assert counts(tally, "composed_right") == [1, 0]
    assert counts(play([[[A, B]]], confidence=0.55), "composed") == [0]
    sure = {BOS: {A: 0.99}, A: {B: 0.99}, B: {C: 0.99}, C: {D: 0.99}, D: {E: 0.99}}
    longer = play([[[A, B, C, D, E]]], ByLastWord(sure), longest_phrase=4)
    assert counts(longer, "composed") == [4]  # before a, b, c and d
    assert counts(longer, "composed_right") == [4]
    assert counts(play([[[A, B, C, E]]], ByLastWord(sure), longest_phrase=4), "composed_right") == [0]
    assert counts(play([[[A, B, C, E]]], ByLastWord(sure), longest_phrase=2), "composed_right") == [2]
    assert counts(play([[[E, B]]], ByLastWord(sure), longest_phrase=2), "composed_right") == [0]  # "a b" was shown


def test_typing_by_hand() -> None:
    tally = play([[[A, OOV, C]]])
    assert counts(tally, "typed") == [2]
    assert counts(tally, "modified") == [0]
    assert counts(tally, "minutes") == [pytest.approx((2 + 4) * 0.28 / 60)]


def test_users_at_once_and_the_model_before_change_nothing() -> None:
    generator = np.random.default_rng(2)
    users = [
        [generator.integers(3, 9, generator.integers(0, 5)).tolist() for _ in range(generator.integers(0, 6))]
        for _ in range(23)
    ]
    together, few = play(users), play(users, users_at_once=4)
    for name in together.counts:
        np.testing.assert_allclose(together.counts[name], few.counts[name], err_msg=name)
    words = [sum(map(len, user)) for user in users]
    assert counts(together, "words") == words
    capped = play(users, tokens_per_user=3)
    assert max(capped.counts["words"]) == 2  # one of three tokens is the bos


def test_every_model_meets_the_same_taps() -> None:
    keyboard = Keyboard.of(WORDS, Typist(spread=0.5))
    recording = record(ListUsers([[[A, B, C]] * 20] * 5), keyboard, seed=3)
    same = [replay(ByLastWord(table), recording) for table in ({}, {})]
    assert counts(same[0], "modified") == counts(same[1], "modified")
    other = replay(ByLastWord({}), record(ListUsers([[[A, B, C]] * 20] * 5), keyboard, seed=4))
    assert len(other) == 5


def test_a_model_of_nans_is_wrong_everywhere() -> None:
    class Broken(ByLastWord):
        def log_probabilities(self, state: tuple[NDArray[Any], ...]) -> NDArray[np.float32]:
            return np.full((len(state[0]), self.vocabulary), np.nan, np.float32)

    tally = play([[[A, B]]], Broken(TABLE))
    assert [counts(tally, name) for name in ("top1", "top3", "picked", "composed")] == [[0], [0], [0], [0]]
    assert counts(tally, "modified") == [2]


@pytest.mark.parametrize("first", [OOV, EOS])
def test_a_word_has_the_rank_that_training_reports(first: int) -> None:
    """Sentences that a row holds whole: the replay and `evaluate` then predict from the same state."""
    config = WordLMConfig(vocabulary=len(WORDS), embedding=6, units=5, projection=6, output_bias=True)
    model = build(config, key=jax.random.key(3))
    bias = jax.random.normal(jax.random.key(4), (len(WORDS),)).at[first].set(40.0)
    model = eqx.tree_at(lambda each: each.output_bias, model, bias)
    generator = np.random.default_rng(5)
    sentences = [generator.integers(OOV, len(WORDS), generator.integers(1, 6)).tolist() for _ in range(30)]
    rows = np.zeros((len(sentences), 8), np.int32)
    for row, sentence in zip(rows, sentences, strict=True):
        row[: len(sentence) + 2] = [BOS, *sentence, EOS]
    scores, tally = evaluate(model, rows), play([[sentence] for sentence in sentences], Neural(model))
    assert tally.counts["words"].sum() == scores.words
    assert tally.metrics()["top-1 recall"] == pytest.approx(scores.top1)
    assert tally.metrics()["top-3 recall"] == pytest.approx(scores.top3)
    assert scores.papers_top1 == 0 < scores.top1


def test_nobody_and_nothing_to_replay_are_refused() -> None:
    with pytest.raises(DataError, match="There are no held-out users to replay"):
        play([])
    with pytest.raises(DataError, match="got 2 who wrote none"):
        play([[], [[]]])
