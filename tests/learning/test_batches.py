"""A batching of one's own is called for one user at a time, and cannot mix users through the wrapper."""

from __future__ import annotations

import doctest
import threading
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pytest

import tacit
from tacit.data.users import Examples, Users
from tacit.errors import DataError
from tacit.learning import batches
from tacit.learning.batches import (
    Batching,
    ImageBatches,
    LaidOut,
    OneUserAtATime,
    TextBatches,
    foreign_name,
    keeps_users_apart,
    user_by_user,
)
from tacit.testing.batches import BatchingContract
from tests.support.implementations import covered, implementations
from tests.support.list_users import ListUsers

PEOPLE = [[[4, 5], [6]], [], [[7, 8, 9]], [[4]], [[5, 5], [6, 6], [7, 7]]]
TEXT = TextBatches("sentences", length=4, batch_size=2, steps=2)


def examples_of(people: list[list[list[int]]]) -> Examples:
    return ListUsers(people).gather(np.arange(len(people)))


def all_batches(batching: Any, examples: Examples) -> Any:
    laid_out = batching.lay_out(examples)
    return laid_out.batches(np.arange(len(examples.user_offsets) - 1))


class TestRowsOfWindows(BatchingContract):
    implementation = TextBatches

    def batching(self) -> Batching:
        return replace(TEXT, layout="windows")

    def users(self) -> Users:
        return ListUsers(PEOPLE)


class TestRowsOfSentences(TestRowsOfWindows):
    def batching(self) -> Batching:
        return TEXT


class TestImages(BatchingContract):
    implementation = ImageBatches

    def batching(self) -> Batching:
        return ImageBatches(2, 1)

    def users(self) -> Users:
        return ListUsers(PEOPLE, images=True)


class TestOneUserAtATime(TestRowsOfWindows):
    implementation = OneUserAtATime

    def batching(self) -> Batching:
        return OneUserAtATime(TEXT)


class TestImagesOneUserAtATime(TestImages):
    implementation = OneUserAtATime

    def batching(self) -> Batching:
        return OneUserAtATime(ImageBatches(2, 1))


def test_no_batching_is_forgotten() -> None:
    assert covered(globals(), BatchingContract) == implementations(Batching)


def laid_out_ids(examples: Examples, ids_of: Callable[[int], Any]) -> LaidOut:
    """One batch of six numbers a user: the first of `ids_of(user)`."""
    users = len(examples.user_offsets) - 1
    rows = np.zeros((users, 1, 6), np.int64)
    for user in range(users):
        ids = np.asarray(ids_of(user))[:6]
        rows[user, 0, : len(ids)] = ids
    return LaidOut(np.ones(users, np.int64), np.ones(users, np.int64), lambda chosen: {"ids": rows[chosen]})


class Mixing:
    """Gives every user the words of everybody in the call."""

    batch_size = 1

    def lay_out(self, examples: Examples) -> LaidOut:
        return laid_out_ids(examples, lambda user: examples.items)


class LookingBehind:
    """Follows a view to the array that it is part of."""

    batch_size = 1

    def lay_out(self, examples: Examples) -> LaidOut:
        whole = examples.items if examples.items.base is None else examples.items.base
        return laid_out_ids(examples, lambda user: np.asarray(whole).ravel())


@dataclass
class Remembering:
    """Gives a user the words of those who came before, remembered in itself."""

    batch_size: int = 1
    seen: list[int] = field(default_factory=list)

    def lay_out(self, examples: Examples) -> LaidOut:
        self.seen.extend(examples.items.tolist())
        return laid_out_ids(examples, lambda user: self.seen)


class Spoiling:
    """Writes into what it was given, and hands out one buffer again and again."""

    batch_size = 1

    def __init__(self) -> None:
        self.buffer = np.zeros((1, 1, 6), np.int64)

    def __deepcopy__(self, memo: Any) -> Spoiling:
        return self

    def lay_out(self, examples: Examples) -> LaidOut:
        self.buffer[:] = 0
        self.buffer[0, 0, : len(examples.items[:6])] = examples.items[:6]
        examples.items[:] = 99
        return LaidOut(np.ones(1, np.int64), np.ones(1, np.int64), lambda chosen: {"ids": self.buffer})


def expected_ids() -> list[list[int]]:
    """Each user's own words, six at most."""
    words = [[word for sentence in user for word in sentence][:6] for user in PEOPLE]
    return [own + [0] * (6 - len(own)) for own in words]


@pytest.mark.parametrize("attack", [Mixing, LookingBehind, Remembering, Spoiling])
def test_a_users_batches_depend_on_their_own_examples_alone(attack: Callable[[], Any]) -> None:
    found = all_batches(OneUserAtATime(attack()), examples_of(PEOPLE))
    assert found["ids"][:, 0].tolist() == expected_ids()


@pytest.mark.parametrize(
    ("attack", "promise"),
    [
        (Mixing, "test_a_users_batches_depend_on_their_own_examples_alone"),
        (LookingBehind, "test_a_users_batches_depend_on_their_own_examples_alone"),
        (Remembering, "test_a_users_batches_depend_on_their_own_examples_alone"),
        (Spoiling, "test_it_is_pure"),
    ],
)
def test_the_contract_notices_a_batching_that_breaks_it(attack: Callable[[], Any], promise: str) -> None:
    class Broken(TestRowsOfWindows):
        def batching(self) -> Batching:
            return attack()

    with pytest.raises(AssertionError):
        getattr(Broken(), promise)()


@pytest.mark.parametrize("attack", [Mixing, LookingBehind, Remembering])
def test_the_attacks_work_without_the_wrapper(attack: Callable[[], Any]) -> None:
    batching, examples = attack(), examples_of(PEOPLE)
    called = [all_batches(batching, batches._only(examples, user))["ids"][0, 0].tolist() for user in range(5)]
    assert all_batches(attack(), examples)["ids"][:, 0].tolist() != expected_ids()
    assert (called != expected_ids()) == (attack is Remembering)


def test_memory_from_before_the_wrapper_and_from_earlier_calls_is_not_carried_over() -> None:
    batching = Remembering()
    wrapped = OneUserAtATime(batching)
    batching.seen.append(8)
    for _ in range(2):
        assert all_batches(wrapped, examples_of(PEOPLE))["ids"][:, 0].tolist() == expected_ids()
    assert batching.seen == [8]


def test_how_many_steps_run_does_not_depend_on_other_users() -> None:
    class Understating(TextBatches):
        def lay_out(self, examples: Examples) -> LaidOut:
            return replace(super().lay_out(examples), sizes=np.diff(examples.user_offsets) // 2)

    laid_out = OneUserAtATime(Understating(**vars(TEXT))).lay_out(examples_of(PEOPLE))
    assert laid_out.sizes.tolist() == [4] * 5


@pytest.mark.parametrize(
    ("batching", "examples"),
    [
        (TEXT, examples_of(PEOPLE)),
        (ImageBatches(2, 2), tacit.HandwritingWorld(1, 3).gather(np.arange(3))),
    ],
)
def test_around_a_batching_of_tacits_it_changes_nothing(batching: Any, examples: Examples) -> None:
    plain, wrapped = batching.lay_out(examples), OneUserAtATime(batching).lay_out(examples)
    np.testing.assert_array_equal(wrapped.predictions, plain.predictions)
    chosen = np.array([2, 0])
    for ours, theirs in zip(*(map(np.asarray, leaves(each.batches(chosen))) for each in (wrapped, plain)), strict=True):
        np.testing.assert_array_equal(ours, theirs)
        assert ours.dtype == theirs.dtype


def leaves(batches: Any) -> list[Any]:
    return list(batches.values()) if isinstance(batches, dict) else [batches]


@dataclass
class Odd:
    """Lays out whatever it is told for a user with examples, and one batch of zeros for a user without."""

    arrays: Any
    predictions: Any = field(default_factory=lambda: np.ones(1, np.int64))
    batch_size: int = 1

    def lay_out(self, examples: Examples) -> LaidOut:
        if examples.user_offsets[-1] == 0:
            return LaidOut(np.zeros(1, np.int64), np.zeros(1, np.int64), lambda _: {"ids": np.zeros((1, 1, 2))})
        return LaidOut(np.ones(1, np.int64), self.predictions, lambda _: self.arrays)


@pytest.mark.parametrize(
    ("arrays", "predictions", "sentence"),
    [
        ({"ids": np.zeros((1, 2, 2))}, [1], "gave a user batches of other shapes or types than a user without examples has"),
        ({"ids": np.zeros((1, 1, 3))}, [1], "gave a user batches of other shapes or types"),
        ({"ids": np.zeros((1, 1, 2), np.float32)}, [1], "gave a user batches of other shapes or types"),
        ({"rows": np.zeros((1, 1, 2))}, [1], "gave a user batches of other shapes or types"),
        ({"ids": np.zeros((2, 1, 2))}, [1], "gave one user no arrays [1, steps, ...] with the same number of steps in each"),
        ({"ids": np.zeros((1, 1, 2)), "more": np.zeros((1, 2))}, [1], "with the same number of steps in each"),
        ({"ids": np.zeros(1)}, [1], "with the same number of steps in each"),
        ({}, [1], "with the same number of steps in each"),
        ({"ids": np.zeros((1, 1, 2))}, [-1], "did not say how many predictions"),
        ({"ids": np.zeros((1, 1, 2))}, [0.5], "did not say how many predictions"),
        ({"ids": np.zeros((1, 1, 2))}, [1, 1], "did not say how many predictions"),
    ],
)  # fmt: skip
def test_batches_that_do_not_fit_are_refused(arrays: Any, predictions: list[Any], sentence: str) -> None:
    with pytest.raises(DataError) as caught:
        OneUserAtATime(Odd(arrays, np.array(predictions))).lay_out(examples_of(PEOPLE))
    assert sentence in caught.value.sentence
    assert "Odd" in caught.value.sentence


def test_a_batching_that_cannot_be_used_is_refused_at_once() -> None:
    with pytest.raises(DataError, match="at least one row a batch, got batch_size = 0"):
        OneUserAtATime(replace(TEXT, batch_size=0))
    with pytest.raises(DataError, match="cannot be copied, and every user needs a copy"):
        OneUserAtATime(Odd(threading.Lock()))


def test_what_is_known_to_keep_users_apart() -> None:
    class Own(TextBatches):
        pass

    own, hiding = Own(**vars(TEXT)), replace(TEXT)
    object.__setattr__(hiding, "lay_out", Mixing().lay_out)
    assert user_by_user(TEXT) is TEXT
    assert foreign_name(TEXT) is foreign_name(ImageBatches(1, 1)) is None
    for foreign in (own, hiding, Mixing()):
        assert not keeps_users_apart(foreign)
        wrapped = user_by_user(foreign)
        assert type(wrapped) is OneUserAtATime
        assert user_by_user(wrapped) is wrapped
        assert foreign_name(foreign) == foreign_name(wrapped) == wrapped.name
    assert foreign_name(Mixing()) == "tests.learning.test_batches:Mixing"


def test_the_examples_in_the_docstrings_run() -> None:
    assert doctest.testmod(batches).failed == 0
    assert doctest.testmod(batches).attempted > 7
