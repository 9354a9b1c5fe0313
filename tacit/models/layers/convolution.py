"""A convolution as one matrix product, for layers of which every user has a copy of their own.

Batched over users with separate weights, a convolution becomes a grouped one, which libraries compute slowly and, on some
devices, not reproducibly. A matrix product batched over users is a batched matrix product.
"""

from __future__ import annotations

import equinox as eqx
import jax
import jax.numpy as jnp
from jax import Array

from tacit.models.layers.precision import Precision, product


class Convolution(eqx.Module):
    """A square kernel laid out as a matrix, its rows in the order of `windows`. `stride` divides `side`."""

    kernel: Array  # [side * side * inputs, outputs]
    bias: Array  # [outputs]
    side: int = eqx.field(static=True)
    stride: int = eqx.field(static=True)
    padding: int = eqx.field(static=True)

    def __call__(self, image: Array, *, precision: Precision = "float32") -> Array:
        """The layer's values [rows', columns', outputs] on one image [rows, columns, inputs]."""
        seen = windows(image, self.side, self.stride, self.padding)
        rows, columns, width = seen.shape
        values = product(seen.reshape(rows * columns, width), self.kernel, precision) + self.bias
        return values.reshape(rows, columns, -1)


class Dense(eqx.Module):
    """An affine layer."""

    kernel: Array  # [inputs, outputs]
    bias: Array  # [outputs]

    def __call__(self, x: Array, *, precision: Precision = "float32") -> Array:
        """The layer's values [outputs] on x [inputs]."""
        return product(x[None], self.kernel, precision)[0] + self.bias


def build_convolution(inputs: int, outputs: int, *, side: int, stride: int, padding: int, key: Array) -> Convolution:
    """A fresh layer: kernel normal with variance 2/rows (He), bias zero."""
    kernel = he_normal(key, (side * side * inputs, outputs))
    return Convolution(kernel, jnp.zeros((outputs,), jnp.float32), side, stride, padding)


def build_dense(inputs: int, outputs: int, *, key: Array) -> Dense:
    """A fresh layer: kernel normal with variance 2/rows (He), bias zero."""
    return Dense(he_normal(key, (inputs, outputs)), jnp.zeros((outputs,), jnp.float32))


def windows(image: Array, side: int, stride: int, padding: int) -> Array:
    """The square windows of an image [rows, columns, channels]: [rows', columns', side * side * channels].

    The image is cut into blocks of stride × stride pixels, of which a window has a whole number: a window's values come block
    by block, then pixel by pixel, then by channel. That takes (side / stride)² slices where pixels would take side².
    """
    padded = jnp.pad(image, ((padding, padding), (padding, padding), (0, 0)))
    rows, columns = (size // stride for size in padded.shape[:2])
    blocks = padded[: rows * stride, : columns * stride].reshape(rows, stride, columns, stride, -1)
    blocks = blocks.transpose(0, 2, 1, 3, 4).reshape(rows, columns, -1)
    along = side // stride
    shifted = [
        blocks[i : rows - along + 1 + i, j : columns - along + 1 + j] for i in range(along) for j in range(along)
    ]
    return jnp.concatenate(shifted, axis=-1)


def he_normal(key: Array, shape: tuple[int, ...]) -> Array:
    """Normal numbers with variance 2 over the product of all dimensions but the last."""
    fan_in = 1
    for size in shape[:-1]:
        fan_in *= size
    return jax.random.normal(key, shape, jnp.float32) * jnp.float32((2.0 / fan_in) ** 0.5)


def to_unit_range(images: Array) -> Array:
    """Bytes as float32 from -1 (black) to 1 (white), with a channel axis: [..., 28, 28] to [..., 28, 28, 1]."""
    return images.astype(jnp.float32)[..., None] / 127.5 - 1.0
