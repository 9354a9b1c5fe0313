"""The generative adversarial network of Debugging, appendix C.2, for 28×28 images, with the Wasserstein loss of
Gulrajani et al. (2017): the discriminator's gradient is pulled towards norm 1 with a penalty of 10.

    ℓ_D = E D(fake) - E D(real) + 10 E (‖∇D(x̂)‖ - 1)²,   x̂ between a real and a fake image        ℓ_G = -E D(fake)

The layers are those of the MNIST tutorial the paper borrows from, with two changes. In the discriminator the hidden layer is
normalised over its units and not over the batch: the penalty is defined for one example, and running statistics of users'
batches would be a further release. The generator always normalises over the batch it generates and keeps no running statistics
either, so it generates images in batches of two or more.

| preset | generator                                             | discriminator                       | parameters            |
|--------|-------------------------------------------------------|-------------------------------------|-----------------------|
| paper  | 128, 1024, 7×7×256, 14×14×64, 28×28×32, image         | 14×14×64, 7×7×128, 1024, score      | 13,285,217, 6,556,865 |
| small  | 32, 128, 7×7×32, 14×14×16, 28×28×8, image             | 14×14×16, 7×7×32, 64, score         | 216,889, 108,977      |
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

import equinox as eqx
import jax
import jax.numpy as jnp
from jax import Array, lax

from tacit.errors import RecipeError
from tacit.models.layers.convolution import Convolution, Dense, build_convolution, build_dense, he_normal
from tacit.models.layers.precision import Precision

PENALTY = 10.0
_START = 7  # the generator's first image is 7×7, doubled twice
_KERNEL = 4
_LEAK = 0.01
_EPSILON = 1e-3
_LAYOUT = ("NHWC", "HWIO", "NHWC")


@dataclass(frozen=True)
class GanConfig:
    """The shape of both networks: the generator's input, its hidden layer and channels, those of the discriminator."""

    latent: int = 128
    generator_hidden: int = 1024
    generator_channels: tuple[int, int, int] = (256, 64, 32)
    discriminator_channels: tuple[int, int] = (64, 128)
    discriminator_hidden: int = 1024


class Generator(eqx.Module):
    """`generator(latents)` are images made from random vectors, from -1 (black) to 1 (white)."""

    hidden: Array  # [latent, hidden]
    start: Array  # [hidden, 7 * 7 * channels]
    first: Array  # [4, 4, inputs, outputs], doubles to 14×14
    second: Array  # likewise, to 28×28
    image: Array  # [4, 4, inputs, 1]
    shifts: tuple[Array, ...]  # after each normalisation, and of the image

    def __call__(self, latents: Array) -> Array:
        """Images [B, 28, 28, 1] from latents [B, latent]."""
        *shifts, brightness = self.shifts
        highest = lax.Precision.HIGHEST
        x = _activated(jnp.matmul(latents, self.hidden, precision=highest), shifts[0])
        x = _activated(jnp.matmul(x, self.start, precision=highest), shifts[1])
        x = x.reshape(len(latents), _START, _START, -1)
        for kernel, shift in ((self.first, shifts[2]), (self.second, shifts[3])):
            x = lax.conv_transpose(x, kernel, (2, 2), "SAME", dimension_numbers=_LAYOUT, precision=highest)
            x = _activated(x, shift)
        x = lax.conv_general_dilated(x, self.image, (1, 1), "SAME", dimension_numbers=_LAYOUT, precision=highest)
        return jnp.tanh(x + brightness)

    @property
    def latent(self) -> int:
        """The dimension of its random input."""
        return self.hidden.shape[0]


class Discriminator(eqx.Module):
    """`discriminator(image)` is a score, higher for images it takes for real."""

    first: Convolution
    second: Convolution
    hidden: Array  # [pixels, hidden]
    shift: Array  # [hidden], after the normalisation
    score: Dense

    def __call__(self, image: Array, *, precision: Precision = "float32") -> Array:
        """The score of one image [28, 28, 1] from -1 to 1."""
        x = jax.nn.leaky_relu(self.first(image, precision=precision), _LEAK)
        x = jax.nn.leaky_relu(self.second(x, precision=precision), _LEAK)
        no_bias = jnp.zeros_like(self.shift)
        x = Dense(self.hidden, no_bias)(x.reshape(-1), precision=precision)
        x = jax.nn.leaky_relu(_normalised(x, axes=(0,)) + self.shift, _LEAK)
        return self.score(x, precision=precision)[0]


PRESETS: dict[str, GanConfig] = {
    "paper": GanConfig(),
    "small": GanConfig(32, 128, (32, 16, 8), (16, 32), 64),
}


def preset(name: str) -> GanConfig:
    """The named shape."""
    if name not in PRESETS:
        raise RecipeError(f"Expected gan.preset among {', '.join(PRESETS)}, got {name!r}.")
    return PRESETS[name]


def build(config: GanConfig, *, key: Array) -> tuple[Generator, Discriminator]:
    """Fresh networks of this shape, in float32."""
    keys = iter(jax.random.split(key, 9))
    start, first, second = config.generator_channels
    widths = (config.generator_hidden, _START * _START * start, first, second, 1)
    generator = Generator(
        hidden=he_normal(next(keys), (config.latent, config.generator_hidden)),
        start=he_normal(next(keys), (config.generator_hidden, widths[1])),
        first=he_normal(next(keys), (_KERNEL, _KERNEL, start, first)),
        second=he_normal(next(keys), (_KERNEL, _KERNEL, first, second)),
        image=he_normal(next(keys), (_KERNEL, _KERNEL, second, 1)),
        shifts=tuple(jnp.zeros((width,), jnp.float32) for width in widths),
    )
    one, two = config.discriminator_channels
    halved = partial(build_convolution, side=_KERNEL, stride=2, padding=1)
    discriminator = Discriminator(
        first=halved(1, one, key=next(keys)),
        second=halved(one, two, key=next(keys)),
        hidden=he_normal(next(keys), (_START * _START * two, config.discriminator_hidden)),
        shift=jnp.zeros((config.discriminator_hidden,), jnp.float32),
        score=build_dense(config.discriminator_hidden, 1, key=next(keys)),
    )
    return generator, discriminator


def generate(generator: Generator, count: int, *, key: Array) -> Array:
    """Generate images [count, 28, 28, 1] as one batch."""
    return generator(jax.random.normal(key, (count, generator.latent), jnp.float32))


def discriminator_loss(
    discriminator: Discriminator,
    real: Array,
    fake: Array,
    mask: Array,
    *,
    key: Array,
    penalty: float = PENALTY,
    precision: Precision = "float32",
) -> Array:
    """ℓ_D over the pairs of real and fake images [B, 28, 28, 1] where mask [B] is 1; zero where there is none.

    `key` draws the point between the two images of a pair at which the gradient is penalised.
    """
    score = partial(discriminator, precision=precision)
    share = jax.random.uniform(key, (len(real), 1, 1, 1), jnp.float32)
    slopes = jax.vmap(jax.grad(score))(share * real + (1.0 - share) * fake)
    squared = jnp.sum(slopes * slopes, axis=(1, 2, 3))
    # The square root has no derivative at zero, and padding is all zeros.
    excess = jnp.square(jnp.sqrt(squared + 1e-12) - 1.0)
    losses = jax.vmap(score)(fake) - jax.vmap(score)(real) + penalty * excess
    return jnp.sum(losses * mask) / jnp.maximum(jnp.sum(mask), 1.0)


def generator_loss(
    generator: Generator, discriminator: Discriminator, latents: Array, *, precision: Precision = "float32"
) -> Array:
    """ℓ_G on the images made from latents [B, latent]."""
    return -jnp.mean(jax.vmap(partial(discriminator, precision=precision))(generator(latents)))


def _activated(x: Array, shift: Array) -> Array:
    return jax.nn.relu(_normalised(x, axes=tuple(range(x.ndim - 1))) + shift)


def _normalised(x: Array, *, axes: tuple[int, ...]) -> Array:
    mean = jnp.mean(x, axis=axes, keepdims=True)
    variance = jnp.mean(jnp.square(x - mean), axis=axes, keepdims=True)
    return (x - mean) * lax.rsqrt(variance + jnp.float32(_EPSILON))
