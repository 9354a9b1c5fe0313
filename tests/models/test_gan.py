"""The GAN's networks and losses."""

from __future__ import annotations

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from tacit.errors import RecipeError
from tacit.models.gan import Discriminator, build, discriminator_loss, generate, generator_loss, preset

NETWORKS = jax.jit(lambda key: build(preset("small"), key=key))(jax.random.key(0))
IMAGES = jax.jit(lambda generator, key: generate(generator, 6, key=key))(NETWORKS[0], jax.random.key(1))
KEY = jax.random.key(7)


@jax.jit
def loss_and_gradient(
    discriminator: Discriminator, real: jax.Array, fake: jax.Array, mask: jax.Array, penalty: float = 10.0
) -> tuple[jax.Array, Discriminator]:
    return jax.value_and_grad(discriminator_loss)(discriminator, real, fake, mask, key=KEY, penalty=penalty)


@pytest.mark.parametrize(
    ("name", "generator", "discriminator"), [("paper", 13_285_217, 6_556_865), ("small", 216_889, 108_977)]
)
def test_presets_have_the_documented_sizes(name: str, generator: int, discriminator: int) -> None:
    shapes = jax.eval_shape(lambda key: build(preset(name), key=key), jax.random.key(0))
    assert [sum(leaf.size for leaf in jax.tree.leaves(one)) for one in shapes] == [generator, discriminator]


def test_an_unknown_preset_is_named() -> None:
    with pytest.raises(RecipeError, match="among paper, small, got 'huge'"):
        preset("huge")


def test_images_have_the_right_shape_and_range() -> None:
    assert IMAGES.shape == (6, 28, 28, 1)
    assert float(jnp.abs(IMAGES).max()) <= 1
    assert float(jnp.std(IMAGES, axis=0).max()) > 0.05  # other latents, other images
    paper = jax.eval_shape(lambda key: generate(build(preset("paper"), key=key)[0], 4, key=key), jax.random.key(0))
    assert paper.shape == (4, 28, 28, 1)


def test_the_loss_is_the_formula() -> None:
    """With slopes taken by differences, one image at a time."""
    _, discriminator = NETWORKS
    score, slope_of = eqx.filter_jit(discriminator), jax.jit(lambda image: jax.grad(discriminator)(image))
    share = jax.random.uniform(KEY, (3, 1, 1, 1), jnp.float32)
    real, fake, expected = IMAGES[:3], IMAGES[3:], 0.0
    for i in range(3):
        between = share[i] * real[i] + (1 - share[i]) * fake[i]
        slope = slope_of(between)
        step = 1e-2 * slope / jnp.linalg.norm(slope)
        rise = float(score(between + step) - score(between - step)) / 2e-2
        expected += float(score(fake[i]) - score(real[i])) + 10 * (rise - 1) ** 2
    ours, _ = loss_and_gradient(discriminator, real, fake, jnp.ones((3,), jnp.float32))
    assert float(ours) == pytest.approx(expected / 3, rel=0.02)
    without, _ = loss_and_gradient(discriminator, real, fake, jnp.ones((3,), jnp.float32), 0.0)
    assert float(without) < float(ours)


def test_padding_counts_for_nothing() -> None:
    _, discriminator = NETWORKS
    real = jnp.concatenate([IMAGES[:2], jnp.zeros((1, 28, 28, 1), jnp.float32)])
    _, none = loss_and_gradient(discriminator, real, IMAGES[3:], jnp.zeros((3,), jnp.float32))
    assert all(not np.asarray(leaf).any() for leaf in jax.tree.leaves(none))
    mask = jnp.array([1.0, 1.0, 0.0])
    _, padded = loss_and_gradient(discriminator, real, IMAGES[3:], mask)
    _, other = loss_and_gradient(discriminator, real.at[2].set(0.5), IMAGES[3:], mask)
    for a, b in zip(*map(jax.tree.leaves, (padded, other)), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-7)
        assert np.isfinite(np.asarray(a)).all()


def test_the_generators_loss_falls_where_the_discriminator_is_pleased() -> None:
    generator, discriminator = NETWORKS
    latents = jax.random.normal(jax.random.key(3), (8, generator.latent), jnp.float32)
    scores = jax.jit(lambda latents: jax.vmap(discriminator)(generator(latents)))(latents)
    loss = jax.jit(generator_loss)(generator, discriminator, latents)
    assert float(loss) == pytest.approx(-float(scores.mean()), rel=1e-4)
