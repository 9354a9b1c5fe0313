"""Scores that show whether a fault is visible, computed from generated examples alone; so they cost no privacy.

Two scores distinguish inverted from normal images. *Brightness*: ink is bright on a dark background and covers little, so the
mean pixel of normal images is far below 0.5 and that of inverted images far above. *Confidence*: whether the primary
classifier is more confident on the images or on their negatives. For text: the share of the most likely words that contain a
space, which a correct tokenizer never produces, or a capital letter, which lower-casing removes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import ArrayLike, NDArray

from tacit.errors import DataError
from tacit.models.classifier import SIDE, Classifier


@dataclass(frozen=True)
class InversionScore:
    """How inverted a set of generated images is.

    `brightness` is the mean pixel, 0 to 1. `inverted` is the share of images that are bright in more than half of their border,
    where nobody writes. `confidence` and `negative_confidence` are the classifier's mean highest probability for the images
    and for their negatives (nan without a classifier).
    """

    brightness: float
    inverted: float
    confidence: float = float("nan")
    negative_confidence: float = float("nan")

    @property
    def is_inverted(self) -> bool:
        """Whether most of the images have a bright background."""
        return self.inverted > 0.5


def to_bytes(images: ArrayLike) -> NDArray[np.uint8]:
    """Generated images [N, 28, 28, 1] from -1 to 1 as bytes [N, 28, 28]."""
    pixels = np.asarray(images, np.float32)
    if pixels.shape[1:] != (SIDE, SIDE, 1):
        raise DataError(f"Expected generated images of {SIDE}×{SIDE}, got {'×'.join(map(str, pixels.shape[1:]))}.")
    return np.rint(np.clip(pixels[..., 0] * 0.5 + 0.5, 0, 1) * 255).astype(np.uint8)


def inversion_score(images: NDArray[np.uint8], classifier: Classifier | None = None) -> InversionScore:
    """The score of images [N, 28, 28]."""
    if not len(images):
        raise DataError("There are no images to score.")
    border = np.ones((SIDE, SIDE), bool)
    border[2:-2, 2:-2] = False
    on_border = images[:, border] / 255.0
    brightness, inverted = float(images.mean() / 255.0), float((on_border.mean(axis=1) > 0.5).mean())
    if classifier is None:
        return InversionScore(brightness, inverted)
    sure = [float(_confidence(classifier, jnp.asarray(each))) for each in (images, 255 - images)]
    return InversionScore(brightness, inverted, *sure)


def share_with_space(words: Sequence[str]) -> float:
    """The share of words that contain a space, the trace of a tokenization fault; 0 if there are no words."""
    return sum(" " in word for word in words) / max(len(words), 1)


def share_with_capital(words: Sequence[str]) -> float:
    """The share of words that contain a capital letter, the trace of missing lower-casing; 0 if there are no words."""
    return sum(word != word.lower() for word in words) / max(len(words), 1)


@jax.jit
def _confidence(classifier: Classifier, images: jax.Array) -> jax.Array:
    return jnp.mean(jnp.max(jax.nn.softmax(jax.vmap(classifier)(images)), axis=-1))
