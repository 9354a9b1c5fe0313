"""Words letter by letter: the work equals plain Python, nobody moves a sum by more than 1, and trees grow as they should."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tacit.data.users import FIRST_WORD
from tacit.learning.prefix_tree import (
    PrefixServer,
    PrefixState,
    PrefixWork,
    TreeShape,
    _tree,
    grown,
    prefixes_of,
    seedling,
    words_of,
)
from tacit.privacy.record.records import UPDATE
from tests.support.spelled_people import ALPHABET, END, SHAPE, batches_of, contribution, coordinate

WORK = jax.jit(lambda tree, batches: jax.vmap(lambda one: PrefixWork(SHAPE).of_tree(tree, one))(batches))

a_word = st.text(ALPHABET, min_size=1, max_size=SHAPE.longest)


def tree_of(prefixes: list[str], letters: int) -> object:
    rows = np.zeros((len(prefixes), SHAPE.longest), np.int32)
    for row, prefix in zip(rows, prefixes, strict=True):
        row[: len(prefix)] = [ALPHABET.index(letter) + 1 for letter in prefix]
    return _tree(SHAPE, rows, len(prefixes[0]) if prefixes else 0, letters)


@st.composite
def a_tree(draw: st.DrawFn) -> tuple[list[str], int]:
    depth = draw(st.integers(0, SHAPE.longest))
    letters = draw(st.integers(1, min(SHAPE.most_letters, SHAPE.longest + 1 - depth)))
    most = min(SHAPE.coordinates // SHAPE.symbols**letters, 3**depth)
    one = st.text(ALPHABET, min_size=depth, max_size=depth)
    return sorted(draw(st.sets(one, min_size=1, max_size=most))), letters


@given(a_tree(), st.lists(st.sets(a_word, max_size=12), min_size=3, max_size=3))
def test_the_work_is_what_plain_python_computes_and_nobody_moves_the_sum_by_more_than_one(
    tree: tuple[list[str], int], people: list[set[str]]
) -> None:
    prefixes, letters = tree
    found = np.asarray(WORK(tree_of(prefixes, letters), batches_of([dict.fromkeys(words, 1) for words in people])))
    for vector, words in zip(found, people, strict=True):
        expected = np.zeros(SHAPE.coordinates)
        for extension, value in contribution(words, prefixes, letters).items():
            expected[coordinate(extension, prefixes, letters)] = value
        np.testing.assert_allclose(vector, expected, atol=1e-6)
        assert np.linalg.norm(vector.astype(np.float64)) <= 1 + 1e-6
        assert (vector >= 0).all()


def test_a_word_counts_once_and_padding_and_other_letters_not_at_all() -> None:
    tree = tree_of([""], 1)
    rows = batches_of([{"ab": 7, "ac": 1}])
    strange = rows.copy()
    strange[0, 0, 1, 1] = FIRST_WORD + 3  # a letter behind the alphabet
    both, one = np.asarray(WORK(tree, rows)), np.asarray(WORK(tree, strange))
    assert both[0, 1] == one[0, 1] == 1.0  # both words begin with a: one extension
    assert np.count_nonzero(both) == np.count_nonzero(one) == 1
    assert not np.asarray(WORK(tree, np.zeros_like(rows))).any()


def totals_of(people: list[dict[str, int]], model: PrefixState) -> np.ndarray:
    return np.asarray(WORK(model.tree, batches_of(people))).sum(axis=0)


@pytest.mark.parametrize("rounds", [2, 3, 5, 7])
def test_without_noise_the_words_of_two_people_are_found_and_others_are_not(rounds: int) -> None:
    people = [{"ab": 1, "abba": 2, "cc": 1}, {"ab": 3, "abba": 1, "b": 1}, {"acab": 1}]
    server = PrefixServer.of(SHAPE, threshold=0.9, rounds=rounds, denominator=1.0)
    model = seedling(SHAPE, rounds)
    state = server.init(model)
    for _ in range(rounds):
        model, state, finite = server.step(model, state, {UPDATE: jnp.asarray(totals_of(people, model))})
        assert bool(finite)
    found = words_of(model, ALPHABET)
    assert {"ab", "abba"} <= set(found) <= {"ab", "abba", "acab"}
    assert list(found.values()) == sorted(found.values(), reverse=True)
    assert prefixes_of(model, ALPHABET) == []
    assert int(state["rounds_done"]) == rounds


def test_what_is_below_the_threshold_is_gone_and_what_nobody_can_have_is_no_word() -> None:
    model = seedling(SHAPE, 5)
    letters = int(model.tree.letters)
    totals = np.zeros(SHAPE.coordinates, np.float32)
    for extension, total in ((END * 3, 9.0), ("a$b", 9.0), ("b$$", 5.0), ("ca$", 4.9), ("abc", 5.0), ("cab", 4.9)):
        totals[coordinate(extension, [""], letters)] = total
    after = grown(SHAPE, model, totals, 5.0, 4)
    assert words_of(after, ALPHABET) == {"b": 5.0}
    assert prefixes_of(after, ALPHABET) == ["abc"]
    assert (int(after.tree.depth), int(after.tree.letters)) == (3, 2)


def test_more_prefixes_than_room_keeps_the_largest() -> None:
    shape = TreeShape(letters=3, longest=3, coordinates=8, places=5)
    model = seedling(shape, 4)
    totals = np.zeros(8, np.float32)
    totals[1:4] = [6.0, 8.0, 7.0]
    assert prefixes_of(grown(shape, model, totals, 5.0, 3), ALPHABET) == ["b", "c"]


@given(
    st.integers(1, 40),
    st.integers(1, 20),
    st.integers(0, 14),
    st.integers(1, 12),
    st.integers(0, 500),
    st.integers(9, 16),
)
def test_a_round_never_asks_for_more_than_it_has_room_for(
    letters: int, longest: int, depth: int, rounds: int, prefixes: int, bits: int
) -> None:
    shape = TreeShape(letters, longest, 1 << bits, 5)
    kept, asked = shape.step(prefixes, depth, rounds)
    assert kept * shape.symbols**asked <= shape.coordinates
    assert 0 <= kept <= prefixes
    assert depth + asked <= max(longest + 1, depth)
    if kept:
        assert asked >= shape.least_letters(depth, rounds) >= 1
