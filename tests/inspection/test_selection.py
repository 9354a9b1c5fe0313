"""Selections: what each criterion keeps, and that a user's membership does not depend on other users."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from numpy.typing import NDArray

from tacit.data.faults import Concatenated, Inverted
from tacit.data.rows import to_rows
from tacit.data.users import Examples, Users
from tacit.data.worlds.handwriting import HandwritingWorld
from tacit.data.worlds.keyboard import KeyboardWorld
from tacit.errors import DataError
from tacit.inspection.example_scores import Marks
from tacit.inspection.selection import (
    UNLABELLED,
    Classes,
    Everything,
    Judged,
    LikelihoodRatio,
    Selected,
    Threshold,
    UnknownWords,
    Unlabelled,
    UserAccuracy,
    subpopulation,
)
from tacit.models.char_lm import encode_words
from tests.support.list_users import ListUsers


class Pictures(ListUsers):
    """Users given as lists of (brightness, label); an image is flat."""

    def gather(self, users: NDArray[np.int64]) -> Examples:
        chosen = [self.users[u] for u in users]
        flat = [image for one in chosen for image in one]
        images = np.zeros((len(flat), 28, 28), np.uint8) + np.array([b for b, _ in flat], np.uint8)[:, None, None]
        offsets = np.cumsum([0, *map(len, chosen)]).astype(np.int64)
        return Examples(
            images, np.arange(len(flat) + 1, dtype=np.int64), offsets, np.array([c for _, c in flat], np.int32)
        )


def by_brightness(examples: Examples) -> Marks:
    """A judge that takes an image's brightness for its class."""
    assert examples.labels is not None
    right = examples.items[:, 0, 0] == examples.labels
    return Marks(right.astype(np.int64), np.ones(len(right), np.int64))


def by_length(examples: Examples) -> Marks:
    """A judge of sentences: words below 50 are right."""
    lengths = np.diff(examples.example_offsets)
    owner = np.repeat(np.arange(len(lengths)), lengths)
    return Marks(np.bincount(owner[examples.items < 50], minlength=len(lengths)), lengths)


def kept(users: Users) -> list[list[tuple[int, int]]]:
    examples = users.gather(np.arange(len(users), dtype=np.int64))
    assert examples.labels is not None
    every = list(zip(examples.items[:, 0, 0].tolist(), examples.labels.tolist(), strict=True))
    bounds = examples.user_offsets.tolist()
    return [every[a:b] for a, b in pairwise(bounds)]


POPULATION = Pictures(
    [
        [(1, 1), (2, 2), (3, 3), (4, 0)],  # three quarters right
        [(9, 0), (9, 1), (2, 2)],  # a third
        [],
        [(5, 5)],  # all
        [(7, 8), (8, 7)],  # none
    ]
)


def test_everything_is_everything() -> None:
    assert kept(Selected(POPULATION, Everything())) == POPULATION.users


def test_mistakes_and_their_contrast_share_the_examples_between_them() -> None:
    wrong, right = (kept(Selected(POPULATION, Judged(by_brightness, right))) for right in (False, True))
    assert wrong == [[(4, 0)], [(9, 0), (9, 1)], [], [], [(7, 8), (8, 7)]]
    assert right == [[(1, 1), (2, 2), (3, 3)], [(2, 2)], [], [(5, 5)], []]


def test_who_has_too_few_examples_does_not_take_part() -> None:
    assert kept(Selected(POPULATION, Judged(by_brightness), minimum_examples=2)) == [
        [],
        [(9, 0), (9, 1)],
        [],
        [],
        [(7, 8), (8, 7)],
    ]


@pytest.mark.parametrize(("side", "members"), [("low", [1, 4]), ("high", [0, 3])])
def test_users_are_chosen_whole_by_their_accuracy(side: str, members: list[int]) -> None:
    criterion = UserAccuracy(by_brightness, Threshold(0.5), side)  # type: ignore[arg-type]
    expected = [user if number in members else [] for number, user in enumerate(POPULATION.users)]
    assert kept(Selected(POPULATION, criterion)) == expected


def test_a_threshold_belongs_to_both_sides() -> None:
    for side in ("low", "high"):
        criterion = UserAccuracy(by_brightness, Threshold(0.75), side)  # type: ignore[arg-type]
        assert kept(Selected(POPULATION, criterion))[0] == POPULATION.users[0]


def test_slices_and_labels() -> None:
    assert kept(Selected(POPULATION, Classes({0, 8})))[:2] == [[(4, 0)], [(9, 0)]]
    bare = Unlabelled(POPULATION).gather(np.arange(5))
    assert np.array_equal(bare.items, POPULATION.gather(np.arange(5)).items)
    assert set(np.asarray(bare.labels).tolist()) == {UNLABELLED}


def test_likelihood_ratio_keeps_what_is_private_only() -> None:
    users = ListUsers([[[4, 5], [60]], [[70, 80, 6]]])

    def public(examples: Examples) -> NDArray[np.float64]:
        return -examples.items[examples.example_offsets[:-1]].astype(np.float64)

    def private(examples: Examples) -> NDArray[np.float64]:
        return np.full(len(examples.example_offsets) - 1, -65.0)

    def lengths(selected: Users) -> list[int]:
        return np.diff(selected.gather(np.arange(2)).example_offsets).tolist()

    assert lengths(Selected(users, LikelihoodRatio(private, public, Threshold(0.0)))) == [3]
    assert lengths(Selected(users, LikelihoodRatio(private, public, Threshold(-10.0)))) == [1, 3]
    assert lengths(Selected(users, LikelihoodRatio(None, public, Threshold(50.0)))) == [1, 3]


def test_sentences_are_cut_out_whole() -> None:
    users = ListUsers([[[4, 5, 6], [60, 4], [7]], [[61], [8, 9]]])
    examples = Selected(users, Judged(by_length, right=True)).gather(np.array([1, 0]))
    assert examples.items.tolist() == [8, 9, 4, 5, 6, 7]
    assert examples.example_offsets.tolist() == [0, 2, 5, 6]
    assert examples.user_offsets.tolist() == [0, 1, 3]


@pytest.mark.parametrize("share", [0.0, 1.0])
def test_unknown_words_are_the_bytes_a_character_model_reads(share: float) -> None:
    world = KeyboardWorld(1, 30, vocabulary_size=300)
    view = UnknownWords(Concatenated(world, share, seed=0), world.words, longest=12)
    examples = view.gather(np.array([3, 9]))
    rows = to_rows(examples, layout="sentences", length=13, max_rows=10_000)
    known, expected = set(world.words), []
    for user in (3, 9):
        whole = UnknownWords(world, (), longest=60).gather(np.array([user]))
        spoken = [
            bytes((whole.items[a:b] - 3).astype(np.uint8)).decode()
            for a, b in zip(whole.example_offsets, whole.example_offsets[1:], strict=False)
        ]
        ends = np.cumsum(np.diff(world.gather(np.array([user])).example_offsets)).tolist()
        sentences = [spoken[a:b] for a, b in zip([0, *ends], ends, strict=False)]
        if share:
            sentences = [[" ".join(s[:2]), *s[2:]] for s in sentences]
        expected += [word for s in sentences for word in s if word not in known]
    assert expected
    assert any(" " in word for word in expected) == bool(share)
    assert not share or max(len(word.encode()) for word in expected) > 12
    np.testing.assert_array_equal(rows.tokens, encode_words(expected, 13))  # what is longer is cut and has no end


def test_few_unknown_words_are_none() -> None:
    world = KeyboardWorld(1, 40, vocabulary_size=300)
    counts = [
        np.diff(UnknownWords(world, world.words, minimum_examples=m).gather(np.arange(40)).user_offsets)
        for m in (1, 30)
    ]
    assert np.array_equal(counts[1], np.where(counts[0] >= 30, counts[0], 0))
    assert 0 < (counts[1] > 0).sum() < (counts[0] > 0).sum()


def test_a_selection_can_be_spelled() -> None:
    world = KeyboardWorld(1, 5)
    chosen = Selected(world, Judged(by_length, right=False))
    examples = chosen.gather(np.arange(5))
    spelling = [len(s) for one in chosen.spelled(np.arange(5)) for s in one]
    assert spelling == np.diff(examples.example_offsets).tolist()


def test_a_subpopulation_is_counted_and_must_exist() -> None:
    low = Selected(POPULATION, UserAccuracy(by_brightness, Threshold(0.5), "low"))
    assert subpopulation(low, at_least=2).members.tolist() == [1, 4]
    with pytest.raises(DataError, match="at least 3 users, got 2"):
        subpopulation(low, at_least=3)
    with pytest.raises(DataError, match="the subpopulation is empty"):
        subpopulation(Selected(POPULATION, Classes({99})))


def test_the_ledger_can_say_how_users_were_chosen() -> None:
    constant = Selected(POPULATION, UserAccuracy(by_brightness, Threshold(0.88), "low"), minimum_examples=5)
    assert constant.description.settings() == {
        "task": "T4",
        "by": "user",
        "accuracy": "low",
        "threshold": {"value": 0.88},
        "minimum_examples": 5,
    }
    paid = UserAccuracy(by_brightness, Threshold(0.88, noise_multiplier=2.0), "low").describe()
    assert paid.threshold == Threshold(0.88, 2.0)


def test_wrong_use_is_one_sentence() -> None:
    with pytest.raises(DataError, match="at least 1 example per user, got 0"):
        Selected(POPULATION, Everything(), minimum_examples=0)
    with pytest.raises(DataError, match="labelled images"):
        Selected(ListUsers([[[4]]]), Classes({1})).gather(np.array([0]))
    with pytest.raises(DataError, match="users with images"):
        Unlabelled(ListUsers([[[4]]])).gather(np.array([0]))


def test_selections_stand_on_faults() -> None:
    """The view of the paper's section 6: low-accuracy users of a population in which half of the devices invert."""
    world = HandwritingWorld(2, 40, glyphs_per_writer=4)
    broken = Inverted(world, 0.5, seed=1)

    def dark_ground(examples: Examples) -> Marks:
        right = examples.items.mean(axis=(1, 2)) < 128
        return Marks(right.astype(np.int64), np.ones(len(right), np.int64))

    low = subpopulation(Selected(broken, UserAccuracy(dark_ground, Threshold(0.5), "low")))
    assert low.members.tolist() == np.flatnonzero(broken.has_fault(np.arange(40))).tolist()
