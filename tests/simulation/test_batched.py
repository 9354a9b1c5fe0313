"""The batched engine computes what the papers' pseudocode says, for any users and any configuration."""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import dataclass
from functools import cache
from itertools import pairwise
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tacit.data.users import Examples, Users
from tacit.data.worlds.handwriting import HandwritingWorld
from tacit.errors import DataError, PrivacyError
from tacit.learning.batches import ImageBatches, LaidOut, TextBatches
from tacit.learning.next_word import NextWord
from tacit.learning.work import FedAvg, FedSGD, LocalWork
from tacit.models.word_lm import WordLM, WordLMConfig, build
from tacit.privacy.gate.rounding import MOST_USERS
from tacit.privacy.gate.sums import HEADROOM, ClipThresholds, Contributions, Gate
from tacit.privacy.plan import PrivacyPlan
from tacit.runs.gate_audit.layout import MOST_CANARIES
from tacit.simulation import reference
from tacit.simulation.batched import BatchedUsers
from tacit.simulation.placement import Spread, suitable_spread
from tests.support.list_users import ListUsers

VOCABULARY = 9
SHAPE = {"windows": TextBatches("windows", 3, 2, 3), "sentences": TextBatches("sentences", 3, 2, 3)}


@dataclass(frozen=True)
class Cohort:
    round: int
    chunks: Any


@cache
def tiny_model() -> WordLM:
    config = WordLMConfig(vocabulary=VOCABULARY, embedding=3, units=4, projection=3, output_bias=True)
    return build(config, key=jax.random.key(1))


@cache
def engine(work: Any, plan: PrivacyPlan, layout: str) -> BatchedUsers:
    return BatchedUsers(
        ListUsers([]), work, plan, SHAPE[layout], Spread(suitable_spread(1, 1).devices, chunk=4, lanes=2)
    )


def collect(users: ListUsers, work: Any, plan: PrivacyPlan, layout: str) -> Any:
    """The engine's sum over all users; one engine a configuration, so that it compiles once."""
    batched = engine(work, plan, layout)
    batched.users = users
    return batched.collect(
        tiny_model(), Cohort(0, batched.prepare(np.arange(len(users)))), ClipThresholds(plan.clip_norm_at(0))
    )


def plan(**changes: Any) -> PrivacyPlan:
    fields = {"mechanism": "none", "population": 100, "cohort": 10, "clip_norm": 0.05, **changes}
    return PrivacyPlan(**fields)


words = st.integers(3, VOCABULARY - 1)
ragged_users = st.lists(st.lists(st.lists(words, max_size=5), max_size=4), max_size=7)


def assert_same_sum(bounded: Any, expected: list[np.ndarray], weight: float) -> None:
    scale = max(1e-6, max(float(np.abs(leaf).max()) for leaf in expected))
    for ours, theirs in zip(jax.tree.leaves(bounded.blocks["update"].total), expected, strict=True):
        np.testing.assert_allclose(np.asarray(ours), theirs * HEADROOM, atol=3e-5 * scale)
    if "weight" in bounded.blocks:
        np.testing.assert_allclose(float(bounded.blocks["weight"].total), weight * HEADROOM, rtol=1e-6)


@settings(max_examples=12)
@given(
    users=ragged_users,
    layout=st.sampled_from(["windows", "sentences"]),
    style=st.sampled_from(["flat", "per_layer"]),
    every_step=st.booleans(),
    penalty=st.sampled_from([0.0, 0.5]),
    weighted=st.booleans(),
)
def test_fedavg_equals_the_pseudocode(users, layout, style, every_step, penalty, weighted):
    extra = {"estimator": "clipped", "example_cap": 6.0, "total_weight": 50.0} if weighted else {}
    chosen = plan(clipping=style, **extra)
    local = FedAvg(epochs=2, learning_rate=0.7, clip_every_step=every_step, update_penalty=penalty)
    bounded, _ = collect(ListUsers(users), LocalWork(local, NextWord(), clip_style=style), chosen, layout)

    updates, weights = [], []
    for user in range(len(users)):
        batches = reference.user_batches(reference.user_sentences(ListUsers(users), user), SHAPE[layout])
        updates.append(
            reference.user_update_fedavg(
                tiny_model(),
                batches,
                epochs=2,
                learning_rate=0.7,
                bound=0.05,
                style=style,
                clip_every_step=every_step,
                update_penalty=penalty,
            )
        )
        weights.append(reference.user_weight(chosen, sum(map(reference.predictions, batches))))
    assert_same_sum(bounded, *reference.weighted_sum(updates, weights, jax.tree.leaves(tiny_model())))


@settings(max_examples=8)
@given(users=ragged_users, clip_norm=st.sampled_from([0.02, 5.0]))
def test_fedsgd_equals_the_pseudocode(users, clip_norm):
    chosen = plan(clip_norm=clip_norm)
    bounded, _ = collect(ListUsers(users), LocalWork(FedSGD(learning_rate=1.5), NextWord()), chosen, "windows")
    updates, weights = [], []
    for user in range(len(users)):
        batches = reference.user_batches(reference.user_sentences(ListUsers(users), user), SHAPE["windows"])
        updates.append(
            reference.user_update_fedsgd(tiny_model(), batches, learning_rate=1.5, bound=clip_norm, style="flat")
        )
        weights.append(reference.user_weight(chosen, sum(map(reference.predictions, batches))))
    assert_same_sum(bounded, *reference.weighted_sum(updates, weights, jax.tree.leaves(tiny_model())))


@pytest.mark.parametrize("user", [[], [[]], [[5]]], ids=["no sentence", "an empty sentence", "one word"])
def test_users_with_next_to_nothing(user):
    bounded, diagnostics = collect(
        ListUsers([user]), LocalWork(FedSGD(learning_rate=1.5), NextWord()), plan(), "windows"
    )
    moved = any(np.abs(leaf).max() > 0 for leaf in jax.tree.leaves(bounded.blocks["update"].total))
    assert moved == (user != [])
    assert diagnostics[0].present.sum() == 1


def _total(bounded: Any) -> Any:
    return bounded.blocks["update"].total


def test_a_users_update_does_not_depend_on_who_shares_the_chunk():
    """The gate's proof needs it: what one user adds must not change what the others add, to the last bit."""
    user, others, more = [[4, 5, 6, 7]], [[[5, 4]], [[8, 8, 8]], [[6]]], [[[7]] * 4, [[4] * 7] * 4, []]
    for work in (
        LocalWork(FedAvg(epochs=2, learning_rate=3.0), NextWord()),
        LocalWork(FedAvg(epochs=2, learning_rate=3.0, clip_every_step=True), NextWord()),
        LocalWork(FedSGD(learning_rate=3.0), NextWord()),
    ):
        batched = engine(work, plan(clip_norm=1e-3), "windows")
        updates = []
        for company in (others, more):
            batched.users = ListUsers([user, *company])
            (chunk,) = batched.prepare(np.arange(4))
            place = int(np.flatnonzero((chunk.batches[:, 0, 0] == [1, 4, 5, 6]).all(axis=1))[0])
            all_updates = batched._compiled(tiny_model())(
                tiny_model(), chunk.batches, np.int32(chunk.steps), np.float32(1e-3)
            )
            updates.append([np.asarray(leaf[place]) for leaf in jax.tree.leaves(all_updates)])
        assert all((one == other).all() for one, other in zip(*updates, strict=True))


@pytest.mark.parametrize("epochs", [1, pytest.param(2, marks=pytest.mark.slow)])
def test_what_is_padded_at_the_end_of_the_numbers_counts_alike_in_any_company(epochs):
    """An empty batch multiplies by zero; where numbers overflow that is not zero, and the gate must not tell the difference."""
    user, alone, longer = [[4, 5, 6, 7]], [[[5, 4]], [[8, 8, 8]], [[6]]], [[[7]] * 4, [[4] * 7] * 4, []]
    counted = []
    for rate in (1e3, 1e13, 1e25, 1e36):
        batched = engine(
            LocalWork(FedAvg(epochs=epochs, learning_rate=rate), NextWord()), plan(clip_norm=1.0), "windows"
        )
        shares = []
        for company in (alone, longer):
            batched.users = ListUsers([user, *company])
            (chunk,) = batched.prepare(np.arange(4))
            mine = (chunk.batches[:, 0, 0] == [1, 4, 5, 6]).all(axis=1)
            updates = batched._compiled(tiny_model())(
                tiny_model(), chunk.batches, np.int32(chunk.steps), np.float32(1.0)
            )
            gate = Gate(tiny_model(), ClipThresholds(1.0), style="flat", weighted=True)
            gate.admit(Contributions(updates, chunk.weights, mine))
            shares.append(gate.close())
        totals = [[np.asarray(leaf) for leaf in jax.tree.leaves(_total(share))] for share in shares]
        assert all((one == other).all() for one, other in zip(*totals, strict=True))
        weights = {float(share.blocks["weight"].total) for share in shares}
        assert len(weights) == 1
        counted.append(weights.pop() > 0)
    assert counted[0]
    assert not counted[-1]


def test_a_round_larger_than_rounding_is_proven_for_is_refused():
    private = plan(mechanism="gaussian", noise_multiplier=1.0, delta=1e-5)
    for of, refused in ((private, True), (plan(), False)):
        batched = engine(LocalWork(FedSGD(learning_rate=1.0), NextWord()), of, "windows")
        batched.users = ListUsers([[[4]]])
        with pytest.raises(PrivacyError, match="at most 131,056 users") if refused else nullcontext():
            next(batched.prepare(np.zeros(MOST_USERS - MOST_CANARIES + 1, np.int64)))
        next(batched.prepare(np.zeros(9, np.int64)))


@dataclass(frozen=True)
class MeanImage:
    """Work on images that learns a part of what was sent out."""

    def learned(self, model: Any) -> Any:
        return model["ink"]

    def __call__(self, model: Any, batches: Any, steps: jax.Array, clip_norm: jax.Array) -> jax.Array:
        ink = jnp.sum(batches["images"].astype(jnp.float32) * batches["mask"][..., None, None], axis=(0, 1))
        return ink * model["scale"] / jnp.maximum(jnp.sum(batches["mask"]), 1.0)


@dataclass(frozen=True)
class Careless:
    """Work that counts its steps, empty or not, on a task that learns from padding."""

    batch_size: int = 2

    def update(self, task: Any, model: Any, batches: Any, steps: jax.Array, clip_norm: Any) -> Any:
        step = FedAvg(learning_rate=0.1).update(task, model, batches, steps, clip_norm)
        return jax.tree.map(lambda leaf: leaf * (1 + steps).astype(leaf.dtype), step)


def counts_padding(model: WordLM, tokens: jax.Array) -> tuple[jax.Array, int]:
    return NextWord().loss_sum(model, jnp.maximum(tokens, 3))[0], tokens.size


@pytest.mark.parametrize(
    "work",
    [LocalWork(Careless(), NextWord()), LocalWork(FedAvg(), counts_padding), LocalWork(FedSGD(), counts_padding)],
    ids=["work", "task", "one gradient"],
)
def test_work_and_tasks_of_ones_own_cannot_make_a_users_update_depend_on_the_others(work: LocalWork) -> None:
    assert not work.ignores_padding
    user, others = [[4, 5, 6, 7]], [[[5, 4]], [[4] * 7] * 4]
    batched, shares = engine(work, plan(clip_norm=1e6), "windows"), []
    for company in others:
        totals = []
        for users in ([user, company], [company]):
            batched.users = ListUsers(users)
            bounded, _ = batched.collect(
                tiny_model(), Cohort(0, batched.prepare(np.arange(len(users)))), ClipThresholds(1e6)
            )
            totals.append([np.asarray(leaf) for leaf in jax.tree.leaves(_total(bounded))])
        shares.append([one - other for one, other in zip(*totals, strict=True)])
    for one, other in zip(*shares, strict=True):
        np.testing.assert_allclose(one, other, atol=1e-12)


def test_an_update_that_would_broadcast_in_the_sum_is_refused() -> None:
    class Short:
        def __call__(self, model: WordLM, batches: Any, steps: jax.Array, clip_norm: jax.Array) -> Any:
            return jax.tree.map(lambda leaf: leaf[:1], model)

    with pytest.raises(PrivacyError, match="the structure and shapes of what users update"):
        collect(ListUsers([[[4, 5]]]), Short(), plan(), "windows")


def image_engine(users: Users) -> BatchedUsers:
    spread = Spread(suitable_spread(1, 1).devices, chunk=4, lanes=2)
    return BatchedUsers(users, MeanImage(), plan(clip_norm=1e6), ImageBatches(2, 3), spread)


def test_images_pass_the_gate_in_batches_and_only_what_is_learned():
    users = HandwritingWorld(0, 9, glyphs_per_writer=5)
    batched = image_engine(users)
    model = {"ink": jnp.zeros((28, 28), jnp.float32), "scale": jnp.float32(0.5)}
    bounded, diagnostics = batched.collect(model, Cohort(0, batched.prepare(np.arange(9))), ClipThresholds(1e6))
    full = users.gather(np.arange(9))
    first = [full.items[start : min(start + 6, end)] for start, end in pairwise(full.user_offsets)]
    expected = sum(0.5 * images.mean(axis=0) for images in first)
    total = np.asarray(bounded.blocks["update"].total)
    assert total.shape == (28, 28)
    np.testing.assert_allclose(total, expected * HEADROOM, rtol=1e-5, atol=1e-3)
    assert sum(int(np.asarray(each.present).sum()) for each in diagnostics) == 9


def test_an_engine_for_images_refuses_text():
    with pytest.raises(DataError, match="images of 28×28, got text"):
        next(image_engine(ListUsers([[[4, 5]]])).prepare(np.arange(1)))


class CountsPadding:
    """A loss of somebody's own, which takes padding for predictions."""

    def __call__(self, model: Any, batch: Any) -> tuple[jax.Array, int]:
        return jnp.sum((model - batch.astype(jnp.float32)) ** 2), batch.size


class CountsSteps:
    """Work of somebody's own, which makes an update of the number of steps."""

    def __call__(self, model: Any, batches: Any, steps: jax.Array, clip_norm: jax.Array) -> jax.Array:
        return steps.astype(jnp.float32)


class Mixing(TextBatches):
    """A batching of somebody's own, which gives every user the examples of all users in the call."""

    def lay_out(self, examples: Examples) -> LaidOut:
        users = len(examples.user_offsets) - 1
        everything = Examples(examples.items, examples.example_offsets, examples.user_offsets[[0, -1]])
        found = super().lay_out(everything)
        first = np.zeros(users, np.int64)
        return LaidOut(found.sizes[first], found.predictions[first], lambda chosen: found.batches(first[chosen]))


@pytest.mark.parametrize(
    ("work", "shape"),
    [
        (LocalWork(FedAvg(epochs=2, batch_size=2, learning_rate=0.1), CountsPadding()), SHAPE["sentences"]),
        (LocalWork(FedSGD(batch_size=2, learning_rate=0.1), CountsPadding()), SHAPE["sentences"]),
        (CountsSteps(), SHAPE["sentences"]),
        (LocalWork(FedSGD(batch_size=2, learning_rate=0.1), CountsPadding()), Mixing("sentences", 3, 2, 3)),
    ],
    ids=["a loss that counts padding", "one gradient of it", "work that counts steps", "a batching that mixes users"],
)
def test_what_one_user_adds_does_not_depend_on_who_shares_their_chunk(work: Any, shape: Any) -> None:
    people = [[[4, 5]], [[5, 6], [7], [8, 4], [6], [4, 4]], [[7, 7], [8]]]

    def total(users: list[list[list[int]]]) -> float:
        spread = Spread(suitable_spread(1, 1).devices, chunk=4, lanes=2)
        batched = BatchedUsers(ListUsers(users), work, plan(clip_norm=1e6), shape, spread)
        cohort = Cohort(0, batched.prepare(np.arange(len(users))))
        bounded, _ = batched.collect(jnp.float32(1.25), cohort, ClipThresholds(1e6))
        return float(bounded.blocks["update"].total)

    alone = [total([user]) for user in people]
    assert min(map(abs, alone)) > 0
    assert total(people) == pytest.approx(sum(alone), rel=1e-5)


@pytest.mark.parametrize("parameters", [100, 30_000, 70_000, 10**6])
def test_a_chunk_is_a_whole_number_of_lanes(parameters: int) -> None:
    """Otherwise the last users of a chunk are compiled in another width, and who is last depends on the others."""
    for wanted in range(1, 70):
        for spread in (suitable_spread(parameters, wanted), suitable_spread(parameters, 100, chunk=wanted)):
            assert spread.chunk % spread.lanes == 0
        assert wanted <= spread.chunk < wanted + spread.lanes
