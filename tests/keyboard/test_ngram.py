"""The Katz model is its definition, sums to one, survives a file, and is nearly as good as Kneser-Ney."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tacit.data.worlds.keyboard import KeyboardWorld
from tacit.errors import DataError
from tacit.keyboard.ngram import Katz, discounts, load_katz, train_katz
from tacit.keyboard.ngram_counts import count_ngrams
from tests.support.brute_ngrams import BOS, EOS, BruteKatz, BruteKneserNey

Sentences = list[list[int]]


def train(sentences: Sentences, order: int, vocabulary: int, **more: Any) -> Katz:
    words = np.array([word for sentence in sentences for word in sentence], np.uint16)
    offsets = np.cumsum([0, *map(len, sentences)]).astype(np.int64)
    facts = {"provenance": "a test", "is_public": True, **more}
    return train_katz(words, offsets, order=order, vocabulary=vocabulary, bos=BOS, eos=EOS, never=(0, BOS), **facts)


def after(model: Katz, context: tuple[int, ...]) -> Any:
    state = model.begin(1)
    for token in context:
        state = model.read(state, np.array([token]))
    return state


def contexts_of(sentences: Sentences, vocabulary: int) -> list[tuple[int, ...]]:
    """Every beginning of a sentence, and some that nobody wrote."""
    written = {(BOS, *sentence[:end]) for sentence in sentences for end in range(len(sentence) + 1)}
    return [*sorted(written), (), (BOS, vocabulary - 1, vocabulary - 1, 3, 3, vocabulary - 1)]


def assert_is_the_definition(
    sentences: Sentences, order: int, vocabulary: int, cutoffs: list[int] | None, most: int = 200
) -> None:
    model = train(sentences, order, vocabulary, least_counts=cutoffs)
    brute = BruteKatz(sentences, order, vocabulary, cutoffs)
    contexts = contexts_of(sentences, vocabulary)
    for context in contexts[:: max(1, len(contexts) // most)]:
        state = after(model, context)
        expected = np.array([brute.probability(w, context) for w in brute.guessable])
        rows = np.exp(model.log_probabilities(state)[0].astype(np.float64))
        np.testing.assert_allclose(rows[brute.guessable], expected, rtol=2e-5, atol=1e-12)
        assert rows[[0, BOS]].tolist() == [0.0, 0.0]
        assert rows.sum() == pytest.approx(1, abs=1e-6)
        many = tuple(np.repeat(array, len(expected), axis=0) for array in state)
        exact = np.exp(model.log_probability(many, np.array(brute.guessable)))
        np.testing.assert_allclose(exact, expected, rtol=1e-9)
        assert exact.sum() == pytest.approx(1, abs=1e-12)


@settings(max_examples=25)
@given(
    sentences=st.lists(st.lists(st.integers(3, 7), max_size=6), min_size=1, max_size=12),
    order=st.integers(1, 5),
    rising=st.lists(st.integers(0, 1), min_size=4, max_size=4),
)
def test_probabilities_are_the_definition(sentences: Sentences, order: int, rising: list[int]) -> None:
    assert_is_the_definition(sentences, order, 8, np.cumsum([1, *rising]).tolist()[:order])


def zipf_sentences(count: int, words: int, seed: int) -> Sentences:
    """Sentences in which a word depends on the one before, with all counts of counts."""
    generator = np.random.default_rng(seed)
    table = np.argsort(generator.random((words, words)), axis=1)
    sentences = []
    for _ in range(count):
        last, sentence = 0, []
        for _ in range(generator.integers(2, 7)):
            last = int(table[last, min(generator.zipf(1.5) - 1, words - 1)])
            sentence.append(3 + last)
        sentences.append(sentence)
    return sentences


def test_good_turing_discounts_are_used_where_counts_of_counts_allow() -> None:
    sentences = zipf_sentences(600, 50, seed=1)
    kinds = [isinstance(each, list) for each in BruteKatz(sentences, 3, 53).discount]
    assert kinds == [False, True, True]
    assert_is_the_definition(sentences, 3, 53, None, most=30)
    # Hand-computed: n1..n6 = 100, 40, 20, 12, 8, 4; A = 0.24; d(1) = (0.8 - 0.24) / 0.76.
    found = discounts(np.array([0, 100, 40, 20, 12, 8, 4]))(np.array([1, 2, 5, 6, 900]))
    np.testing.assert_allclose(found[[0, 1, 2]], [0.56 / 0.76, (0.75 - 0.24) / 0.76, (0.6 - 0.24) / 0.76])
    assert found[3:].tolist() == [1.0, 1.0]
    thin = discounts(np.array([0, 6, 2, 0, 1, 1, 1]))(np.array([1, 4]))
    np.testing.assert_allclose(thin, [1 - 0.6, (4 - 0.6) / 4])


@pytest.mark.parametrize("cutoffs", [[1, 2, 2, 3], [1, 1, 4, 4]])
def test_dropped_ngrams_leave_their_mass_to_shorter_ones(cutoffs: list[int]) -> None:
    assert_is_the_definition(zipf_sentences(120, 12, seed=5), 4, 15, cutoffs, most=40)


def test_contexts_that_leave_nothing_and_contexts_that_saw_everything() -> None:
    # After 3 always 4, often: nothing left. After 4 everything there is.
    sentences = [[3, 4, word] for word in (3, 4, 5, 6)] * 9 + [[3, 4]] * 9 + zipf_sentences(60, 4, seed=3)
    assert_is_the_definition(sentences, 3, 7, None)


def test_a_saved_model_is_the_same(tmp_path: Path) -> None:
    model = train(zipf_sentences(40, 9, seed=2), 4, 12, fingerprint="abc", provenance="private users", is_public=False)
    path = tmp_path / "model.npz"
    model.save(path)
    again = load_katz(path)
    assert (again.provenance, again.is_public, again.fingerprint) == ("private users", False, "abc")
    state = after(model, (BOS, 3, 4))
    np.testing.assert_array_equal(again.log_probabilities(state), model.log_probabilities(state))
    path.write_bytes(path.read_bytes()[:300])
    with pytest.raises(DataError, match="is not an n-gram model of Tacit, or it is damaged"):
        load_katz(path)
    with pytest.raises(DataError, match="There is no n-gram model"):
        load_katz(tmp_path / "nothing.npz")


def test_what_cannot_be_counted_is_refused() -> None:
    sentences = [[3, 4]]
    for order in (0, 6):
        with pytest.raises(DataError, match=f"order from 1 to 5, got {order}"):
            train(sentences, order, 5)
    for cutoffs in ([1, 2], [2, 2, 2], [1, 3, 2]):
        with pytest.raises(DataError, match="least counts"):
            train(sentences, 3, 5, least_counts=cutoffs)
    with pytest.raises(DataError, match="no sentences"):
        train([], 2, 5)
    with pytest.raises(DataError, match="below the vocabulary of 4"):
        train(sentences, 2, 4)


def test_pruning_drops_what_is_rare_and_nothing_else() -> None:
    levels = count_ngrams(
        np.array([3, 4, 3, 4, 3, 5]),
        np.array([0, 2, 4, 6]),
        order=2,
        vocabulary=6,
        bos=BOS,
        eos=EOS,
        least_counts=[1, 2],
    )
    kept = {
        (int(key) // 6, int(key) % 6): int(count) for key, count in zip(levels[1].keys, levels[1].counts, strict=True)
    }
    assert kept == {(BOS, 3): 3, (3, 4): 2, (4, EOS): 2}
    assert levels[1].totals.tolist() == [0, 3, 0, 3, 2, 1]


def perplexity(log_probabilities: list[float]) -> float:
    return float(np.exp(-np.mean(log_probabilities)))


def test_perplexity_is_near_that_of_kneser_ney() -> None:
    """The difference on the keyboard world, orders 2 and 3: Katz is the older method, and a few per cent behind at most."""
    world = KeyboardWorld(1, 220, vocabulary_size=500)

    def sentences(first: int, last: int) -> Sentences:
        examples = world.gather(np.arange(first, last))
        return [each.tolist() for each in np.split(examples.items, examples.example_offsets[1:-1])]

    training, held_out = sentences(0, 200), sentences(200, 203)
    for order in (2, 3):
        model, other = train(training, order, 500), BruteKneserNey(training, order, 500)
        katz, kneser_ney = [], []
        for sentence in held_out:
            state, context = after(model, (BOS,)), (BOS,)
            for token in (*sentence, EOS):
                katz.append(float(model.log_probability(state, np.array([token]))[0]))
                kneser_ney.append(float(np.log(other.probability(token, context))))
                state, context = model.read(state, np.array([token])), (*context, token)
        ratio = perplexity(katz) / perplexity(kneser_ney)
        assert 0.95 < ratio < 1.08, (order, perplexity(katz), perplexity(kneser_ney))
