"""Next-word prediction as a task: which positions of a row are predictions, and how they are scored.

A row of tokens asks for a prediction wherever the next token is not padding and not bos (which always follows eos and
teaches nothing). Training counts words, oov and eos. Accuracy counts words only: eos is left out, and a word that the
vocabulary does not have is always a mistake, whatever the model says.

There are two rankings. The keyboard's ranks the target among words, because a keyboard never suggests a reserved entry
(pad, bos, eos, oov): `top1`, `top3` and `in_vocabulary_top1`. It is the order of `suggest` and of `tacit.keyboard.replay`. The
papers' metric ranks the target among all entries, so that a first guess of "unknown" or of the end of the sentence is a mistake
(DP-FedAvg, appendix B): `papers_top1` and `papers_top3`. The first is never below the second.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray

from tacit.data.users import BOS, FIRST_WORD, OOV, PAD
from tacit.learning.tasks import LossTask
from tacit.models.layers.precision import Precision
from tacit.models.layers.sgd import sgd_step
from tacit.models.word_lm import Batch, WordLM, loss_sum

HEAD_SIZES = (10, 50, 100)
# How many chunks of an evaluation are under way before the first one's sums are fetched.
_AHEAD = 2


@dataclass(frozen=True)
class NextWord:
    """The task of `tacit.learning.tasks` on batches of rows: int32 [rows, length + 1].

    The model is any that maps tokens [length] to logits [length, vocabulary]. `precision` and `kernels` serve `WordLM`, which
    has a step of its own; None for `kernels` asks the device.

    >>> import jax, jax.numpy as jnp, tacit
    >>> total, count = tacit.NextWord().loss_sum(lambda tokens: jnp.zeros((len(tokens), 8)), jnp.array([[1, 4, 5, 2, 0]]))
    >>> int(count)
    3
    """

    precision: Precision = "float32"
    kernels: bool | None = None

    def sgd_step(self, model: Any, tokens: jax.Array, learning_rate: float) -> Any:
        """One step of plain SGD on the mean loss over the batch's predictions."""
        if not isinstance(model, WordLM):
            return LossTask(self.loss_sum).sgd_step(model, tokens, learning_rate)
        batch: Batch = {"tokens": tokens, "mask": prediction_mask(tokens)}
        return sgd_step(model, batch, learning_rate, precision=self.precision, kernels=self.kernels)

    def loss_sum(self, model: Any, tokens: jax.Array) -> tuple[jax.Array, jax.Array]:
        """The sum of the cross-entropies of a batch's predictions, and how many there are."""
        mask = prediction_mask(tokens)
        if isinstance(model, WordLM):
            return loss_sum(model, {"tokens": tokens, "mask": mask}, precision=self.precision)
        logits = self.scores(model, tokens[:, :-1]).astype(jnp.float32)
        own = jnp.take_along_axis(logits, tokens[:, 1:, None], axis=-1)[..., 0]
        return jnp.sum((jax.nn.logsumexp(logits, axis=-1) - own) * mask), jnp.sum(mask)

    def scores(self, model: Any, tokens: jax.Array) -> jax.Array:
        """Logits [rows, length, vocabulary] after each of tokens [rows, length]."""
        return jax.vmap(model)(tokens)

    def metrics(self, model: Any, tokens: jax.Array) -> dict[str, tuple[jax.Array, jax.Array]]:
        """Sums and counts of what `evaluate` measures of words."""
        words, known, top1, top3, papers_top1, papers_top3, _, _ = score_sums(model, tokens)
        return {
            "top1": (top1, words),
            "top3": (top3, words),
            "in_vocabulary_top1": (top1, known),
            "papers_top1": (papers_top1, words),
            "papers_top3": (papers_top3, words),
        }


def prediction_mask(tokens: jax.Array) -> jax.Array:
    """1 where the next token is to be predicted: [..., length]."""
    targets = tokens[..., 1:]
    return ((targets != PAD) & (targets != BOS)).astype(jnp.float32)


@dataclass(frozen=True)
class Scores:
    """How well a model predicts held-out words.

    `top1` and `top3` are the shares of `words` that are the first suggestion of a keyboard, or among its first three;
    `in_vocabulary_top1` is the same as `top1` among the words of the vocabulary. `papers_top1` and `papers_top3` rank the word
    among all entries, reserved ones included. `out_of_vocabulary` is the share of words that no model with this vocabulary can
    guess: `top1` and `top3` are at most one minus it.
    """

    words: int
    top1: float
    top3: float
    in_vocabulary_top1: float
    papers_top1: float
    papers_top3: float
    perplexity: float
    out_of_vocabulary: float

    def as_dict(self) -> dict[str, float]:
        return dict(vars(self))


def evaluate(model: Any, rows: NDArray[np.int32], *, chunk: int | None = None) -> Scores:
    """Scores over these rows, each read from an empty state."""
    return scores_of(_totals(model, rows, chunk))


@dataclass(frozen=True, eq=False)
class HeldOutWords:
    """`evaluate` on these rows as a function of the model, which several processes can share.

    The sums of `parts` add up to those of the whole.
    """

    rows: NDArray[np.int32]

    def __call__(self, model: Any) -> dict[str, float]:
        """The scores by their names."""
        return self.metrics([self.sums(model)])

    def parts(self, count: int) -> list[HeldOutWords]:
        """At most so many parts, of about the same size."""
        return [HeldOutWords(part) for part in np.array_split(self.rows, max(1, min(count, len(self.rows))))]

    def sums(self, model: Any) -> NDArray[np.float64]:
        """What `metrics` needs of these rows."""
        return _totals(model, self.rows, None)

    @staticmethod
    def metrics(sums: Sequence[NDArray[np.float64]]) -> dict[str, float]:
        """The scores that the sums of all parts give, added in their order."""
        return scores_of(np.sum(sums, axis=0)).as_dict()


def _totals(model: Any, rows: NDArray[np.int32], chunk: int | None) -> NDArray[np.float64]:
    """`score_sums` over all rows, some at a time."""
    chunk = chunk or (128 if jax.default_backend() == "cpu" else 2048)
    total = np.zeros(8, np.float64)
    under_way: deque[jax.Array] = deque()
    for tokens in _chunks(rows, chunk):
        under_way.append(score_sums(model, tokens))
        if len(under_way) > _AHEAD:  # the next chunks are on their way while the accelerator works on this one
            total += np.asarray(under_way.popleft(), np.float64)
    for sums in under_way:
        total += np.asarray(sums, np.float64)
    return total


def scores_of(total: NDArray[np.float64]) -> Scores:
    """The scores that these sums make."""
    words, known, top1, top3, papers_top1, papers_top3, loss, predictions = total
    return Scores(
        words=int(words),
        top1=float(top1 / max(words, 1)),
        top3=float(top3 / max(words, 1)),
        in_vocabulary_top1=float(top1 / max(known, 1)),
        papers_top1=float(papers_top1 / max(words, 1)),
        papers_top3=float(papers_top3 / max(words, 1)),
        perplexity=float(np.exp(min(loss / max(predictions, 1), 50.0))),
        out_of_vocabulary=float((words - known) / max(words, 1)),
    )


@eqx.filter_jit
def score_sums(model: Any, tokens: Any) -> jax.Array:
    """Over rows: words, known words, right at first and in three guesses, both by the papers' metric, loss, predictions [8]."""
    targets = tokens[:, 1:]
    logits = jax.vmap(model)(tokens[:, :-1])  # [rows, length, vocabulary]
    own = jnp.take_along_axis(logits, targets[..., None], axis=-1)
    # What is guessed before the target, ties going to the smaller number as argmax would have it.
    before = (logits > own) | ((logits == own) & (jnp.arange(logits.shape[-1]) < targets[..., None]))
    rank = jnp.sum(before[..., FIRST_WORD:], axis=-1)  # among words, as a keyboard shows them
    papers_rank = rank + jnp.sum(before[..., :FIRST_WORD], axis=-1)  # among all entries
    loss = jax.nn.logsumexp(logits, axis=-1) - own[..., 0]
    mask = prediction_mask(tokens)
    word, known = targets >= OOV, targets >= FIRST_WORD
    # Where logits overflow, every comparison is false: that is a mistake, not a triumph.
    may_be_right = known & jnp.isfinite(logits).all(axis=-1)
    right = [may_be_right & (each < most) for each in (rank, papers_rank) for most in (1, 3)]
    sums = [jnp.sum(count, dtype=jnp.float32) for count in (word, known, *right)]
    return jnp.stack([*sums, jnp.sum(loss * mask), jnp.sum(mask)])


def head_word_histogram(model: Any, rows: NDArray[np.int32], *, chunk: int = 128) -> dict[int, list[int]]:
    """DP-FedAvg Table 3: for n in 10, 50, 100, how often k of the model's top ten words are among the n most frequent.

    Words of a counted vocabulary are numbered by falling frequency: the n most frequent are its first n. (In a word list
    they are its first n words.)
    """
    total = np.zeros((len(HEAD_SIZES), 11), np.int64)
    for tokens in _chunks(rows, chunk):
        total += np.asarray(_head_counts(model, tokens))
    return {n: row.tolist() for n, row in zip(HEAD_SIZES, total, strict=True)}


@eqx.filter_jit
def _head_counts(model: Any, tokens: Any) -> jax.Array:
    logits = jax.vmap(model)(tokens[:, :-1])
    _, top = jax.lax.top_k(logits[..., FIRST_WORD:], 10)
    word = (tokens[:, 1:] >= OOV)[..., None]
    sizes = [(top < n).sum(axis=-1, keepdims=True) == jnp.arange(11) for n in HEAD_SIZES]
    return jnp.stack([jnp.sum(size & word, axis=(0, 1), dtype=jnp.int32) for size in sizes])


Scoring = Callable[[Any, jax.Array], jax.Array]  # (model, tokens [rows, length]) → logits [rows, length, vocabulary]


@eqx.filter_jit
def _suggest(scores: Scoring, model: Any, tokens: Any, last: Any, count: int) -> Any:
    logits = scores(model, tokens[None])[0, last]
    # By logits, as in `score_sums`: beside a reserved entry that is nearly certain, the probabilities of words round to zero.
    _, words = jax.lax.top_k(logits[FIRST_WORD:], min(count, logits.shape[0] - FIRST_WORD))
    return jax.nn.softmax(logits)[FIRST_WORD:][words], words


# One object: a method of another instance is another function to JAX, and would be compiled again for each suggestion.
_SCORES = NextWord().scores


def suggest(
    model: Any, context: list[int], count: int = 3, *, scores: Scoring | None = None, longest: int | None = None
) -> list[tuple[int, float]]:
    """The most likely next words after bos and `context`, with their probabilities; reserved entries are never shown.

    `count` of them, or all there are. `scores` is that of the model's task. A model that reads at most `longest` tokens gets
    the last of them.
    """
    scores = _SCORES if scores is None else scores
    tokens = [BOS, *context][-(longest or 0) :]
    padded = np.full(longest or max(16, 1 << (len(tokens) - 1).bit_length()), PAD, np.int32)
    padded[: len(tokens)] = tokens
    probabilities, words = _suggest(scores, model, padded, np.int32(len(tokens) - 1), count)
    return [(int(word) + FIRST_WORD, float(p)) for word, p in zip(words, probabilities, strict=True)]


def unigram_guess(rows: NDArray[np.int32]) -> float:
    """The accuracy of always saying the word that is most frequent in these very rows: no single word does better.

    It is the same by the keyboard's ranking and by the papers' metric, because what is said is a word.
    """
    targets = rows[:, 1:]
    words = targets[targets >= OOV]
    known = words[words >= FIRST_WORD]
    return float(np.bincount(known).max(initial=0) / max(len(words), 1))


def out_of_vocabulary(rows: NDArray[np.int32]) -> float | None:
    """The share of these rows' words that the vocabulary does not have, as in `Scores`; None if there are no words."""
    targets = rows[:, 1:]
    words = int(np.count_nonzero(targets >= OOV))
    return int(np.count_nonzero(targets == OOV)) / words if words else None


def _chunks(rows: NDArray[np.int32], chunk: int) -> Iterator[NDArray[np.int32]]:
    """Pieces of one size, the last one padded, so that one compilation serves all."""
    for start in range(0, len(rows), chunk):
        piece = rows[start : start + chunk]
        if len(piece) < chunk:
            piece = np.concatenate([piece, np.full((chunk - len(piece), rows.shape[1]), PAD, np.int32)])
        yield piece
