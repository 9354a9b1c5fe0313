"""DP-FedAvg-GAN: the discriminator behind the gate, the generator behind the release."""

from __future__ import annotations

import inspect
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from numpy.typing import NDArray

from tacit.data.users import Examples
from tacit.errors import DataError
from tacit.learning.adversarial import (
    Adversaries,
    DiscriminatorWork,
    GeneratorSteps,
    _checksum,
    adversarial_server,
    adversaries,
)
from tacit.learning.batches import image_batches
from tacit.learning.loop import TrainingState, train
from tacit.learning.state import from_arrays, to_arrays
from tacit.models.gan import GanConfig, build, generate
from tacit.privacy.gate.rounding import LARGEST_NORM
from tacit.privacy.gate.sums import BoundedSum, ClipThresholds, Contributions, Diagnostics, Gate
from tacit.privacy.gate.thresholds import FixedClip
from tacit.privacy.noise.mechanisms import Gaussian, NoNoise
from tacit.privacy.noise.randomness import NoiseKey, Randomness
from tacit.privacy.record.records import UPDATE
from tacit.testing.work import UserWorkContract
from tests.support.diverged import stretched
from tests.support.list_users import ListUsers

CONFIG = GanConfig(8, 16, (8, 8, 4), (4, 8), 16)
MODEL = jax.jit(lambda key: adversaries(build(CONFIG, key=key), key=key))(jax.random.key(0))
WORK = DiscriminatorWork(learning_rate=0.05, epochs=2)
UPDATES = jax.jit(jax.vmap(WORK, in_axes=(None, 0, None, None)))
SERVER = adversarial_server(optax.sgd(1.0), 3.0, GeneratorSteps(optax.sgd(0.05), steps=2, batch_size=8))
EXAMPLES = np.random.default_rng(0).integers(0, 256, (9, 28, 28), dtype=np.uint8)


def pictures(images: NDArray[np.uint8], counts: list[int]) -> Examples:
    offsets = np.cumsum([0, *counts]).astype(np.int64)
    labels = np.arange(len(images), dtype=np.int32)
    return Examples(images, np.arange(len(images) + 1, dtype=np.int64), offsets, labels)


@dataclass(frozen=True)
class OneRound:
    """A cohort, as the loop wants it."""

    round: int
    noise_key: NoiseKey
    attempt: int = 0

    def settle(self, broadcast, norms):
        return self


class Home:
    """Users' side of the gate, as small as it can be."""

    def __init__(self, batches: Any) -> None:
        self.batches = batches
        self.bounded: BoundedSum | None = None

    def collect(
        self, broadcast: Adversaries, cohort: Any, norms: ClipThresholds
    ) -> tuple[BoundedSum, list[Diagnostics]]:
        gate = Gate(WORK.learned(broadcast), norms, style="flat", weighted=False)
        present = jnp.asarray(self.batches["mask"].sum(axis=(1, 2)) > 0)
        updates = UPDATES(broadcast, self.batches, np.int32(2), np.float32(norms.clip))
        diagnostics = gate.admit(Contributions(updates, present.astype(jnp.float32), present))
        self.bounded = gate.close()
        return self.bounded, [diagnostics]


class Quiet:
    """A journal that keeps nothing."""

    def before(self, cohort: Any, norms: ClipThresholds) -> None: ...

    def after(self, state: TrainingState, diagnostics: list[Diagnostics]) -> None: ...


class Silence:
    """A mechanism whose release says nothing about anybody: zeros."""

    name, noise_multipliers = "silence", {UPDATE: 0.0}

    def init(self, template: Any) -> tuple[()]:
        return ()

    def release(self, bounded: BoundedSum, state: Any, *, key: jax.Array) -> tuple[Any, Any]:
        total = bounded.blocks[UPDATE].total
        return {UPDATE: jax.tree.map(lambda leaf: jnp.zeros(leaf.shape, jnp.float32), total)}, state


def run(
    home: Home, mechanism: Any, rounds: int = 1, *, model: Adversaries = MODEL, server: Any = SERVER, clip: float = 1.0
) -> TrainingState:
    return train(
        TrainingState(0, model, server.init(model), (), ()),
        participation=[OneRound(i, Randomness.from_seed(i).noise_key(round=0, attempt=0)) for i in range(rounds)],
        users=home,
        clipping=FixedClip(lambda _: clip),
        mechanism=mechanism,
        server=server,
        journal=Quiet(),
    )


def leaves(tree: Any) -> list[np.ndarray]:
    return [np.asarray(leaf) for leaf in jax.tree.leaves(tree)]


def equal(one: Any, other: Any) -> bool:
    return all(np.array_equal(a, b) for a, b in zip(leaves(one), leaves(other), strict=True))


BATCHES = image_batches(pictures(EXAMPLES, [4, 0, 5]), batch_size=3, steps=2)
OTHERS = image_batches(pictures(255 - EXAMPLES, [2, 6, 1]), batch_size=3, steps=2)


def test_images_are_cut_into_batches() -> None:
    assert BATCHES["images"].shape == (3, 2, 3, 28, 28)
    assert BATCHES["mask"].tolist() == [[[1, 1, 1], [1, 0, 0]], [[0, 0, 0], [0, 0, 0]], [[1, 1, 1], [1, 1, 0]]]
    assert np.array_equal(BATCHES["images"][2, 1, :2], EXAMPLES[7:9])
    assert not BATCHES["images"][0, 1, 1:].any()
    assert BATCHES["labels"][2].tolist() == [[4, 5, 6], [7, 8, 0]]
    short = image_batches(pictures(EXAMPLES, [4, 5]), batch_size=2, steps=1)
    assert np.array_equal(short["images"][1, 0], EXAMPLES[4:6])
    with pytest.raises(DataError, match="28×28, got text"):
        image_batches(ListUsers([[[4]]]).gather(np.array([0])), batch_size=2, steps=1)
    with pytest.raises(DataError, match="28×28, got 14×28"):
        image_batches(pictures(EXAMPLES[:, :14], [9]), batch_size=2, steps=1)


def test_only_the_discriminator_passes_the_gate() -> None:
    home = Home(BATCHES)
    run(home, Silence())
    assert home.bounded is not None
    assert set(home.bounded.blocks) == {UPDATE}
    assert jax.tree.structure(home.bounded.blocks[UPDATE].total) == jax.tree.structure(MODEL.discriminator)
    assert home.bounded.blocks[UPDATE].bound == 1.0


def test_the_generator_learns_nothing_of_users_but_releases() -> None:
    """Other users, the same releases: the same generator, bit by bit. Other releases: another one."""
    here, there = (run(Home(batches), Silence(), rounds=3).model for batches in (BATCHES, OTHERS))
    assert equal(here, there)
    loud = [run(Home(batches), NoNoise({UPDATE: 0.0}), rounds=3).model for batches in (BATCHES, OTHERS)]
    assert not equal(loud[0].generator, loud[1].generator)
    assert list(inspect.signature(SERVER.step).parameters) == ["model", "state", "release"]


def test_a_round_is_the_pseudocode() -> None:
    """θ_D moves by the mean of the released sum; then the generator takes its steps against the *new* θ_D."""
    release = {UPDATE: jax.tree.map(jnp.ones_like, MODEL.discriminator)}
    after, _, finite = SERVER.step(MODEL, SERVER.init(MODEL), release)
    for old, new in zip(leaves(MODEL.discriminator), leaves(after.discriminator), strict=True):
        np.testing.assert_allclose(new, old + 1 / 3, rtol=1e-5, atol=1e-6)
    assert bool(finite)
    still = SERVER.step(MODEL, SERVER.init(MODEL), jax.tree.map(jnp.zeros_like, release))[0]
    assert not equal(after.generator, still.generator)
    assert not equal(still.generator, MODEL.generator)
    assert not np.array_equal(after.key, MODEL.key)


class TestDiscriminatorWork(UserWorkContract):
    """A user's update is the same in any company, and however many empty batches pad it."""

    def local(self) -> Any:
        return WORK

    def model(self) -> Any:
        return MODEL

    def batches(self) -> Any:
        return {name: leaf[2] for name, leaf in BATCHES.items()}


def test_all_of_the_discriminator_learns_but_the_bias_of_its_score() -> None:
    """That bias adds to real and made-up images alike."""
    update = UPDATES(MODEL, BATCHES, np.int32(2), np.float32(1.0))
    assert [leaf[0].any() for leaf in leaves(update)] == [True] * 7 + [False]


def test_padding_is_nothing_where_numbers_end() -> None:
    """A discriminator whose derivatives are not finite is left as it is by a batch without images."""
    huge = Adversaries(MODEL.generator, stretched(MODEL.discriminator, 2 * LARGEST_NORM), MODEL.key)
    updates = UPDATES(huge, BATCHES, np.int32(2), np.float32(1.0))
    assert not any(leaf[1].any() for leaf in leaves(updates))
    assert not all(np.isfinite(leaf[0]).all() for leaf in leaves(updates))


def test_every_round_draws_other_inputs() -> None:
    next_round = Adversaries(MODEL.generator, MODEL.discriminator, MODEL.key + np.uint32(1))
    one, other = (UPDATES(model, BATCHES, np.int32(2), np.float32(1.0)) for model in (MODEL, next_round))
    assert not equal(one, other)


def test_every_user_draws_other_inputs() -> None:
    """The seed of a user's draws is the user's own pixels and where they stand."""
    seeds = {int(_checksum(jnp.asarray(images))) for images in (EXAMPLES, EXAMPLES[::-1], 255 - EXAMPLES, EXAMPLES[:3])}
    assert len(seeds) == 4
    key = lambda images: jax.random.fold_in(jax.random.key(0), _checksum(jnp.asarray(images)))  # noqa: E731
    assert key(EXAMPLES) == key(EXAMPLES.copy()) != key(EXAMPLES[::-1])


def test_a_run_is_kept_and_taken_up_again() -> None:
    state = run(Home(BATCHES), NoNoise({UPDATE: 0.0}))
    fresh = TrainingState(0, MODEL, SERVER.init(MODEL), (), ())
    again = from_arrays(fresh, 1, *to_arrays(state))
    assert equal(again.model, state.model)
    assert again.model.key.dtype == jnp.uint32


def test_it_learns_how_bright_the_world_is() -> None:
    """Users hold bright images; through clipping and noise, the generator's images become bright."""
    bright = (200 + np.random.default_rng(1).integers(0, 40, (18, 28, 28))).astype(np.uint8)
    home = Home(image_batches(pictures(bright, [6] * 3), batch_size=3, steps=2))
    server = adversarial_server(optax.sgd(1.0), 3.0, GeneratorSteps(optax.adam(0.01), steps=2, batch_size=8))
    brightness = jax.jit(lambda generator: jnp.mean(generate(generator, 16, key=jax.random.key(9))))
    model = run(home, Gaussian({UPDATE: 0.01}), rounds=25, server=server, clip=0.5).model
    assert float(brightness(MODEL.generator)) < 0.3
    assert float(brightness(model.generator)) > 0.5
