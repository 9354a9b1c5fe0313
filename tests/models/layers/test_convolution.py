"""Convolutions as products: the same numbers as the library's own."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from tacit.models.layers.convolution import build_convolution, build_dense, to_unit_range


@pytest.mark.parametrize(("side", "stride", "padding"), [(3, 1, 0), (4, 2, 1), (4, 2, 0)])
def test_a_convolution_is_the_librarys(side: int, stride: int, padding: int) -> None:
    layer = build_convolution(2, 5, side=side, stride=stride, padding=padding, key=jax.random.key(0))
    image = jax.random.normal(jax.random.key(1), (10, 10, 2), jnp.float32)
    blocks = layer.kernel.reshape(side // stride, side // stride, stride, stride, 2, 5)
    kernel = blocks.transpose(0, 2, 1, 3, 4, 5).reshape(side, side, 2, 5)
    expected = jax.lax.conv_general_dilated(
        image[None],
        kernel,
        (stride, stride),
        [(padding, padding)] * 2,
        dimension_numbers=("NHWC", "HWIO", "NHWC"),
        precision="highest",
    )[0]
    np.testing.assert_allclose(layer(image), expected + layer.bias, rtol=1e-4, atol=1e-5)


def test_fresh_layers_keep_the_size_of_what_they_read() -> None:
    x = jax.random.normal(jax.random.key(1), (400,), jnp.float32)
    out = build_dense(400, 3000, key=jax.random.key(0))(x)
    assert float(jnp.mean(out**2)) == pytest.approx(2 * float(jnp.mean(x**2)), rel=0.1)


def test_bytes_become_the_range_of_the_generator() -> None:
    pixels = to_unit_range(jnp.array([[0, 255], [51, 204]], jnp.uint8))
    assert pixels.shape == (2, 2, 1)
    np.testing.assert_allclose(pixels[..., 0], [[-1, 1], [-0.6, 0.6]], atol=1e-6)
