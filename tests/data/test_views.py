from __future__ import annotations

from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tacit.data.build import save_users
from tacit.data.users import all_names
from tacit.data.views import Capped, Reshuffled, Subset, example_counts
from tacit.data.vocabulary import Vocabulary, word_list
from tacit.errors import DataError
from tacit.privacy.noise.randomness import Randomness
from tacit.privacy.participation.samplers import Poisson
from tacit.simulation.cohorts import CohortStream
from tests.support.list_users import ListUsers, Population, listed

POPULATIONS = st.lists(st.lists(st.lists(st.integers(4, 99), max_size=4), max_size=4), min_size=1, max_size=6)


@given(POPULATIONS, st.none() | st.integers(1, 5), st.none() | st.integers(1, 3), st.data())
def test_caps_keep_the_first_words_and_sentences(
    population: Population, tokens: int | None, examples: int | None, data: st.DataObject
) -> None:
    numbers = data.draw(st.lists(st.integers(0, len(population) - 1), max_size=5))
    expected = []
    for number in numbers:
        left, kept = tokens, []
        for sentence in population[number][:examples]:
            if left is not None and left <= 0:
                break
            kept.append(sentence[:left])
            left = None if left is None else left - len(sentence)
        expected.append(kept)
    assert listed(Capped(ListUsers(population), tokens=tokens, examples=examples), numbers) == expected


def test_caps_on_images() -> None:
    users = ListUsers([[[1], [2], [3]], [], [[4]]], images=True)
    capped = Capped(users, examples=2).gather(np.array([0, 1, 2]))
    assert capped.labels is not None
    assert capped.labels.tolist() == [1, 2, 4]
    assert capped.items[:, 0, 0].tolist() == [1, 2, 4]
    assert capped.user_offsets.tolist() == [0, 2, 2, 3]
    with pytest.raises(DataError, match="does not fit images"):
        Capped(users, tokens=2).gather(np.array([0]))
    with pytest.raises(DataError, match="at least 1 on a user's tokens, got 0"):
        Capped(users, tokens=0)


@given(POPULATIONS, st.integers(0, 3), st.booleans())
def test_a_reshuffle_deals_every_example_to_one_synthetic_user(population: Population, seed: int, images: bool) -> None:
    users = ListUsers(population, images=images)
    reshuffled = Reshuffled(users, 4, seed=seed)
    before, after = listed(users), listed(reshuffled)
    assert len(after) == len(reshuffled) == 4
    if images:
        labels = reshuffled.gather(np.arange(4)).labels
        assert labels is not None
        assert Counter(labels.tolist()) == Counter(sum(s) for user in population for s in user)
        assert [picture[0][0][0] for user in after for picture in user] == (labels % 256).tolist()
    else:
        assert Counter(tuple(s) for user in after for s in user) == Counter(tuple(s) for user in before for s in user)
    assert listed(reshuffled, [3]) == after[-1:]


def test_a_reshuffle_mixes_users() -> None:
    users = ListUsers([[[u]] * 30 for u in range(30)])
    after = listed(Reshuffled(users, 30, seed=1))
    assert np.mean([len({sentence[0] for sentence in user}) for user in after]) > 15
    assert after != listed(Reshuffled(users, 30, seed=2))


def test_a_reshuffle_without_one_user_moves_nobody_elses_examples() -> None:
    everybody = ListUsers([[[u, place] for place in range(5)] for u in range(20)])
    without = Subset(everybody, np.delete(np.arange(20), 3))
    rest = [[sentence for sentence in user if sentence[0] != 3] for user in listed(Reshuffled(everybody, 7, seed=1))]
    assert listed(Reshuffled(without, 7, seed=1)) == rest


def test_two_users_with_one_name_are_refused(tmp_path: Path) -> None:
    """They would be drawn together and held out together, and one person's share of a sum would be two clips."""
    twice = Subset(ListUsers([[[4]], [[5]]]), np.array([0, 1, 0]))
    vocabulary = Vocabulary(("a", "b"), word_list("letters"))
    with pytest.raises(DataError, match="Two users have the same name"):
        save_users(twice, tmp_path / "s", source="test", vocabulary=vocabulary)
    with pytest.raises(DataError, match="Two users have the same name"):
        CohortStream(Poisson(0.5), Randomness.fresh(), all_names(twice), lambda users: iter(()), start=0, stop=1)


def test_views_of_views() -> None:
    population = [[[u, 1], [u, 2]] for u in range(10)]
    part = Subset(Capped(ListUsers(population), examples=1), np.array([7, 2]))
    assert listed(part, [1, 0, 1]) == [[[2, 1]], [[7, 1]], [[2, 1]]]
    assert example_counts(part).tolist() == [1, 1]
    assert sorted(listed(Reshuffled(part, 1, seed=0))[0]) == [[2, 1], [7, 1]]
    with pytest.raises(DataError, match="no texts"):
        part.texts(np.array([0]))
