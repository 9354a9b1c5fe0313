"""The classifier of handwriting: a small convolutional network, the primary model of Debugging, section 6.

The paper does not state its layers. Ours are customary for 28×28 images: two convolutions, max pooling, a hidden layer, the
classes. There is no dropout, so that work on one user is a function of the user's data alone.

| preset | layers                                                              | parameters, 62 classes | 10 classes |
|--------|---------------------------------------------------------------------|------------------------|------------|
| paper  | 3×3 to 32, 3×3 to 64, max pooling 2×2, dense 128                    | 1,206,590              | 1,199,882  |
| small  | 4×4 to 16 with stride 2, 4×4 to 32 with stride 2, dense 64          | 112,942                | 109,562    |
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TypedDict

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from numpy.typing import NDArray

from tacit.errors import DataError, RecipeError
from tacit.models.layers.convolution import Convolution, Dense, build_convolution, build_dense, to_unit_range
from tacit.models.layers.precision import Precision

SIDE = 28
# Images per compiled call when many are classified; the last call is padded.
CHUNK = 256


@dataclass(frozen=True)
class ClassifierConfig:
    """The shape of a classifier. `classes` comes from the data: 62 in the handwriting world, 10 for digits."""

    classes: int
    channels: tuple[int, int] = (32, 64)
    sides: tuple[int, int] = (3, 3)
    strides: tuple[int, int] = (1, 1)
    pooled: bool = True
    hidden: int = 128


class ImageBatch(TypedDict):
    """Images with their classes; `mask` is 1 where there is an image and 0 at padding."""

    images: Array  # uint8 [B, 28, 28]
    labels: Array  # int32 [B]
    mask: Array  # float32 [B]


class Classifier(eqx.Module):
    """`classifier(image)` are the logits of one image's class."""

    first: Convolution
    second: Convolution
    hidden: Dense
    output: Dense
    pooled: bool = eqx.field(static=True)

    def __call__(self, image: Array, *, precision: Precision = "float32") -> Array:
        """The logits [classes] of one image, uint8 [28, 28]."""
        x = jax.nn.relu(self.first(to_unit_range(image), precision=precision))
        x = jax.nn.relu(self.second(x, precision=precision))
        x = _maxima(x) if self.pooled else x
        x = jax.nn.relu(self.hidden(x.reshape(-1), precision=precision))
        return self.output(x, precision=precision)

    @property
    def classes(self) -> int:
        """The number of classes."""
        return self.output.bias.shape[0]


PRESETS = ("paper", "small")


def preset(name: str, classes: int) -> ClassifierConfig:
    """The named shape, for this number of classes."""
    if name not in PRESETS:
        raise RecipeError(f"Expected classifier.preset among {', '.join(PRESETS)}, got {name!r}.")
    if classes < 2:
        raise RecipeError(f"Expected a classifier of at least 2 classes, got {classes}.")
    if name == "paper":
        return ClassifierConfig(classes)
    return ClassifierConfig(classes, channels=(16, 32), sides=(4, 4), strides=(2, 2), pooled=False, hidden=64)


def build(config: ClassifierConfig, *, key: Array) -> Classifier:
    """A freshly initialised classifier of this shape, in float32."""
    keys = jax.random.split(key, 4)
    # A convolution with stride 2 is padded at the border; one with stride 1 is not.
    paddings = tuple(int(stride > 1) for stride in config.strides)
    first, second = (
        build_convolution(inputs, outputs, side=side, stride=stride, padding=padding, key=layer_key)
        for inputs, outputs, side, stride, padding, layer_key in zip(
            (1, config.channels[0]), config.channels, config.sides, config.strides, paddings, keys[:2], strict=True
        )
    )
    side = SIDE
    for window, stride, padding in zip(config.sides, config.strides, paddings, strict=True):
        side = (side + 2 * padding - window) // stride + 1
    side = side // 2 if config.pooled else side
    return Classifier(
        first=first,
        second=second,
        hidden=build_dense(side * side * config.channels[1], config.hidden, key=keys[2]),
        output=build_dense(config.hidden, config.classes, key=keys[3]),
        pooled=config.pooled,
    )


@dataclass(frozen=True)
class Classify:
    """The task of `tacit.learning.tasks`: cross-entropy of the class, on batches of images."""

    precision: Precision = "float32"

    def loss_sum(self, model: Classifier, batch: ImageBatch) -> tuple[Array, Array]:
        """The sum of the cross-entropies over a batch's images, and their number."""
        logits = jax.vmap(partial(model, precision=self.precision))(batch["images"])
        own = jnp.take_along_axis(logits, batch["labels"][:, None], axis=1)[:, 0]
        losses = jax.nn.logsumexp(logits, axis=1) - own
        return jnp.sum(losses * batch["mask"]), jnp.sum(batch["mask"])

    def sgd_step(self, model: Classifier, batch: ImageBatch, learning_rate: float) -> Classifier:
        """One step of SGD on the mean loss; a batch of padding returns the model unchanged."""
        gradient, count = jax.grad(self.loss_sum, has_aux=True)(model, batch)
        step = -jnp.float32(learning_rate) / jnp.maximum(count, 1.0)
        # `where`, not a product with zero: the gradient of an empty batch may be infinite or nan.
        return jax.tree.map(lambda leaf, g: jnp.where(count > 0, leaf + step * g, leaf), model, gradient)


def predict(model: Classifier, images: NDArray[np.generic]) -> NDArray[np.int32]:
    """The most likely class of each image [N, 28, 28]."""
    if images.shape[1:] != (SIDE, SIDE):
        got = "×".join(map(str, images.shape[1:])) or "text"
        raise DataError(f"Expected images of {SIDE}×{SIDE} for the classifier, got {got}.")
    found = np.empty(len(images), np.int32)
    for start in range(0, len(images), CHUNK):
        chunk = images[start : start + CHUNK]
        padded = np.zeros((CHUNK, SIDE, SIDE), np.uint8)
        padded[: len(chunk)] = chunk
        found[start : start + len(chunk)] = np.asarray(_classes(model, padded))[: len(chunk)]
    return found


@jax.jit
def _classes(model: Classifier, images: Array) -> Array:
    return jnp.argmax(jax.vmap(model)(images), axis=1).astype(jnp.int32)


def _maxima(x: Array) -> Array:
    rows, columns, channels = x.shape
    return x.reshape(rows // 2, 2, columns // 2, 2, channels).max(axis=(1, 3))
