"""What every batching promises (`tacit.learning.batches.Batching`), as tests to inherit.

A user's update is a function of their batches. The guarantee can only hold if these depend on that user's examples alone.
"""

from __future__ import annotations

from typing import Any

import jax
import numpy as np

from tacit.data.users import Examples, Users
from tacit.learning.batches import Batching


class BatchingContract:
    """Inherit in a class whose name begins with Test, and define `batching` and `users`."""

    def batching(self) -> Batching:
        """A batching that has seen nobody yet."""
        raise NotImplementedError("Define batching(self) in the class that inherits BatchingContract.")

    def users(self) -> Users:
        """A handful of users: one without examples, one with many, at least three in all."""
        raise NotImplementedError("Define users(self) in the class that inherits BatchingContract.")

    def test_batches_have_one_shape_for_all_users(self) -> None:
        """Arrays [users, steps, rows, ...], whoever is chosen, nobody and one user twice included."""
        batching, users = self.batching(), self.users()
        assert int(batching.batch_size) >= 1
        assert len(users) >= 3
        laid_out = batching.lay_out(_everybody(users))
        whole = laid_out.batches(np.arange(len(users)))
        steps = jax.tree.leaves(whole)[0].shape[1]
        for chosen in (np.arange(0), np.array([1]), np.array([2, 0, 2])):
            found = laid_out.batches(chosen)
            structures: list[Any] = [jax.tree.structure(each) for each in (found, whole)]
            assert structures[0] == structures[1]
            for leaf, of_all in zip(_arrays(found), _arrays(whole), strict=True):
                assert leaf.dtype == of_all.dtype
                assert leaf.shape[:2] == (len(chosen), steps)
                np.testing.assert_array_equal(leaf, of_all[chosen])

    def test_it_counts_rows_and_predictions(self) -> None:
        """Whole numbers, one of each a user; all rows are in the batches."""
        batching, users = self.batching(), self.users()
        laid_out = batching.lay_out(_everybody(users))
        steps = _arrays(laid_out.batches(np.arange(len(users))))[0].shape[1]
        for counted in (laid_out.sizes, laid_out.predictions):
            assert np.asarray(counted).dtype.kind in "iu"
            assert np.shape(counted) == (len(users),)
            assert np.min(counted) >= 0
        assert np.max(laid_out.sizes) <= steps * batching.batch_size
        assert np.max(laid_out.predictions) > 0

    def test_a_users_batches_depend_on_their_own_examples_alone(self) -> None:
        """By a batching that has seen nobody else, beside others, in another order, and a second time."""
        batching, users = self.batching(), self.users()
        alone = [self.batching().lay_out(users.gather(np.array([user]))) for user in range(len(users))]
        everybody = list(range(len(users)))
        for chosen in (everybody, everybody[::-1], [1, 2], everybody):
            together = batching.lay_out(users.gather(np.array(chosen)))
            found = _arrays(together.batches(np.arange(len(chosen))))
            for place, user in enumerate(chosen):
                assert int(together.predictions[place]) == int(alone[user].predictions[0])
                assert int(together.sizes[place]) == int(alone[user].sizes[0])
                for leaf, own in zip(found, _arrays(alone[user].batches(np.arange(1))), strict=True):
                    np.testing.assert_array_equal(leaf[place], own[0])

    def test_a_user_without_examples_asks_for_no_prediction(self) -> None:
        """They get padding alone; so does every user of a round in which nobody has any."""
        batching, users = self.batching(), self.users()
        everybody = _everybody(users)
        without = np.flatnonzero(np.diff(everybody.user_offsets) == 0)
        assert len(without), "one of the users must have no examples"
        assert not np.asarray(batching.lay_out(everybody).predictions)[without].any()
        assert not np.asarray(batching.lay_out(users.gather(without)).predictions).any()

    def test_nobody_at_all(self) -> None:
        """A cohort may be empty."""
        batching, users = self.batching(), self.users()
        laid_out = batching.lay_out(users.gather(np.empty(0, np.int64)))
        assert len(laid_out.sizes) == len(laid_out.predictions) == 0
        somebody = _arrays(batching.lay_out(_everybody(users)).batches(np.array([0])))
        for leaf, of_one in zip(_arrays(laid_out.batches(np.arange(0))), somebody, strict=True):
            assert leaf.shape == (0, *of_one.shape[1:])

    def test_it_is_pure(self) -> None:
        """The examples stay as they are, and the same examples make the same batches."""
        batching, examples = self.batching(), _everybody(self.users())
        before = [each.copy() for each in _arrays_of(examples)]
        everyone = np.arange(len(examples.user_offsets) - 1)
        one, other = (_arrays(batching.lay_out(examples).batches(everyone)) for _ in range(2))
        for left, right in zip([*one, *_arrays_of(examples)], [*other, *before], strict=True):
            np.testing.assert_array_equal(left, right)


def _everybody(users: Users) -> Examples:
    return users.gather(np.arange(len(users), dtype=np.int64))


def _arrays(batches: Any) -> list[Any]:
    return [np.asarray(leaf) for leaf in jax.tree.leaves(batches)]


def _arrays_of(examples: Examples) -> list[Any]:
    arrays = (examples.items, examples.example_offsets, examples.user_offsets, examples.labels)
    return [each for each in arrays if each is not None]
