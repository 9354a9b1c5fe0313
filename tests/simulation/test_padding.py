"""Memory follows the data: chunks are padded to their largest user, not to the cap, and no released value changes by it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import tacit
from tacit.data.worlds.handwriting import HandwritingWorld
from tacit.errors import RecipeError
from tacit.learning.batches import LEAST_STEPS, ImageBatches, TextBatches
from tacit.learning.next_word import NextWord
from tacit.learning.work import FedAvg, FedSGD, LocalWork, reads_one_batch_at_a_time
from tacit.models.word_lm import WordLMConfig, build
from tacit.privacy.gate.sums import ClipThresholds
from tacit.privacy.plan import PrivacyPlan
from tacit.simulation.batched import BatchedUsers
from tacit.simulation.placement import Spread, suitable_spread
from tacit.simulation.training import start_run
from tests.support.list_users import ListUsers
from tests.support.run_arrays import final_arrays
from tests.support.tiny_recipe import tiny

ENDLESS = 10**11
VOCABULARY = 9
SMALL, LARGE = [[4, 5], [6, 7]], [[4, 5, 6, 7, 8]] * 700  # 2 batches of two rows of three predictions, and 817
MODEL = build(
    WordLMConfig(vocabulary=VOCABULARY, embedding=3, units=4, projection=3, output_bias=True), key=jax.random.key(1)
)
FEDAVG = LocalWork(FedAvg(epochs=2, batch_size=2, learning_rate=0.1), NextWord())


class Home:
    def __init__(self, chunks: Any) -> None:
        self.round, self.chunks = 0, chunks


def engine(users: Any, shape: Any, work: Any = FEDAVG, chunk: int = 2) -> BatchedUsers:
    plan = PrivacyPlan(mechanism="none", population=100, cohort=10, clip_norm=0.05)
    return BatchedUsers(users, work, plan, shape, Spread(suitable_spread(1, 1).devices, chunk=chunk, lanes=2))


def updates(people: list[Any], work: Any = FEDAVG, steps: int = ENDLESS, chunk: int = 2) -> list[bytes]:
    """The bits of each person's update, the largest person's first; only those who are there."""
    users = engine(ListUsers(people), TextBatches("windows", 3, 2, steps), work, chunk=chunk)
    found = []
    for each in users.prepare(np.arange(len(people))):
        made = users._compiled(MODEL)(MODEL, each.batches, np.int32(each.steps), np.float32(0.05))
        found += [
            b"".join(np.asarray(leaf[i]).tobytes() for leaf in jax.tree.leaves(made))
            for i in np.flatnonzero(each.present)
        ]
    return found


@pytest.mark.parametrize(
    ("largest", "padded"),
    [(1, LEAST_STEPS), (LEAST_STEPS, LEAST_STEPS), (LEAST_STEPS + 1, 128), (200, 256), (300, 512)],
)
def test_a_chunk_is_padded_to_its_largest_user(largest: int, padded: int) -> None:
    users = ListUsers([[[4] * (6 * largest - 1)], [[5]]])  # as many predictions as fill the batches
    laid_out = TextBatches("windows", 3, 2, ENDLESS).lay_out(users.gather(np.arange(2)))
    assert laid_out.as_needed(np.arange(2), 2).shape == (2, padded, 2, 4)
    assert laid_out.as_needed(np.array([1]), 2).shape == (1, LEAST_STEPS, 2, 4)
    capped = TextBatches("windows", 3, 2, 5).lay_out(users.gather(np.arange(2)))
    assert capped.as_needed(np.arange(2), 2).shape == capped.batches(np.arange(2)).shape == (2, 5, 2, 4)


def test_images_are_padded_to_the_largest_user() -> None:
    world = HandwritingWorld(1, 3)
    examples = world.gather(np.arange(3))
    most = int(np.diff(examples.user_offsets).max())
    found = ImageBatches(2, ENDLESS).lay_out(examples)
    exact = ImageBatches(2, max(LEAST_STEPS, 1 << (-(-most // 2) - 1).bit_length())).lay_out(examples)
    chosen = np.array([2, 0])
    for ours, theirs in zip(
        jax.tree.leaves(found.as_needed(chosen, 2)), jax.tree.leaves(exact.batches(chosen)), strict=True
    ):
        np.testing.assert_array_equal(ours, theirs)


@pytest.mark.parametrize(
    "work",
    [FEDAVG, pytest.param(LocalWork(FedSGD(batch_size=2, learning_rate=0.1), NextWord()), marks=pytest.mark.slow)],
    ids=["fedavg", "fedsgd"],
)
def test_an_update_has_the_same_bits_whoever_shares_the_chunk(work: Any) -> None:
    alone = updates([SMALL], work)[0]
    assert updates([SMALL, LARGE], work)[-1] == alone
    assert updates([SMALL, LARGE[:150]], work)[-1] == alone
    assert updates([SMALL, LARGE], work, steps=900) == updates([SMALL, LARGE], work)
    assert len(set(updates([SMALL, LARGE], work))) == 2


def test_a_chunk_holds_users_of_one_padding_only() -> None:
    """So the shape that is compiled for a user depends on that user alone."""
    people = [SMALL, LARGE, SMALL[:1], LARGE[:300], [], SMALL, LARGE]
    users = engine(ListUsers(people), TextBatches("windows", 3, 2, ENDLESS), chunk=4)
    shapes = [(chunk.batches.shape[1], int(chunk.present.sum())) for chunk in users.prepare(np.arange(7))]
    assert shapes == [(1024, 2), (512, 1), (64, 4)]
    small = engine(ListUsers(people), TextBatches("windows", 3, 2, 10), chunk=4)
    assert [chunk.batches.shape[1] for chunk in small.prepare(np.arange(7))] == [10, 10]  # the cap fits everybody


@pytest.mark.slow
def test_the_sum_does_not_depend_on_the_cap() -> None:
    people = [SMALL, LARGE, SMALL[:1], LARGE[:300], [], SMALL]

    def bits(steps: int) -> list[bytes]:
        users = engine(ListUsers(people), TextBatches("windows", 3, 2, steps), chunk=4)
        bounded, _ = users.collect(MODEL, Home(users.prepare(np.arange(6))), ClipThresholds(0.05))
        return [np.asarray(leaf).tobytes() for leaf in jax.tree.leaves(bounded.blocks["update"].total)]

    assert bits(ENDLESS) == bits(900)
    assert bits(ENDLESS) != bits(10)  # which cuts the two large users


class LooksAtEverything:
    """Work of somebody's own, whose update is the number of batches that it was given."""

    def __call__(self, model: Any, batches: Any, steps: jax.Array, clip_norm: jax.Array) -> Any:
        return jax.tree.map(lambda leaf: jnp.full_like(leaf, len(batches)), model)


def test_work_of_your_own_is_padded_to_the_cap() -> None:
    """It may look at all batches together, so their number must not tell who else is in the chunk."""
    own = LooksAtEverything()
    assert not reads_one_batch_at_a_time(own)
    assert updates([SMALL], own, steps=400)[-1] == updates([SMALL, LARGE], own, steps=400)[-1]
    users = engine(ListUsers([SMALL]), TextBatches("windows", 3, 2, 400), own)
    (chunk,) = users.prepare(np.arange(1))
    assert chunk.batches.shape == (2, 400, 2, 4)


class OwnFedAvg(FedAvg):
    """Somebody's own way to train, which may look at all batches too."""


def test_only_tacits_own_work_is_known_to_read_one_batch_at_a_time() -> None:
    assert reads_one_batch_at_a_time(LocalWork(FedAvg(), lambda model, batch: (0.0, 0)))
    assert not reads_one_batch_at_a_time(LocalWork(OwnFedAvg(), NextWord()))


def test_a_recipe_without_a_cap_trains_the_same_model(tmp_path: Path) -> None:
    models = []
    for cap in (6_000, ENDLESS):
        out = tmp_path / str(cap)
        start_run(tiny(data={"tokens_per_user": cap}, run={"seed": 7, "rounds": 2}), out, tacit.Callback())
        models.append({name: array.tobytes() for name, array in final_arrays(out).items() if name.startswith("model")})
    assert models[0] == models[1]
    with pytest.raises(RecipeError, match=r"data\.tokens_per_user"):
        tiny(data={"tokens_per_user": 10**13})
