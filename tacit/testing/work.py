"""What every task and every work promises. The gate's proof rests on one of these: a user's update is a function of the model
and of that user alone, so neither empty batches nor the users beside them may change it."""

from __future__ import annotations

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from tacit.learning.tasks import Loss, Task, as_task, gradient_step
from tacit.learning.trainable import EVERYTHING, join
from tacit.learning.work import LocalWork, UserWork, Work, learned_by, require_update_of

_CLIP: Any = np.float32(0.7)


class TaskContract:
    """Inherit, and define `task`, `model`, `batch` and `empty`. The batches have one shape.

    `tolerance` is how far a step of the task's own may be from automatic differentiation.
    """

    tolerance = 1e-5

    def task(self) -> Task | Loss:
        """The task, or the loss function."""
        raise NotImplementedError("Define task(self) in the class that inherits TaskContract.")

    def model(self) -> Any:
        """A small model with finite numbers."""
        raise NotImplementedError("Define model(self) in the class that inherits TaskContract.")

    def batch(self) -> Any:
        """A batch that asks for predictions."""
        raise NotImplementedError("Define batch(self) in the class that inherits TaskContract.")

    def empty(self) -> Any:
        """A batch that asks for none: padding."""
        raise NotImplementedError("Define empty(self) in the class that inherits TaskContract.")

    def test_the_loss_is_finite_and_counts_predictions(self) -> None:
        total, count = self._loss(self.model(), self.batch())
        assert jnp.shape(total) == jnp.shape(count) == ()
        assert np.isfinite(total)
        assert float(count) >= 1
        assert float(count) == int(count)

    def test_an_empty_batch_asks_for_nothing_and_changes_nothing(self) -> None:
        model = self.model()
        assert float(self._loss(model, self.empty())[1]) == 0
        _assert_same(self._step(model, self.empty()), model)

    def test_a_step_is_plain_sgd_on_the_mean_loss(self) -> None:
        task, model = as_task(self.task()), self.model()
        trained, frozen = EVERYTHING.split(model)

        @eqx.filter_jit
        def by_autodiff(trained: Any, batch: Any) -> Any:
            return gradient_step(lambda part, batch: task.loss_sum(join(part, frozen), batch), trained, batch, 0.1)

        expected, stepped = by_autodiff(trained, self.batch()), self._step(model, self.batch())
        structures: list[Any] = [jax.tree.structure(each) for each in (stepped, model)]
        assert structures[0] == structures[1]
        for before, one, other in zip(*map(_arrays, (trained, EVERYTHING.trained(stepped), expected)), strict=True):
            assert one.dtype == before.dtype
            assert np.isfinite(one).all()
            np.testing.assert_allclose(one, other, atol=self.tolerance, rtol=self.tolerance)
        moved = zip(_arrays(trained), _arrays(expected), strict=True)
        assert any((before != after).any() for before, after in moved)  # else a step that does nothing would pass

    def test_a_step_is_pure(self) -> None:
        model, batch = self.model(), self.batch()
        before = [each.copy() for each in _arrays((model, batch))]
        _assert_same(self._step(model, batch), self._step(model, batch))
        _assert_same(before, (model, batch))

    def _loss(self, model: Any, batch: Any) -> Any:
        return eqx.filter_jit(as_task(self.task()).loss_sum)(model, batch)

    def _step(self, model: Any, batch: Any) -> Any:
        return eqx.filter_jit(as_task(self.task()).sgd_step)(model, batch, 0.1)


class UserWorkContract:
    """What the engine calls for each user: inherit, and define `local`, `model` and `batches`.

    `batches` [steps, ...] are a user's, and every step asks for predictions.
    """

    def local(self) -> UserWork:
        """The work, as the engine calls it."""
        raise NotImplementedError("Define local(self) in the class that inherits UserWorkContract.")

    def model(self) -> Any:
        """A small model with finite numbers."""
        raise NotImplementedError("Define model(self) in the class that inherits UserWorkContract.")

    def batches(self) -> Any:
        """A user's batches [steps, ...]."""
        raise NotImplementedError("Define batches(self) in the class that inherits UserWorkContract.")

    def empty(self) -> Any:
        """Batches of the same shape that ask for no prediction."""
        batches = self.batches()
        return jax.tree.map(np.zeros_like, batches)

    def test_an_update_has_the_shape_of_what_users_update_and_is_finite(self) -> None:
        update = self._update(self.batches())
        require_update_of(learned_by(self.local(), self.model()), update)
        assert all(np.isfinite(leaf).all() for leaf in _arrays(update))
        assert any(leaf.any() for leaf in _arrays(update))

    def test_a_user_without_examples_moves_nothing(self) -> None:
        for steps in (0, 1, self._steps()):
            assert not any(leaf.any() for leaf in _arrays(self._update(self.empty(), steps)))

    def test_empty_batches_at_the_end_change_nothing(self) -> None:
        batches, steps = self.batches(), self._steps()
        _assert_same(self._update(batches, 2 * steps), self._update(batches, steps))

    def test_it_is_pure(self) -> None:
        model, batches = self.model(), self.batches()
        before = [each.copy() for each in _arrays((model, batches))]
        _assert_same(self._update(batches), self._update(batches))
        _assert_same(before, (model, batches))

    def test_the_users_beside_one_change_nothing(self) -> None:
        mine = self.batches()
        reverse = jax.tree.map(lambda leaf: np.flip(leaf, 0), mine)
        _assert_same(self._update(mine, beside=reverse), self._update(mine, beside=self.empty()))

    def _steps(self) -> int:
        return len(jax.tree.leaves(self.batches())[0])

    def _update(self, batches: Any, steps: int | None = None, beside: Any = None) -> Any:
        """One user's update, beside another user; everybody's batches are followed by as many empty ones.

        All calls have the same shapes, so that work is compiled once.
        """
        empty = self.empty()
        users = [
            jax.tree.map(lambda *each: np.concatenate(each), one, empty)
            for one in (batches, empty if beside is None else beside)
        ]
        number: Any = np.int32(self._steps() if steps is None else steps)
        together = jax.tree.map(lambda *each: np.stack(each), *users)
        return jax.tree.map(lambda leaf: leaf[0], _updates(self.local(), self.model(), together, number))


class WorkContract(UserWorkContract):
    """Inherit, and define `work`. By default it trains a line through points, with a frozen leaf beside it.

    A work for one kind of model defines `task`, `model`, `trainable` and the batches too: `batches` of a user [steps, ...] in
    which every step asks for predictions, and `empty` of the same shape, in which none does.
    """

    def work(self) -> Work:
        """The work."""
        raise NotImplementedError("Define work(self) in the class that inherits WorkContract.")

    def task(self) -> Task | Loss:
        """What the model learns."""
        return _squares

    def model(self) -> Any:
        """A small model with finite numbers."""
        return {"slope": jnp.array([0.5, -1.0]), "offset": jnp.zeros(()), "shift": jnp.array([1.0, 2.0])}

    def trainable(self) -> Any:
        """Which of its leaves are trained."""
        return lambda path, leaf: path != "shift"

    def batches(self) -> Any:
        """A user's batches [steps, ...]."""
        points = np.random.default_rng(0).standard_normal((3, 4, 3)).astype(np.float32)
        return {"points": points, "mask": np.ones((3, 4), np.float32)}

    def local(self) -> UserWork:
        """The work on the task, for the leaves that are trained."""
        return LocalWork(self.work(), self.task(), self.trainable())

    def test_it_says_how_large_a_batch_is(self) -> None:
        assert int(self.work().batch_size) >= 1


@eqx.filter_jit
def _updates(local: UserWork, model: Any, batches: Any, steps: Any) -> Any:
    """The updates of users with batches [users, steps, ...], as the engine computes them."""
    return jax.lax.map(lambda one: local(model, one, steps, _CLIP), batches, batch_size=2)


def _squares(model: Any, batch: Any) -> tuple[jax.Array, jax.Array]:
    """Square errors of a line through points [rows, 3], the last coordinate given the others."""
    inputs = batch["points"][:, :2] + model["shift"]
    errors = jnp.dot(inputs, model["slope"], precision="highest") + model["offset"] - batch["points"][:, 2]
    return jnp.sum(errors**2 * batch["mask"]), jnp.sum(batch["mask"])


def _arrays(tree: Any) -> list[Any]:
    return [np.asarray(leaf) for leaf in jax.tree.leaves(tree) if eqx.is_array(leaf)]


def _assert_same(one: Any, other: Any) -> None:
    for left, right in zip(_arrays(one), _arrays(other), strict=True):
        np.testing.assert_array_equal(left, right)
