"""Scores: what counts as a word, what counts as a mistake."""

from __future__ import annotations

from itertools import pairwise

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from tacit.data.users import BOS, EOS, FIRST_WORD, OOV, PAD
from tacit.learning.next_word import (
    HeldOutWords,
    evaluate,
    head_word_histogram,
    out_of_vocabulary,
    prediction_mask,
    suggest,
    unigram_guess,
)
from tacit.models.word_lm import WordLMConfig, build

VOCABULARY = 130
A, B, C = FIRST_WORD, FIRST_WORD + 1, FIRST_WORD + 2


@pytest.fixture(scope="module")
def model():
    return build(
        WordLMConfig(vocabulary=VOCABULARY, embedding=6, units=5, projection=6, output_bias=True), key=jax.random.key(0)
    )


def preferring(model, *words: int):
    """A model that ranks these words first, in this order, whatever came before."""
    bias = jnp.full(VOCABULARY, -50.0).at[jnp.array(words)].set(50.0 - jnp.arange(len(words), dtype=jnp.float32))
    return jax.tree.map(jnp.zeros_like, model).__class__(
        embedding=jnp.zeros_like(model.embedding),
        cell=model.cell,
        output=None,
        output_bias=bias,
        unit_norm=False,
    )


ROWS = np.array([[BOS, A, B, OOV, EOS, BOS, A], [BOS, C, EOS, PAD, PAD, PAD, PAD]], np.int32)


@pytest.mark.parametrize("count", [1, 3, 50])
def test_parts_of_an_evaluation_measure_what_the_whole_measures(model, count):
    rows = np.random.default_rng(1).integers(FIRST_WORD, VOCABULARY, (7, 6)).astype(np.int32)
    whole = HeldOutWords(rows)
    parts = whole.parts(count)
    assert len(parts) == min(count, 7)
    together = whole.metrics([part.sums(model) for part in parts])
    assert together == pytest.approx(evaluate(model, rows).as_dict(), rel=1e-6)
    assert whole(model) == evaluate(model, rows).as_dict()


def test_mask_leaves_out_padding_and_bos():
    assert prediction_mask(jnp.asarray(ROWS)).tolist() == [[1, 1, 1, 1, 0, 1], [1, 1, 0, 0, 0, 0]]


def test_unknown_words_are_mistakes_and_sentence_ends_do_not_count(model):
    scores = evaluate(preferring(model, A, B, C), ROWS, chunk=2)
    assert scores.words == 5  # A B OOV A C
    assert (scores.top1, scores.top3) == (pytest.approx(2 / 5), pytest.approx(4 / 5))
    assert scores.in_vocabulary_top1 == pytest.approx(2 / 4)
    assert scores.out_of_vocabulary == pytest.approx(1 / 5)
    assert (scores.papers_top1, scores.papers_top3) == (scores.top1, scores.top3)  # no reserved entry is in the way


@pytest.mark.parametrize(
    ("first", "papers_top3"), [((OOV,), 3 / 5), ((EOS,), 3 / 5), ((EOS, OOV), 2 / 5), ((PAD, BOS, EOS), 0)]
)
def test_a_first_guess_that_no_keyboard_shows_costs_nothing_but_by_the_papers_metric(model, first, papers_top3):
    scores = evaluate(preferring(model, *first, A, B, C), ROWS, chunk=2)
    assert (scores.top1, scores.top3) == (pytest.approx(2 / 5), pytest.approx(4 / 5))
    assert scores.in_vocabulary_top1 == pytest.approx(2 / 4)
    assert (scores.papers_top1, scores.papers_top3) == (0, pytest.approx(papers_top3))


class Bigrams(eqx.Module):
    """Logits that the last token alone decides."""

    table: jax.Array

    def __call__(self, tokens):
        return self.table[tokens]


def bigrams(seed: int, size: int = 12) -> Bigrams:
    """Few values, so that there are ties; reserved entries are often first; some contexts have logits that are not finite."""
    generator = np.random.default_rng(seed)
    table = generator.integers(0, 4, (size, size)).astype(np.float32)
    table[:, :FIRST_WORD] += generator.integers(-2, 3, (size, FIRST_WORD))
    for context, value in zip(generator.choice(size, 3, replace=False), (np.nan, np.inf, -np.inf), strict=True):
        table[context, generator.integers(size)] = value
    return Bigrams(jnp.asarray(table))


def by_hand(table: np.ndarray, rows: np.ndarray) -> dict[str, float]:
    """Every word's place in a sorted list, one word after another."""
    words, unknown, ranks = 0, 0, []
    for row in rows.tolist():
        for last, target in pairwise(row):
            if target < OOV:
                continue
            words, unknown = words + 1, unknown + (target == OOV)
            if target == OOV or not np.isfinite(table[last]).all():
                continue
            order = sorted(range(len(table)), key=lambda entry: (-table[last][entry], entry))
            shown = [entry for entry in order if entry not in (PAD, BOS, EOS, OOV)]
            ranks.append((shown.index(target), order.index(target)))
    counts = {
        "top1": sum(rank < 1 for rank, _ in ranks),
        "top3": sum(rank < 3 for rank, _ in ranks),
        "papers_top1": sum(rank < 1 for _, rank in ranks),
        "papers_top3": sum(rank < 3 for _, rank in ranks),
    }
    found = {name: count / words for name, count in counts.items()}
    known = {"in_vocabulary_top1": counts["top1"] / (words - unknown), "out_of_vocabulary": unknown / words}
    return {"words": words, **found, **known}


@pytest.mark.parametrize("seed", range(5))
def test_both_metrics_are_those_of_a_sorted_list(seed):
    model = bigrams(seed)
    rows = np.random.default_rng(100 + seed).integers(0, 12, (40, 9)).astype(np.int32)
    scores, expected = evaluate(model, rows, chunk=16).as_dict(), by_hand(np.asarray(model.table), rows)
    assert {name: scores[name] for name in expected} == pytest.approx(expected)
    assert scores["papers_top1"] < scores["top1"] < scores["in_vocabulary_top1"]
    assert scores["top3"] <= 1 - scores["out_of_vocabulary"]


@pytest.mark.parametrize("entry", [PAD, EOS, FIRST_WORD + 3])
@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_one_logit_that_is_not_finite_is_a_mistake_by_both_metrics(entry, value):
    table = np.zeros((12, 12), np.float32)
    table[:, A] = 5.0
    right = evaluate(Bigrams(jnp.asarray(table)), ROWS, chunk=2)
    assert right.top1 == right.papers_top1 == pytest.approx(2 / 5)
    table[:, entry] = value
    wrong = evaluate(Bigrams(jnp.asarray(table)), ROWS, chunk=2)
    assert wrong.top1 == wrong.top3 == wrong.papers_top1 == wrong.papers_top3 == wrong.in_vocabulary_top1 == 0


def test_a_word_has_the_rank_that_it_has_among_suggestions():
    generator = np.random.default_rng(7)
    table = generator.integers(0, 4, (12, 12)).astype(np.float32)
    table[:, EOS] = 200.0  # beside it, the probability of every word rounds to zero
    model = Bigrams(jnp.asarray(table))
    for last in range(FIRST_WORD, 12):
        suggested = [word for word, _ in suggest(model, [last], 12)]
        for place, word in enumerate(suggested):
            scores = evaluate(model, np.array([[last, word]], np.int32), chunk=2)
            assert (scores.top1, scores.top3) == (place < 1, place < 3)
            assert scores.papers_top1 == 0


def test_scores_are_one_program():
    traced = []

    class Watched(Bigrams):
        def __call__(self, tokens):
            traced.append(tokens.shape)
            return self.table[tokens]

    model = Watched(jnp.zeros((12, 12)))
    evaluate(model, np.full((7, 5), A, np.int32), chunk=2)
    evaluate(model, np.full((3, 5), B, np.int32), chunk=2)
    assert traced == [(4,)]


def test_the_share_outside_the_vocabulary_needs_no_model(model):
    assert out_of_vocabulary(ROWS) == evaluate(model, ROWS, chunk=2).out_of_vocabulary
    assert out_of_vocabulary(np.array([[OOV, EOS, BOS, PAD]], np.int32)) is None
    assert out_of_vocabulary(np.zeros((0, 1), np.int32)) is None


def test_perplexity_is_the_exponential_of_the_mean_loss(model):
    uniform = jax.tree.map(jnp.zeros_like, model)
    assert evaluate(uniform, ROWS, chunk=3).perplexity == pytest.approx(VOCABULARY, rel=1e-4)


def test_chunks_do_not_change_the_scores(model):
    whole, parts = (evaluate(model, ROWS, chunk=chunk) for chunk in (2, 1))
    assert whole.as_dict() == pytest.approx(parts.as_dict())


def test_logits_that_overflow_are_mistakes(model):
    scores = evaluate(jax.tree.map(lambda leaf: leaf * 1e25, model), ROWS, chunk=2)
    assert scores.top1 == scores.top3 == scores.papers_top1 == scores.papers_top3 == 0
    assert not np.isfinite(scores.perplexity)


def test_unigram_guess():
    assert unigram_guess(np.array([[BOS, OOV, OOV, OOV, B, B, A]], np.int32)) == pytest.approx(2 / 6)
    assert unigram_guess(ROWS) == pytest.approx(2 / 5)


def test_head_words(model):
    heads = list(range(FIRST_WORD, FIRST_WORD + 5)) + list(range(FIRST_WORD + 20, FIRST_WORD + 25))
    histogram = head_word_histogram(preferring(model, *heads), ROWS, chunk=2)
    assert histogram[10][5] == 5  # five of ten, at each of the five words
    assert histogram[50][10] == histogram[100][10] == 5
    assert sum(histogram[10]) == 5


def test_suggestions_are_words_in_order(model):
    top = suggest(preferring(model, EOS, B, A, OOV, C), [A, C], 3)
    assert [word for word, _ in top] == [B, A, C]
    probabilities = [p for _, p in top]
    assert probabilities == sorted(probabilities, reverse=True)
    assert suggest(model, [A] * 40, 3)


def test_a_model_that_is_asked_again_is_not_compiled_again():
    traced = []

    class Watched(eqx.Module):
        bias: jax.Array

        def __call__(self, tokens):
            traced.append(tokens.shape)
            return jnp.broadcast_to(self.bias, (len(tokens), VOCABULARY))

    model = Watched(jnp.zeros(VOCABULARY))
    for context in ([A], [A, B], [C]):
        assert len(suggest(model, context, 200)) == VOCABULARY - FIRST_WORD
    assert len(traced) == 1
