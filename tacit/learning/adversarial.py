"""DP-FedAvg-GAN (Debugging, Algorithm 1) as a choice of work and server step for the one training loop.

    UserDiscUpdate   `DiscriminatorWork`: steps of the discriminator on one user's images and the generator's; its update is
                     of the discriminator alone, so nothing else can pass the gate
    GenUpdate        `generator_steps`: the generator follows the discriminator; a function of released things only
    server step      `AdversarialServer`: the release moves the discriminator, then the generator takes its steps

The generator is post-processing: it is a function of the models sent out before, of the release and of public randomness, so it
costs nothing beyond the discriminator. `Adversaries` is what is sent to users and kept between rounds; its key is that public
randomness. Privacy does not depend on this key: noise has keys of its own (`tacit.privacy.noise.randomness`).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import optax
from jax import Array

from tacit.learning.server import Server, is_finite, mean_update
from tacit.models.gan import PENALTY, Discriminator, Generator, discriminator_loss, generate, generator_loss
from tacit.models.layers.convolution import to_unit_range
from tacit.models.layers.precision import Precision
from tacit.privacy.noise.mechanisms import Release

# What a draw is for, under a round's key.
_NEXT_ROUND, _ON_USERS, _GENERATOR = range(3)


class Adversaries(eqx.Module):
    """The two networks and the public randomness of the next round."""

    generator: Generator
    discriminator: Discriminator
    key: Array  # uint32, the data of a key


def adversaries(networks: tuple[Generator, Discriminator], *, key: Array) -> Adversaries:
    """These networks before the first round."""
    return Adversaries(*networks, key=jax.random.key_data(key))


@dataclass(frozen=True)
class DiscriminatorWork:
    """UserDiscUpdate: local SGD of the discriminator on a user's batches (`images` uint8 [steps, B, 28, 28], `mask`).

    The random inputs of the generator follow from the round's public key and the user's own images, so the update is a function
    of what was sent out and of this user alone. The gate clips it.
    """

    learning_rate: float
    epochs: int = 1
    penalty: float = PENALTY
    precision: Precision = "float32"

    @property
    def ignores_padding(self) -> bool:
        """A batch without images leaves the discriminator as it is."""
        return True

    def learned(self, model: Adversaries) -> Discriminator:
        """The subtree that users update."""
        return model.discriminator

    def __call__(self, model: Adversaries, batches: Any, steps: Array, clip_norm: Array) -> Discriminator:
        """Δ_k of the discriminator."""
        round_key = jax.random.fold_in(jax.random.wrap_key_data(model.key), _ON_USERS)

        def one_step(i: Array, local: Discriminator) -> Discriminator:
            batch = jax.tree.map(lambda leaf: leaf[i % steps], batches)
            # Not i itself: the number of empty batches, and so i in the second epoch, depends on other users.
            key = jax.random.fold_in(jax.random.fold_in(round_key, i % steps), i // steps)
            latent_key, mix_key = jax.random.split(jax.random.fold_in(key, _checksum(batch["images"])))
            real = to_unit_range(batch["images"])
            fake = generate(model.generator, len(real), key=latent_key)
            gradient = jax.grad(discriminator_loss)(
                local, real, fake, batch["mask"], key=mix_key, penalty=self.penalty, precision=self.precision
            )
            rate, there = jnp.float32(self.learning_rate), jnp.any(batch["mask"] > 0)
            # Selected by `where`, not multiplied by zero: derivatives of this network may not be finite.
            return jax.tree.map(lambda leaf, g: jnp.where(there, leaf - rate * g, leaf), local, gradient)

        local = jax.lax.fori_loop(0, self.epochs * steps, one_step, model.discriminator)
        return jax.tree.map(jnp.subtract, local, model.discriminator)


@dataclass(frozen=True)
class GeneratorSteps:
    """How the generator follows a discriminator: how many steps, on how many made-up images each."""

    optimizer: optax.GradientTransformation
    steps: int = 6
    batch_size: int = 32
    precision: Precision = "float32"

    def __call__(
        self, generator: Generator, state: Any, discriminator: Discriminator, *, key: Array
    ) -> tuple[Generator, Any]:
        """GenUpdate(θ_D, θ_G): the generator afterwards, and its optimizer's state."""

        def one_step(carry: tuple[Generator, Any], key: Array) -> tuple[tuple[Generator, Any], None]:
            generator, state = carry
            latents = jax.random.normal(key, (self.batch_size, generator.latent), jnp.float32)
            gradient = jax.grad(generator_loss)(generator, discriminator, latents, precision=self.precision)
            with jax.numpy_dtype_promotion("standard"):  # Adam's correction is a float to the power of a count
                updates, state = self.optimizer.update(gradient, state, generator)
            return (optax.apply_updates(generator, updates), state), None

        (generator, state), _ = jax.lax.scan(one_step, (generator, state), jax.random.split(key, self.steps))
        return generator, state


@dataclass(frozen=True)
class AdversarialServer(Server):
    """The server of Algorithm 1. `step` receives the models, its own state and the release, and nothing else."""

    generator_steps: GeneratorSteps

    def init(self, model: Adversaries) -> Any:
        """The states of both optimizers before the first round."""
        return self.optimizer.init(model.discriminator), self.generator_steps.optimizer.init(model.generator)

    def step(self, model: Adversaries, state: Any, release: Release) -> tuple[Adversaries, Any, Array]:
        """(next networks, next states, whether they are finite)."""
        return self._step(model, state, release)


def adversarial_server(
    optimizer: optax.GradientTransformation, denominator: float, generator_steps: GeneratorSteps
) -> AdversarialServer:
    """The server whose `optimizer` moves the discriminator; one round of the generator's steps follows each release."""

    @jax.jit
    def step(model: Adversaries, state: Any, release: Release) -> tuple[Adversaries, Any, Array]:
        of_discriminator, of_generator = state
        downhill = jax.tree.map(jnp.negative, mean_update(release, denominator))
        with jax.numpy_dtype_promotion("standard"):
            updates, of_discriminator = optimizer.update(downhill, of_discriminator, model.discriminator)
        discriminator = optax.apply_updates(model.discriminator, updates)
        round_key = jax.random.wrap_key_data(model.key)
        generator, of_generator = generator_steps(
            model.generator, of_generator, discriminator, key=jax.random.fold_in(round_key, _GENERATOR)
        )
        finite = is_finite((generator, discriminator))
        next_key = jax.random.key_data(jax.random.fold_in(round_key, _NEXT_ROUND))
        return Adversaries(generator, discriminator, next_key), (of_discriminator, of_generator), finite

    return AdversarialServer(optimizer, denominator, step, generator_steps)


def _checksum(images: Array) -> Array:
    """A number that differs between users, by their own pixels; uint32 arithmetic wraps around."""
    pixels = images.reshape(-1).astype(jnp.uint32)
    odd = jnp.arange(pixels.size, dtype=jnp.uint32) * jnp.uint32(2654435762) + jnp.uint32(1)
    return jnp.sum(pixels * odd, dtype=jnp.uint32)
