"""What every server promises: its step is a pure function of the model, its own state and the release."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from tacit.learning.adversarial import AdversarialServer, GeneratorSteps, adversarial_server, adversaries
from tacit.learning.loop import TrainingState
from tacit.learning.prefix_tree import PrefixServer, PrefixWork, seedling
from tacit.learning.server import Server, build_optimizer
from tacit.learning.state import from_arrays, to_arrays
from tacit.learning.trainable import trainable_of
from tacit.models.gan import GanConfig, build
from tests.support.implementations import implementations
from tests.support.spelled_people import SHAPE


@dataclass(frozen=True)
class Case:
    """A server, a model of its own, and how to take out the part of the model that users update."""

    server: Server
    model: Any
    learned: Callable[[Any], Any]

    def release(self, value: float) -> dict[str, Any]:
        """The noisy sum of updates: this number everywhere."""
        return {"update": jax.tree.map(lambda leaf: jnp.full_like(leaf, value), self.learned(self.model))}


@cache
def plain() -> Case:
    model = {"a": jnp.ones((3, 2)), "b": jnp.zeros(4)}
    return Case(Server.build(build_optimizer("momentum", 0.5, 0.9), 4.0), model, lambda model: model)


@cache
def partly_frozen() -> Case:
    model = {"a": jnp.ones((3, 2)), "b": jnp.zeros(4)}
    trainable = trainable_of(lambda path, leaf: path == "a")
    server = Server.build(build_optimizer("momentum", 0.5, 0.9), 4.0, trainable)
    return Case(server, model, trainable.trained)


@cache
def adversarial() -> Case:
    key = jax.random.key(0)
    model = jax.jit(lambda key: adversaries(build(GanConfig(4, 8, (4, 4, 2), (2, 4), 8), key=key), key=key))(key)
    steps = GeneratorSteps(optax.sgd(0.05), steps=1, batch_size=2)
    return Case(adversarial_server(optax.sgd(1.0), 4.0, steps), model, lambda model: model.discriminator)


@cache
def prefixes() -> Case:
    server = PrefixServer.of(SHAPE, threshold=5.0, rounds=3, denominator=4.0)
    return Case(server, seedling(SHAPE, 3), PrefixWork(SHAPE).learned)


IMPLEMENTATIONS: dict[str, tuple[type, Callable[[], Case]]] = {
    "all trained": (Server, plain),
    "partly frozen": (Server, partly_frozen),
    "adversarial": (AdversarialServer, adversarial),
    "prefixes": (PrefixServer, prefixes),
}


def arrays(*trees: Any) -> list[np.ndarray]:
    return [np.asarray(leaf) for leaf in jax.tree.leaves(trees)]


def assert_same(one: list[np.ndarray], other: list[np.ndarray]) -> None:
    for left, right in zip(one, other, strict=True):
        np.testing.assert_array_equal(left, right)


@pytest.mark.parametrize("made", [made for _, made in IMPLEMENTATIONS.values()], ids=IMPLEMENTATIONS)
class TestServers:
    """One suite for all of them."""

    def test_it_sees_the_model_its_state_and_the_release_and_nothing_else(self, made: Callable[[], Case]) -> None:
        assert list(inspect.signature(made().server.step).parameters) == ["model", "state", "release"]

    def test_a_step_is_pure(self, made: Callable[[], Case]) -> None:
        case = made()
        state, release = case.server.init(case.model), case.release(0.5)
        before = [each.copy() for each in arrays(case.model, state, release)]
        one, other = (case.server.step(case.model, state, release) for _ in range(2))
        assert_same(arrays(*one), arrays(*other))
        assert_same(arrays(case.model, state, release), before)

    def test_models_and_states_keep_their_structure(self, made: Callable[[], Case]) -> None:
        case = made()
        state = case.server.init(case.model)
        found = case.server.step(case.model, state, case.release(0.5))[:2]
        for after, fresh in zip(found, (case.model, state), strict=True):
            assert jax.tree.structure(after) == jax.tree.structure(fresh)
            for one, other in zip(arrays(after), arrays(fresh), strict=True):
                assert (one.shape, one.dtype) == (other.shape, other.dtype)

    def test_what_users_update_goes_along_the_released_mean(self, made: Callable[[], Case]) -> None:
        case = made()
        up, still = (
            case.learned(case.server.step(case.model, case.server.init(case.model), case.release(value))[0])
            for value in (0.5, 0.0)
        )
        for one, other, before in zip(arrays(up), arrays(still), arrays(case.learned(case.model)), strict=True):
            assert (one > other).all()
            np.testing.assert_array_equal(other, before)

    def test_a_resumed_run_goes_on_as_it_would_have(self, made: Callable[[], Case]) -> None:
        case = made()
        model, state = case.model, case.server.init(case.model)
        for value in (0.5, -0.25):
            model, state, finite = case.server.step(model, state, case.release(value))
            assert bool(finite)
        kept = TrainingState(2, model, state, (), ())
        fresh = TrainingState(0, case.model, case.server.init(case.model), (), ())
        again = from_arrays(fresh, 2, *to_arrays(kept))
        expected = case.server.step(model, state, case.release(1.0))
        assert_same(arrays(*case.server.step(again.model, again.server, case.release(1.0))), arrays(*expected))

    @pytest.mark.parametrize("far", [np.inf, np.nan, 1e15])
    def test_a_model_that_is_not_finite_or_far_too_long_is_reported(self, made: Callable[[], Case], far: float) -> None:
        case = made()
        assert not bool(case.server.step(case.model, case.server.init(case.model), case.release(far))[2])


def test_no_server_is_forgotten() -> None:
    other = {"_UvicornServer", "BoardServer"}  # of HTTP
    assert {each.__name__ for each, _ in IMPLEMENTATIONS.values()} == implementations(Server, other_than=other)
