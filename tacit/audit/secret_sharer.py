"""The two attacks of the secret sharer on a trained model (Production, section IV-A; Memorization, section 3).

Random sampling: an attacker compares a candidate secret with random phrases. With P the log-perplexity of a suffix given the
prefix and R a set of random suffixes,

    rank = 1 + |{r in R, r ≠ s : P(r) ≤ P(s)}|

so rank 1 means that the model prefers the secret to everything else in R, and a model that has learned nothing about s gives
every rank with the same probability. Exposure is the rank in bits: log2(|R ∪ {s}| / rank).

Beam search: an attacker who only knows the prefix lets the model continue it, keeps the `width` likeliest continuations after
each word, and searches for the secret among the final ones.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from numpy.typing import NDArray

from tacit.audit.scoring import USUAL, Beginnings, build_forest, leaf_scores, logits_of, read_prefixes, step
from tacit.data.canaries.plan import Canary, choices, encode
from tacit.errors import AuditError
from tacit.models.layers.precision import Precision
from tacit.models.word_lm import WordLM

COMPARISONS = 2_000_000
BEAM_WIDTH = 5

# Beams times canaries that are searched together: the logits of this many contexts are in memory at once.
_CONTEXTS = 1024


@dataclass(frozen=True)
class Rank:
    """The rank of a canary among `candidates` suffixes, itself included; 1 is the likeliest."""

    rank: int
    candidates: int
    log_perplexity: float

    @property
    def exposure(self) -> float:
        """log2(candidates / rank) in bits, from 0 for the last rank to log2(candidates) for the first."""
        return math.log2(self.candidates / self.rank)


def random_suffixes(possible: Sequence[NDArray[np.int32]], size: int, rng: np.random.Generator) -> NDArray[np.int32]:
    """`size` distinct suffixes [size, length], place i uniform over possible[i]; all of them if there are fewer.

    If there are more than 2⁶² they are drawn independently, and two are equal with probability below 10⁻⁶.
    """
    shape = [len(units) for units in possible]
    total = math.prod(shape)
    if total <= size:
        numbers = np.unravel_index(np.arange(total), shape)
    elif total < 2**62:
        numbers = np.unravel_index(rng.choice(total, size, replace=False, shuffle=False), shape)
    else:
        numbers = tuple(rng.integers(0, each, size) for each in shape)
    return np.stack([units[number] for units, number in zip(possible, numbers, strict=True)], axis=1)


def ranks(
    model: WordLM,
    prefixes: NDArray[np.int32],
    suffixes: NDArray[np.int32],
    comparison: NDArray[np.int32],
    *,
    chunk: int | None = None,
    precision: Precision = USUAL,
) -> list[Rank]:
    """The rank of suffixes[i] after prefixes[i] among the comparison set [N, length], which all of them share.

    The secrets are scored in the same pass and by the same sums as the set; equal log-perplexities count against them.
    """
    forest = build_forest(np.concatenate([suffixes, comparison]), chunk=chunk)
    distinct, place = np.unique(prefixes, axis=0, return_inverse=True)
    beginnings = read_prefixes(model, distinct, precision=precision)
    leaf = np.empty(forest.phrases, np.int64)
    leaf[forest.order[: forest.phrases]] = np.arange(forest.phrases)
    counted = np.zeros(len(forest.order), bool)
    counted[leaf[len(suffixes) :]] = True  # neither the secrets nor the padding of the last chunk
    on_device = jax.device_put(counted)
    found: list[Rank | None] = [None] * len(suffixes)
    for which in range(len(distinct)):
        scores = leaf_scores(model, beginnings, which, forest, precision=precision)
        for i in np.flatnonzero(place.reshape(-1) == which):
            own = forest.same[leaf[i]]
            first, end = np.searchsorted(forest.same, [own, own + 1])  # the leaves of the secret's own phrase
            better, score = jax.device_get(
                _better(scores, on_device, np.int32(leaf[i]), np.int32(first), np.int32(end))
            )
            candidates = len(comparison) - int(counted[first:end].sum())
            found[i] = Rank(1 + int(better), 1 + candidates, float(score))
    return [rank for rank in found if rank is not None]


@jax.jit
def _better(scores: Array, counted: Array, leaf: Array, first: Array, end: Array) -> tuple[Array, Array]:
    """The number of counted leaves outside [first, end) that score at most as this leaf, and this leaf's score."""
    place = jnp.arange(len(scores))
    other = counted & ((place < first) | (place >= end))
    return jnp.sum(other & (scores <= scores[leaf]), dtype=jnp.int32), scores[leaf]


def random_sampling(
    model: WordLM,
    canaries: Sequence[Canary],
    words: Sequence[str],
    *,
    prefix: int,
    seed: int,
    size: int = COMPARISONS,
    chunk: int | None = None,
    precision: Precision = USUAL,
) -> list[Rank]:
    """The rank of each canary, its first `prefix` units given, among `size` random suffixes of its form."""
    if size < 1:
        raise AuditError(f"Expected at least 1 random suffix to compare with, got {size}.")
    ids = _checked(canaries, words, prefix, len(model.embedding))
    found: dict[int, Rank] = {}
    rng = np.random.default_rng(seed)
    for members in _of_one_form(canaries):
        comparison = random_suffixes(choices(canaries[members[0]], words, prefix), size, rng)
        stacked = np.stack([ids[i] for i in members])
        ranked = ranks(model, stacked[:, :prefix], stacked[:, prefix:], comparison, chunk=chunk, precision=precision)
        found.update(zip(members, ranked, strict=True))
    return [found[i] for i in range(len(canaries))]


def beam_search(
    model: WordLM, prefixes: NDArray[np.int32], possible: Sequence[NDArray[np.int32]], *, width: int
) -> tuple[NDArray[np.int32], NDArray[np.float32]]:
    """The continuations [C, width, length] a beam search finds after prefixes [C, ...], likeliest first.

    Also returns their log-perplexities [C, width], ascending; infinite if there are fewer continuations than the beam is
    wide. Place i is searched over possible[i] only, because the attacker knows the form of the secret.
    """
    allowed = np.zeros((len(possible), len(model.embedding)), bool)
    for place, units in enumerate(possible):
        allowed[place, units] = True
    together = max(1, _CONTEXTS // width)
    parts = [
        jax.device_get(_search(model, read_prefixes(model, prefixes[start : start + together]), allowed, width))
        for start in range(0, len(prefixes), together)
    ]
    phrases, scores = (np.concatenate(part) for part in zip(*parts, strict=True))
    if np.isnan(scores).any() or np.isinf(scores[:, 0]).any():
        raise AuditError("The model has diverged: its probabilities are not finite numbers.")
    return phrases, scores


def extraction(
    model: WordLM, canaries: Sequence[Canary], words: Sequence[str], *, prefix: int, width: int = BEAM_WIDTH
) -> list[int | None]:
    """The place (1: the likeliest) at which a beam search from its first `prefix` units finds each canary; None: not found."""
    if width < 1:
        raise AuditError(f"Expected a beam width of at least 1, got {width}.")
    ids = _checked(canaries, words, prefix, len(model.embedding))
    places: list[int | None] = [None] * len(canaries)
    for members in _of_one_form(canaries):
        stacked = np.stack([ids[i] for i in members])
        distinct, place = np.unique(stacked[:, :prefix], axis=0, return_inverse=True)
        possible = choices(canaries[members[0]], words, prefix)
        phrases, scores = beam_search(model, distinct, possible, width=width)
        for i, at in zip(members, place.reshape(-1), strict=True):
            hit = np.flatnonzero((phrases[at] == ids[i][prefix:]).all(axis=1) & np.isfinite(scores[at]))
            places[i] = int(hit[0]) + 1 if len(hit) else None
    return places


@partial(jax.jit, static_argnames="width")
def _search(model: WordLM, start: Beginnings, allowed: Array, width: int) -> tuple[Array, Array]:
    count, length = len(start.normaliser), len(allowed)
    rows = jnp.repeat(jnp.arange(count), width)
    state, outputs = jax.tree.map(lambda a: a[rows], (start.state, start.outputs))
    # Only one beam starts with a finite score: the others would repeat it.
    scores = jnp.where(jnp.arange(width) == 0, jnp.float32(0), jnp.float32(jnp.inf))[None].repeat(count, axis=0)
    phrases = jnp.zeros((count, width, length), jnp.int32)
    for place in range(length):
        losses = -jax.nn.log_softmax(logits_of(model, outputs), axis=1).reshape(count, width, -1)
        totals = jnp.where(allowed[place], scores[..., None] + losses, jnp.float32(jnp.inf))  # [count, width, V]
        best, flat = jax.lax.top_k(-totals.reshape(count, -1), width)
        beam, word = flat // totals.shape[-1], flat % totals.shape[-1]
        scores = -best
        phrases = jnp.take_along_axis(phrases, beam[..., None], axis=1).at[..., place].set(word)
        if place < length - 1:
            from_rows = (jnp.arange(count)[:, None] * width + beam).reshape(-1)
            state, outputs = step(model, jax.tree.map(lambda a, r=from_rows: a[r], state), word.reshape(-1))
    return phrases, scores


def _checked(canaries: Sequence[Canary], words: Sequence[str], prefix: int, vocabulary: int) -> list[NDArray[np.int32]]:
    """The canaries' ids; AuditError if the prefix covers a whole canary or the words are not the model's."""
    if len(words) != vocabulary:
        raise AuditError(f"Expected the model's vocabulary of {vocabulary} entries, got {len(words)} words.")
    for number, canary in enumerate(canaries):
        if not 0 <= prefix < len(canary.units):
            raise AuditError(
                f"Expected a prefix from 0 to {len(canary.units) - 1} words for canary {number + 1}, which has "
                f"{len(canary.units)}, got {prefix}."
            )
    return encode(canaries, words)


def _of_one_form(canaries: Sequence[Canary]) -> list[list[int]]:
    """Groups of canaries with the same template or length, which are compared with one set of suffixes."""
    forms: dict[tuple[str | None, int], list[int]] = {}
    for number, canary in enumerate(canaries):
        forms.setdefault((canary.template, len(canary.units)), []).append(number)
    return list(forms.values())
