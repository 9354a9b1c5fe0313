"""What every population of users promises (`tacit.Users`), as tests to inherit.

The guarantee compares a run with the same run without one user. It can only hold if a user's name, their examples and whether
they are held out belong to that user alone, whoever else is there and whoever else is asked for.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from tacit.data.users import Examples, Users, all_names, require_distinct


class UsersContract:
    """Inherit in a class whose name begins with Test, and define `users`; define `without` where users can be removed.

    A handful of users is enough, best with one who has no examples.
    """

    def users(self) -> Users:
        """The users under test: the same ones at every call, and at least two."""
        raise NotImplementedError("Define users(self) in the class that inherits UsersContract.")

    def without(self, number: int) -> Users | None:
        """The same users without the one of this number, the others in the same order; None if that one cannot be removed."""
        return None

    def test_names_are_128_bits_and_no_two_users_share_one(self) -> None:
        """[users, 2] words of 64 bits."""
        users = self.users()
        assert len(users) >= 2
        names = all_names(users)
        assert names.shape == (len(users), 2)
        assert names.dtype == np.uint64
        require_distinct(names)

    def test_a_user_has_the_same_name_whenever_and_with_whomever_they_are_asked_for(self) -> None:
        """At a second call, in any order, and alone."""
        users = self.users()
        names = all_names(users)
        np.testing.assert_array_equal(all_names(users), names)
        for numbers in _selections(len(users)):
            np.testing.assert_array_equal(users.names(numbers), names[numbers])

    def test_examples_are_laid_out_as_examples_says(self) -> None:
        """Offsets count up from 0 to the end; images have labels, and one offset an image."""
        users = self.users()
        for numbers in _selections(len(users)):
            found = users.gather(numbers)
            assert len(found.user_offsets) == len(numbers) + 1
            for offsets, end in (
                (found.user_offsets, len(found.example_offsets) - 1),
                (found.example_offsets, len(found.items)),
            ):
                assert offsets.dtype == np.int64
                assert (offsets[0], offsets[-1]) == (0, end)
                assert np.all(np.diff(offsets) >= 0)
            if found.labels is not None:
                assert found.labels.dtype == np.int32
                assert len(found.labels) == len(found.items)
                np.testing.assert_array_equal(np.diff(found.example_offsets), 1)

    def test_users_gathered_together_have_the_examples_that_each_has_alone(self) -> None:
        """In any order, any subset, and one user twice."""
        users = self.users()
        alone = [_of_each(users.gather(np.array([number])))[0] for number in range(len(users))]
        for numbers in _selections(len(users)):
            found = _of_each(users.gather(numbers))
            assert len(found) == len(numbers)
            for number, examples in zip(numbers.tolist(), found, strict=True):
                _assert_same(examples, alone[number])

    def test_gathering_nobody_gives_no_examples(self) -> None:
        """With items of the same type and shape as somebody's."""
        users, nobody = self.users(), np.empty(0, np.int64)
        found, somebody = users.gather(nobody), users.gather(np.array([0]))
        assert len(found.items) == 0
        assert (found.items.dtype, found.items.shape[1:]) == (somebody.items.dtype, somebody.items.shape[1:])
        assert users.names(nobody).shape == (0, 2)

    def test_what_a_caller_writes_into_examples_does_not_come_back(self) -> None:
        """Gathering is a pure function of the numbers."""
        users = self.users()
        everybody = np.arange(len(users), dtype=np.int64)
        first = users.gather(everybody)
        before = _of_each(first)
        for array in (first.items, first.example_offsets, first.user_offsets, first.labels):
            if array is not None and array.flags.writeable:
                array[...] = 0
        for examples, expected in zip(_of_each(users.gather(everybody)), before, strict=True):
            _assert_same(examples, expected)

    def test_removing_a_user_changes_nothing_about_any_other(self) -> None:
        """Neither names nor examples, nor who is held out."""
        users = self.users()
        everybody = np.arange(len(users), dtype=np.int64)
        names, examples = all_names(users), _of_each(users.gather(everybody))
        held_out = _held_out(users)
        for number in range(len(users)):
            fewer = self.without(number)
            if fewer is None:
                continue
            rest = np.delete(everybody, number)
            assert len(fewer) == len(rest)
            np.testing.assert_array_equal(all_names(fewer), names[rest])
            np.testing.assert_array_equal(_held_out(fewer), held_out[rest])
            for found, before in zip(_of_each(fewer.gather(np.arange(len(rest)))), rest.tolist(), strict=True):
                _assert_same(found, examples[before])


def _selections(users: int) -> list[NDArray[np.int64]]:
    """Some ways to ask for users: all, backwards, every second, one alone, one twice."""
    everybody = np.arange(users, dtype=np.int64)
    mixed = np.random.default_rng(0).integers(0, users, 2 * users)
    return [everybody, everybody[::-1], everybody[::2], everybody[-1:], np.array([users - 1, 0, users - 1]), mixed]


def _of_each(examples: Examples) -> list[list[tuple[Any, ...]]]:
    """A copy of the examples of each user: their items, and their labels."""
    labels = [None] * (len(examples.example_offsets) - 1) if examples.labels is None else examples.labels.tolist()
    return [
        [
            (examples.items[examples.example_offsets[e] : examples.example_offsets[e + 1]].copy(), labels[e])
            for e in range(examples.user_offsets[user], examples.user_offsets[user + 1])
        ]
        for user in range(len(examples.user_offsets) - 1)
    ]


def _assert_same(found: list[tuple[Any, ...]], expected: list[tuple[Any, ...]]) -> None:
    assert len(found) == len(expected)
    for (items, label), (other_items, other_label) in zip(found, expected, strict=True):
        np.testing.assert_array_equal(items, other_items)
        assert label == other_label


def _held_out(users: Any) -> NDArray[np.bool_]:
    """Whether each user is held out; nobody is where users are not split."""
    found = np.zeros(len(users), bool)
    if hasattr(users, "held_out_users"):
        found[users.held_out_users()] = True
    return found
