"""Rates of unknown words by hand, and a model's spelling against its own likelihoods."""

from __future__ import annotations

import jax
import numpy as np
import pytest

from tacit.inspection.text.unknown_words import PLACES, UnknownRates, drawn_rates, symbol_scores, unknown_rates
from tacit.models.char_lm import CharLMConfig, build, encode_words, log_likelihoods
from tests.support.list_users import ListUsers

ALL = np.arange(2)


def test_rates_are_counted_by_place() -> None:
    users = ListUsers([[[3, 5, 3], [4, 5]], [[3]]])
    assert unknown_rates(users, ALL) == UnknownRates(3 / 6, (2 / 3, 0.0, 1.0))
    assert unknown_rates(users, ALL[1:]) == UnknownRates(1.0, (1.0,))  # of those asked for alone


def test_far_places_count_in_the_rate_and_are_not_listed() -> None:
    users = ListUsers([[[4] * PLACES + [3] * PLACES]])
    assert unknown_rates(users, ALL[:1]) == UnknownRates(0.5, (0.0,) * PLACES)


def test_made_up_sentences_are_counted_as_written_ones() -> None:
    written = [[3, 5, 3], [4, 5], [3]]
    rows = np.zeros((3, PLACES + 2), np.int32)
    for row, sentence in zip(rows, written, strict=True):
        row[: len(sentence)] = sentence
    assert drawn_rates(rows) == unknown_rates(ListUsers([written]), ALL[:1])
    long = np.array([[4] * PLACES + [3] * PLACES], np.int32)
    assert drawn_rates(long) == UnknownRates(0.5, (0.0,) * PLACES)
    assert drawn_rates(np.zeros((2, 5), np.int32)) == UnknownRates(0.0, ())


def test_nobody_has_no_rate() -> None:
    assert unknown_rates(ListUsers([[], []]), ALL) == UnknownRates(0.0, ())
    assert UnknownRates.from_dict(UnknownRates(0.25, (0.5, 0.0)).as_dict()) == UnknownRates(0.25, (0.5, 0.0))


def test_scores_are_those_of_the_likelihood_and_padding_counts_nothing() -> None:
    model = build(CharLMConfig(1, 12, 20, 12), key=jax.random.key(1))
    rows = encode_words(["ab", "i have", "c"], 9)
    found = symbol_scores(model, rows)
    symbols = 3 + 7 + 2
    expected = np.exp(-float(np.asarray(jax.jit(log_likelihoods)(model, rows)).sum()) / symbols)
    assert found["perplexity"] == pytest.approx(expected, rel=1e-5)
    assert found["words"] == 3
    logits = np.asarray(jax.jit(jax.vmap(model))(rows[:, :-1]))
    right = ((logits.argmax(-1) + 1 == rows[:, 1:]) & (rows[:, 1:] != 0)).sum()
    assert found["accuracy"] == pytest.approx(right / symbols)


def test_a_model_that_always_says_the_same_is_right_as_often_as_it_occurs() -> None:
    model = build(CharLMConfig(1, 12, 20, 12), key=jax.random.key(1))
    end = np.zeros(258, np.float32)
    end[1] = 50.0  # the symbol that ends a word
    sure = jax.tree_util.tree_map(lambda leaf: leaf, model)
    object.__setattr__(sure, "output_bias", jax.numpy.asarray(end))
    assert symbol_scores(sure, encode_words(["ab", "c"], 9))["accuracy"] == pytest.approx(2 / 5)
