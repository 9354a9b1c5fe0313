"""Judges: marks of a classifier and of a next-word model, likelihoods of sentences."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from tacit.data.users import BOS, EOS, Examples
from tacit.data.worlds.handwriting import HandwritingWorld
from tacit.errors import DataError
from tacit.inspection.example_scores import Marks, image_judge, word_judge, word_likelihood
from tacit.models import classifier, word_lm
from tests.support.list_users import ListUsers

WRITERS = HandwritingWorld(0, 9, glyphs_per_writer=60)
MODEL = jax.jit(lambda key: classifier.build(classifier.preset("small", 62), key=key))(jax.random.key(0))
WORDS = jax.jit(
    lambda key: word_lm.build(word_lm.WordLMConfig(vocabulary=12, embedding=6, units=8, projection=6), key=key)
)(jax.random.key(3))
LOG_SOFTMAX = jax.jit(lambda tokens: jax.nn.log_softmax(WORDS(tokens)))


def test_marks_are_summed_over_users() -> None:
    marks = Marks(np.array([1, 0, 2, 1]), np.array([1, 1, 3, 1]))
    by_user = marks.by_user(np.array([0, 2, 2, 4]))
    assert by_user.right.tolist() == [1, 0, 3]
    np.testing.assert_array_equal(by_user.accuracy(), [0.5, np.nan, 0.75])


def test_an_image_is_right_if_its_class_is_the_likeliest() -> None:
    everyone = WRITERS.gather(np.arange(9))
    assert everyone.labels is not None
    guesses = classifier.predict(MODEL, everyone.items)
    marks = image_judge(MODEL)(everyone)
    assert np.array_equal(marks.right, (guesses == everyone.labels).astype(int))
    assert marks.asked.sum() == len(everyone.items)


def test_a_users_marks_do_not_depend_on_who_is_judged_beside() -> None:
    judge = image_judge(MODEL)
    everyone = WRITERS.gather(np.arange(9))
    together = np.split(judge(everyone).right, everyone.user_offsets[1:-1])
    for user in range(9):
        assert np.array_equal(together[user], judge(WRITERS.gather(np.array([user]))).right)


def test_one_users_label_stops_nothing() -> None:
    """Whether a run goes on must not depend on what one of the users has: no noise would cover that."""
    digits = jax.jit(lambda key: classifier.build(classifier.preset("small", 10), key=key))(jax.random.key(0))
    everyone = WRITERS.gather(np.arange(9))
    assert everyone.labels is not None
    marks = image_judge(digits)(everyone)
    assert marks.asked.sum() == len(everyone.labels)
    assert not marks.right[everyone.labels >= 10].any()


def test_users_of_another_kind_are_refused() -> None:
    with pytest.raises(DataError, match="needs users with images"):
        image_judge(MODEL)(ListUsers([[[4]]]).gather(np.array([0])))
    with pytest.raises(DataError, match="needs users with text"):
        word_judge(WORDS, length=4)(WRITERS.gather(np.arange(1)))


def by_hand(sentence: list[int]) -> tuple[int, float]:
    row = [BOS, *sentence, EOS]
    scores = np.asarray(LOG_SOFTMAX(jnp.array([*row, 0, 0, 0][:5], jnp.int32)))  # what follows the row is not looked at
    right = sum(int(scores[i].argmax()) == word and word >= 4 for i, word in enumerate(sentence))
    return right, float(np.mean([scores[i, word] for i, word in enumerate(row[1:])]))


def test_sentences_are_judged_word_by_word() -> None:
    sentences = [[4, 5, 6], [3, 7], [9], [8, 8, 8]]
    examples = ListUsers([sentences[:2], sentences[2:]]).gather(np.arange(2))
    marks = word_judge(WORDS, length=5)(examples)
    assert marks.asked.tolist() == [3, 2, 1, 3]
    assert marks.right.tolist() == [by_hand(s)[0] for s in sentences]
    likelihood = word_likelihood(WORDS, length=5)(examples)
    np.testing.assert_allclose(likelihood, [by_hand(s)[1] for s in sentences], rtol=1e-4)


def test_an_empty_batch_has_no_marks() -> None:
    nobody = Examples(np.empty(0, np.uint16), np.zeros(1, np.int64), np.zeros(1, np.int64))
    assert len(word_judge(WORDS, length=5)(nobody).right) == 0
