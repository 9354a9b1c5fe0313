"""What every engine promises: the sum that the papers' pseudocode gives, for any users, however many train them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import jax
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tacit.learning.batches import TextBatches
from tacit.learning.next_word import NextWord
from tacit.learning.work import FedAvg, LocalWork
from tacit.models.word_lm import WordLM, WordLMConfig, build, parameter_count
from tacit.privacy.gate.sums import HEADROOM, Block, BoundedSum, ClipThresholds
from tacit.privacy.plan import PrivacyPlan
from tacit.recipe.engine import Ray
from tacit.simulation import placement, reference
from tacit.simulation.batched import BatchedUsers
from tacit.simulation.engine import Engine
from tacit.simulation.placement import Spread, suitable_spread
from tacit.simulation.ray.pool import RayPool
from tacit.simulation.ray.users import RayUsers
from tests.support.implementations import implementations
from tests.support.inline_pool import InlinePool
from tests.support.list_users import ListUsers, Population

VOCABULARY, CLIP = 9, 0.05
SHAPE = TextBatches("windows", 3, 2, 3)
WORK = LocalWork(FedAvg(epochs=2, learning_rate=0.7), NextWord())
PLAN = PrivacyPlan(
    mechanism="none",
    population=100,
    cohort=10,
    clip_norm=CLIP,
    estimator="clipped",
    example_cap=6.0,
    total_weight=50.0,
)
NORMS = ClipThresholds(CLIP)
# No users; nobody with text; one token; ragged; more than a chunk.
POPULATIONS: dict[str, Population] = {
    "nobody": [],
    "without text": [[], [[]]],
    "one token": [[[5]]],
    "ragged": [[[4, 5, 6, 7, 8]] * 4, [], [[5]], [[8, 8], [3]], [[6, 4, 6]], [[]], [[7, 5]]],
    "many": [[[3 + (user * place) % 6 for place in range(user % 7)]] for user in range(23)],
}


@dataclass(frozen=True)
class Cohort:
    chunks: Any
    users: np.ndarray
    round: int = 0
    entropy: Callable[[str], bytes] = field(default=lambda purpose: purpose.encode().ljust(32)[:32])


@cache
def model() -> WordLM:
    config = WordLMConfig(vocabulary=VOCABULARY, embedding=3, units=4, projection=3, output_bias=True)
    return build(config, key=jax.random.key(1))


def by_reference(users: Population) -> BoundedSum:
    """The pseudocode, one user and one step at a time."""
    updates, weights = [], []
    for user in range(len(users)):
        batches = reference.user_batches(reference.user_sentences(ListUsers(users), user), SHAPE)
        updates.append(
            reference.user_update_fedavg(
                model(), batches, epochs=2, learning_rate=0.7, bound=CLIP, style="flat", clip_every_step=False
            )
        )
        weights.append(reference.user_weight(PLAN, sum(map(reference.predictions, batches))))
    total, weight = reference.weighted_sum(updates, weights, jax.tree.leaves(model()))
    return BoundedSum(
        {"update": Block([leaf * HEADROOM for leaf in total], CLIP), "weight": Block(weight * HEADROOM, 1.0)}
    )


@cache
def built_in(devices: int) -> BatchedUsers:
    some = suitable_spread(1, 1).devices[:devices]
    return BatchedUsers(ListUsers([]), WORK, PLAN, SHAPE, Spread(some, chunk=4, lanes=2))


@cache
def on_ray(pool: Any, pieces: int = 3) -> RayUsers:
    parameters = parameter_count(model())
    return RayUsers(
        ListUsers([]), WORK, PLAN, SHAPE, settings=Ray(pieces=pieces), parameters=parameters, chunk=4, pool=pool
    )


def through(engine: Any, users: Population) -> BoundedSum:
    engine.users = ListUsers(users)
    if isinstance(engine, RayUsers):
        engine._opened = False  # the workers get these users
    engine.open()
    numbers = np.arange(len(users))
    found: BoundedSum = engine.collect(model(), Cohort(engine.prepare(numbers), numbers), NORMS)[0]
    return found


@pytest.fixture(scope="module")
def workers() -> Iterator[RayPool]:
    """Two real workers on a Ray of their own."""
    pool = RayPool(Ray(workers=2))
    pool.open()
    yield pool
    pool.close()


ENGINES: dict[str, Callable[[Any], Callable[[Population], BoundedSum]]] = {
    "reference": lambda request: by_reference,
    "built-in, one device": lambda request: lambda users: through(built_in(1), users),
    "built-in, two devices": lambda request: lambda users: through(built_in(2), users),
    "pieces, one worker": lambda request: lambda users: through(on_ray(_inline(1)), users),
    "pieces, seven workers": lambda request: lambda users: through(on_ray(_inline(7)), users),
    "ray": lambda request: lambda users: through(on_ray(request.getfixturevalue("workers")), users),
}


@cache
def _inline(workers: int) -> InlinePool:
    return InlinePool(workers, shuffle=lambda done: done[::-1])


@pytest.fixture(params=[pytest.param(name, marks=[pytest.mark.process] * (name == "ray")) for name in ENGINES])
def collect(request: pytest.FixtureRequest) -> Callable[[Population], BoundedSum]:
    return ENGINES[request.param](request)


def vector(found: BoundedSum) -> np.ndarray:
    return np.concatenate([np.asarray(leaf).ravel() for leaf in jax.tree.leaves(found.blocks["update"].total)])


class TestEngines:
    """One suite for all of them."""

    @pytest.mark.parametrize("users", POPULATIONS.values(), ids=POPULATIONS)
    def test_the_sum_is_that_of_the_pseudocode(
        self, collect: Callable[[Population], BoundedSum], users: Population
    ) -> None:
        found, expected = collect(users), by_reference(users)
        scale = max(1e-6, float(np.abs(vector(expected)).max()))
        np.testing.assert_allclose(vector(found), vector(expected), atol=3e-5 * scale)
        np.testing.assert_allclose(
            float(found.blocks["weight"].total), float(expected.blocks["weight"].total), rtol=1e-6
        )
        assert (found.blocks["update"].bound, found.blocks["weight"].bound) == (CLIP, 1.0)

    def test_no_user_moves_the_sum_by_more_than_the_bound(self, collect: Callable[[Population], BoundedSum]) -> None:
        users = POPULATIONS["ragged"]
        whole = vector(collect(users))
        for user in range(len(users)):
            rest = vector(collect(users[:user] + users[user + 1 :]))
            assert np.linalg.norm(whole - rest) <= CLIP

    def test_who_else_is_there_changes_what_a_user_adds_by_rounding_alone(
        self, collect: Callable[[Population], BoundedSum]
    ) -> None:
        """Their update is the same to the bit, and float64 sums of a few users lose nothing that shows at this scale."""
        user: Population = [[[4, 5, 6, 7]]]
        for others in (POPULATIONS["ragged"], POPULATIONS["many"]):
            added = vector(collect(user + others)) - vector(collect(others))
            np.testing.assert_allclose(added, vector(collect(user)), rtol=0, atol=1e-14)

    def test_the_same_users_give_the_same_bytes(self, collect: Callable[[Population], BoundedSum]) -> None:
        users = POPULATIONS["many"]
        assert vector(collect(users)).tobytes() == vector(collect(users)).tobytes()


def test_several_gpus_of_one_process_share_a_round(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two devices of the CPU stand for two GPUs of one machine: placement as for GPUs, each with its own gate, no Ray."""
    monkeypatch.setattr(placement.jax, "default_backend", lambda: "gpu")
    spread = suitable_spread(parameter_count(model()), 23)
    assert len(spread.devices) == 2
    assert (spread.chunk, spread.lanes) == (12, 12)  # half of a round, all of them in lockstep
    engine = BatchedUsers(ListUsers(POPULATIONS["many"]), WORK, PLAN, SHAPE, spread)
    numbers = np.arange(23)
    gates, _ = engine.admitted(model(), Cohort(engine.prepare(numbers), numbers), NORMS)
    places = [{device for leaf in jax.tree.leaves(gate._update) for device in leaf.devices()} for gate in gates]
    assert places == [{spread.devices[0]}, {spread.devices[1]}]
    found = through(engine, POPULATIONS["many"])
    np.testing.assert_allclose(vector(found), vector(by_reference(POPULATIONS["many"])), atol=1e-6)


def test_no_engine_is_forgotten() -> None:
    assert implementations(Engine) == {"BatchedUsers", "RayUsers"}


@settings(max_examples=10)
@given(
    sizes=st.lists(st.integers(0, 9), max_size=12),
    workers=st.integers(1, 9),
    order=st.randoms(use_true_random=False),
)
def test_any_number_of_workers_in_any_order_gives_the_same_bytes(sizes: list[int], workers: int, order: Any) -> None:
    users: Population = [[[3 + (place % 6) for place in range(size)]] for size in sizes]

    def shuffled(done: list[Any]) -> list[Any]:
        mixed = list(done)
        order.shuffle(mixed)
        return mixed

    one, several = on_ray(_inline(1), 5), on_ray(InlinePool(workers, shuffled), 5)
    assert vector(through(one, users)).tobytes() == vector(through(several, users)).tobytes()


@pytest.mark.process
def test_workers_on_ray_give_the_bytes_that_workers_here_give(workers: RayPool) -> None:
    for users in POPULATIONS.values():
        here, there = through(on_ray(_inline(1)), users), through(on_ray(workers), users)
        np.testing.assert_array_equal(vector(here), vector(there))
