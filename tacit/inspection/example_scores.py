"""Score one user's examples with a primary model, on the user's side.

A judge gives each example its marks: the number of predictions, and the number of right ones. An image has one prediction, a
sentence one per word. A likelihood gives each sentence its mean log-probability per prediction. Both are functions of the
examples and of a public (released) model; neither looks at other users.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray

from tacit.data.rows import to_rows
from tacit.data.users import FIRST_WORD, OOV, Examples
from tacit.errors import DataError
from tacit.learning.next_word import prediction_mask
from tacit.models.classifier import Classifier, predict
from tacit.models.word_lm import WordLM

# Rows per compiled call; the last call is padded.
CHUNK = 128


@dataclass(frozen=True)
class Marks:
    """The number of right predictions and of all predictions of each example."""

    right: NDArray[np.int64]
    asked: NDArray[np.int64]

    def by_user(self, user_offsets: NDArray[np.int64]) -> Marks:
        """The same, summed over each user's examples."""
        return Marks(*(_sums(each, user_offsets) for each in (self.right, self.asked)))

    def accuracy(self) -> NDArray[np.float64]:
        """The share of right predictions; nan if there are no predictions."""
        return np.where(self.asked > 0, self.right / np.maximum(self.asked, 1), np.nan)


# Both travel with the users to other processes, so neither may be a function within a function.
Judge = Callable[[Examples], Marks]
Likelihood = Callable[[Examples], NDArray[np.float64]]


def image_judge(classifier: Classifier) -> Judge:
    """Marks of a classifier: an image is right if its class is the most likely one.

    An image of a class that the classifier does not know is never right. It is not an error: if one user's label could stop a
    run, everybody would learn that this user was sampled.
    """
    return partial(_judge_images, classifier)


def _judge_images(classifier: Classifier, examples: Examples) -> Marks:
    if examples.labels is None:
        raise DataError("A classifier needs users with images, and these have text.")
    right = predict(classifier, examples.items) == examples.labels
    return Marks(right.astype(np.int64), np.ones(len(right), np.int64))


def word_judge(model: WordLM, *, length: int) -> Judge:
    """Marks of a next-word model over the first `length` predictions of a sentence; an unknown word is never right."""
    return partial(_judge_words, model, length)


def _judge_words(model: WordLM, length: int, examples: Examples) -> Marks:
    right, asked = _by_row(lambda tokens: _word_marks(model, tokens), examples, length)
    return Marks(right.astype(np.int64), asked.astype(np.int64))


def word_likelihood(model: WordLM, *, length: int) -> Likelihood:
    """The mean log-probability of a sentence's first `length` predictions; 0 for a sentence without any."""
    return partial(_likelihood_of_words, model, length)


def _likelihood_of_words(model: WordLM, length: int, examples: Examples) -> NDArray[np.float64]:
    total, count = _by_row(lambda tokens: _log_likelihoods(model, tokens), examples, length)
    return total / np.maximum(count, 1)


def _by_row(score: Callable[[Any], Any], examples: Examples, length: int) -> NDArray[np.float64]:
    """Two numbers per sentence, [2, sentences]."""
    if examples.labels is not None:
        raise DataError("A next-word model needs users with text, and these have images.")
    sentences = len(examples.example_offsets) - 1
    alone = Examples(examples.items, examples.example_offsets, np.arange(sentences + 1, dtype=np.int64))
    tokens = to_rows(alone, layout="sentences", length=length, max_rows=1).tokens
    found = np.zeros((2, sentences))
    for start in range(0, sentences, CHUNK):
        chunk = tokens[start : start + CHUNK]
        padded = np.zeros((CHUNK, length + 1), np.int32)
        padded[: len(chunk)] = chunk
        found[:, start : start + len(chunk)] = np.asarray(score(padded))[:, : len(chunk)]
    return found


@jax.jit
def _word_marks(model: WordLM, tokens: jax.Array) -> jax.Array:
    targets = tokens[:, 1:]
    best = jnp.argmax(jax.vmap(model)(tokens[:, :-1]), axis=-1).astype(jnp.int32)
    right = (best == targets) & (targets >= FIRST_WORD)
    return jnp.stack([jnp.sum(each, axis=1, dtype=jnp.int32) for each in (right, targets >= OOV)])


@jax.jit
def _log_likelihoods(model: WordLM, tokens: jax.Array) -> jax.Array:
    scores = jax.nn.log_softmax(jax.vmap(model)(tokens[:, :-1]))
    own = jnp.take_along_axis(scores, tokens[:, 1:, None], axis=-1)[..., 0]
    mask = prediction_mask(tokens)
    return jnp.stack([jnp.sum(own * mask, axis=1), jnp.sum(mask, axis=1)])


def _sums(values: NDArray[np.int64], offsets: NDArray[np.int64]) -> NDArray[np.int64]:
    before = np.concatenate([[0], np.cumsum(values)])
    return before[offsets[1:]] - before[offsets[:-1]]
