"""Pre-training reads public text in the model's own words, as often as it was told, and the same way every time."""

from __future__ import annotations

from typing import Any

import jax
import numpy as np
import pytest

from tacit.data.users import BOS, EOS, FIRST_WORD, OOV, PAD
from tacit.errors import DataError, DivergedError
from tacit.learning.central import Descent
from tacit.learning.next_word import NextWord, evaluate
from tacit.learning.pretrain import PretrainingSchedule, Reworded, predictions_in, pretrain, public_rows, unknown_share
from tacit.models.word_lm import WordLMConfig, build
from tests.support.list_users import ListUsers

RESERVED = ("<pad>", "<bos>", "<eos>", "<oov>")
PUBLIC = (*RESERVED, "dear", "madam", "see", "you")
OWN = (*RESERVED, "you", "lol", "see")
YOU, SEE = FIRST_WORD, FIRST_WORD + 2


def test_words_are_mapped_by_their_text_and_the_others_are_unknown():
    users = Reworded(ListUsers([[[4, 5, 7]], [], [[6, 7], [3]]]), PUBLIC, OWN)
    assert (len(users), users.shared) == (3, 2)
    examples = users.gather(np.array([2, 0]))
    assert examples.items.tolist() == [SEE, YOU, OOV, OOV, OOV, YOU]
    assert examples.user_offsets.tolist() == [0, 2, 3]


def test_a_word_that_looks_reserved_is_a_word_like_any_other():
    """A public vocabulary may hold the text of a reserved entry; it must not become padding."""
    users = Reworded(ListUsers([[[4, 5]]]), (*RESERVED, "<pad>", "you"), OWN)
    assert users.gather(np.array([0])).items.tolist() == [OOV, YOU]


def test_rows_hold_everything_that_was_written():
    users = ListUsers([[[SEE, YOU]] * 5, [], [[YOU]]])
    rows = public_rows(users, layout="windows", length=3)
    assert rows.shape == (7 + 1, 4)
    assert rows[-1].tolist() == [BOS, YOU, EOS, PAD]
    assert predictions_in(rows) == 5 * 3 + 2
    assert public_rows(users, layout="sentences", length=3).shape == (6, 4)


def test_the_share_of_unknown_words_counts_words_only():
    assert unknown_share(np.array([[BOS, OOV, YOU, EOS, PAD], [BOS, YOU, SEE, EOS, BOS]], np.int32)) == 1 / 4


@pytest.mark.parametrize("users", [[], [[]], [[[]]], [[[OOV, OOV]]]], ids=["nobody", "nothing", "empty", "unknown"])
def test_text_without_a_known_word_is_refused(users):
    with pytest.raises(DataError, match="has no word that the model knows"):
        public_rows(ListUsers(users), layout="windows", length=4)


@pytest.mark.parametrize(
    ("schedule", "steps", "sizes"),
    [
        (PretrainingSchedule(4, epochs=2), 6, [10, 10]),
        (PretrainingSchedule(4, steps=5), 5, [10, 8]),
        (PretrainingSchedule(4, steps=1), 1, [4]),
        (PretrainingSchedule(40, epochs=1), 1, [10]),
    ],
)
def test_a_schedule_is_epochs_or_steps(schedule, steps, sizes):
    assert schedule.steps_of(10) == steps
    assert [len(each) for each in schedule.order(10)] == sizes


@pytest.mark.parametrize("tied", [True, False], ids=["one table", "two tables"])
def test_the_model_learns_the_public_text_the_same_way_every_time(tied):
    config = WordLMConfig(vocabulary=12, embedding=4, units=6, projection=4, tied=tied, output_bias=True)
    model = build(config, key=jax.random.key(0))
    rows = np.tile(np.array([BOS, 4, 5, 6, 7, EOS], np.int32), (40, 1))
    told: list[Any] = []
    schedule, descent = PretrainingSchedule(4, epochs=10), Descent(NextWord(), "adam", 0.05)
    trained = pretrain(model, rows, schedule, descent, on_progress=lambda *progress: told.append(progress))
    assert evaluate(model, rows).top1 < 0.9
    assert evaluate(trained, rows).top1 == 1.0
    assert told[-1][:2] == (100, 100)
    again = pretrain(model, rows, schedule, descent)
    for one, other in zip(jax.tree.leaves(trained), jax.tree.leaves(again), strict=True):
        np.testing.assert_array_equal(one, other)
    for before, after in zip(jax.tree.leaves(model), jax.tree.leaves(trained), strict=True):
        assert not np.array_equal(before, after)  # every table learns


def test_a_rate_that_is_too_high_is_named():
    model = build(WordLMConfig(vocabulary=12, embedding=4, units=6, projection=4), key=jax.random.key(0))
    rows = np.tile(np.array([BOS, 4, 5, 6, 7, EOS], np.int32), (8, 1))
    with pytest.raises(DivergedError, match=r"^Pre-training diverged by step \d+") as caught:
        pretrain(model, rows, PretrainingSchedule(4, epochs=4), Descent(NextWord(), "sgd", 1e38))
    assert caught.value.hint == "Lower pretrain.learning_rate."
