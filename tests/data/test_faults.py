"""Faults: what they change, whom they hit, and that nothing beneath them moves."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from numpy.typing import NDArray

from tacit.data.faults import CaseKept, Concatenated, Inverted, Relabelled, Rotated, spelled
from tacit.data.users import OOV, Examples, Names, names_of_numbers
from tacit.data.views import Subset
from tacit.data.worlds.handwriting import HandwritingWorld
from tacit.data.worlds.keyboard import KeyboardWorld
from tacit.errors import DataError
from tests.support.list_users import ListUsers

WORLD = KeyboardWorld(3, 60, vocabulary_size=500)
WRITERS = HandwritingWorld(3, 400, glyphs_per_writer=3)
SOME = np.array([7, 0, 31, 7])


class Typed:
    """Users with texts in capitals and small letters."""

    def __init__(self, texts: list[list[str]], words: list[str]) -> None:
        self._texts, self._words = texts, words

    def __len__(self) -> int:
        return len(self._texts)

    def names(self, users: NDArray[np.int64]) -> Names:
        return names_of_numbers(users)

    def gather(self, users: NDArray[np.int64]) -> Examples:
        index = {word: number for number, word in enumerate(self._words)}
        found = [[[index.get(t, OOV) for t in s] for s in one] for one in spelled(self, users)]
        flat = [s for one in found for s in one]
        return Examples(
            np.array([i for s in flat for i in s], np.uint16),
            np.cumsum([0, *map(len, flat)]).astype(np.int64),
            np.cumsum([0, *map(len, found)]).astype(np.int64),
        )

    def texts(self, users: NDArray[np.int64]) -> Examples:
        chosen = [self._texts[u] for u in users]
        flat = [text.encode() for one in chosen for text in one]
        return Examples(
            np.frombuffer(b"".join(flat), np.uint8),
            np.cumsum([0, *map(len, flat)]).astype(np.int64),
            np.cumsum([0, *map(len, chosen)]).astype(np.int64),
        )


def sentences(examples: Examples) -> list[list[int]]:
    offsets = examples.example_offsets
    return [examples.items[a:b].tolist() for a, b in pairwise(offsets)]


def same(one: Examples, other: Examples) -> bool:
    pairs = zip(
        (one.items, one.example_offsets, one.user_offsets, one.labels),
        (other.items, other.example_offsets, other.user_offsets, other.labels),
        strict=True,
    )
    return all(np.array_equal(a, b) for a, b in pairs if a is not None)


def test_every_sentence_loses_its_first_border() -> None:
    whole, broken = WORLD.gather(SOME), Concatenated(WORLD, 1.0, seed=1).gather(SOME)
    expected = [[OOV, *s[2:]] if len(s) >= 2 else s for s in sentences(whole)]
    assert sentences(broken) == expected
    assert np.array_equal(whole.user_offsets, broken.user_offsets)


def test_a_sentence_needs_two_tokens_to_lose_a_border() -> None:
    users = ListUsers([[[7], [8, 9], []], [[4, 5, 6]]])
    assert sentences(Concatenated(users, 1.0, seed=0).gather(np.arange(2))) == [[7], [OOV], [], [OOV, 6]]


@pytest.mark.parametrize("share", [0.1, 0.6])
def test_the_ids_are_those_of_the_broken_words(share: float) -> None:
    """The arithmetic on ids and the joining of words are the same fault."""
    broken = Concatenated(WORLD, share, seed=1)
    index = {word: number for number, word in enumerate(WORLD.words)}
    from_words = [[index.get(t, OOV) for t in s] for one in spelled(broken, SOME) for s in one]
    assert from_words == sentences(broken.gather(SOME))
    assert any(" " in t for one in spelled(broken, SOME) for s in one for t in s)


def test_the_share_of_broken_sentences_is_the_one_asked_for() -> None:
    everyone = np.arange(len(WORLD))
    whole = WORLD.gather(everyone)
    for share in (0.0, 0.1, 0.5):
        broken = Concatenated(WORLD, share, seed=2).gather(everyone)
        hit = np.diff(whole.example_offsets) != np.diff(broken.example_offsets)
        assert hit.mean() == pytest.approx(share, abs=4 * np.sqrt(share * (1 - share) / len(hit)) + 0.02 * share)


def test_a_larger_share_hits_all_that_a_smaller_one_did() -> None:
    everyone = np.arange(len(WRITERS))
    few, many = (Inverted(WRITERS, share, seed=5).has_fault(everyone) for share in (0.2, 0.5))
    assert (few <= many).all()
    assert few.sum() < many.sum()
    assert not np.array_equal(many, Inverted(WRITERS, 0.5, seed=6).has_fault(everyone))


def test_a_fault_depends_on_the_user_alone() -> None:
    """Asked alone, in company, or in another order: the same user, the same answer."""
    for view in (Concatenated(WORLD, 0.3, seed=1), CaseKept(WORLD, WORLD.words, 0.3, seed=1)):
        alone = [sentences(view.gather(np.array([user]))) for user in SOME]
        assert [s for one in alone for s in one] == sentences(view.gather(SOME))


def test_images_are_inverted_on_half_of_the_devices_and_whole_devices_only() -> None:
    everyone = np.arange(len(WRITERS))
    whole, view = WRITERS.gather(everyone), Inverted(WRITERS, 0.5, seed=5)
    broken = view.gather(everyone)
    owner = np.repeat(everyone, np.diff(whole.user_offsets))
    hit = view.has_fault(everyone)[owner]
    assert np.array_equal(broken.items[hit], 255 - whole.items[hit])
    assert np.array_equal(broken.items[~hit], whole.items[~hit])
    assert view.has_fault(everyone).mean() == pytest.approx(0.5, abs=0.1)


def test_other_faults_of_images() -> None:
    whole = WRITERS.gather(SOME)
    turned = Rotated(WRITERS, 1.0, seed=0).gather(SOME)
    assert np.array_equal(turned.items[3], np.rot90(whole.items[3]))
    assert np.array_equal(turned.labels, whole.labels)
    shifted = Relabelled(WRITERS, 1.0, 62, seed=0).gather(SOME)
    assert np.array_equal(shifted.items, whole.items)
    assert whole.labels is not None
    assert np.array_equal(shifted.labels, (whole.labels + 1) % 62)
    assert shifted.labels is not None
    assert shifted.labels.dtype == np.int32


def test_words_keep_the_case_they_were_typed_in() -> None:
    words = ["<pad>", "<bos>", "<eos>", "<oov>", "the", "cat", "sat", "don't"]
    users = Typed([["The Cat sat.", "the cat"], ["DON'T sat, The cat"]], words)
    view = CaseKept(users, words, 1.0, seed=0)
    everyone = np.arange(2)
    assert spelled(view, everyone) == [
        [["The", "Cat", "sat", "."], ["the", "cat"]],
        [["DON'T", "sat", ",", "The", "cat"]],
    ]
    assert sentences(view.gather(everyone)) == [[3, 3, 6, 3], [4, 5], [3, 6, 3, 3, 5]]
    unbroken = CaseKept(users, words, 0.0, seed=0).gather(everyone)
    assert same(unbroken, users.gather(everyone))


def test_a_world_without_case_gets_capitals_at_the_start() -> None:
    view = CaseKept(WORLD, WORLD.words, 1.0, seed=0)
    for one in spelled(view, SOME):
        assert all(s[0] == s[0].capitalize() for s in one)
    whole, broken = WORLD.gather(SOME), view.gather(SOME)
    first = broken.items[broken.example_offsets[:-1]]
    letters = np.array([WORLD.words[i][0].isalpha() for i in whole.items[whole.example_offsets[:-1]]])
    assert (first[letters] == OOV).all()


def test_what_lies_beneath_is_never_touched() -> None:
    before, images = WORLD.gather(SOME), WRITERS.gather(SOME)
    held = Examples(images.items.copy(), images.example_offsets, images.user_offsets, images.labels)

    class Fixed:
        """Hands out the same arrays every time, so that writing into them would be seen."""

        def __len__(self) -> int:
            return 4

        def names(self, users: NDArray[np.int64]) -> Names:
            return names_of_numbers(users)

        def gather(self, users: NDArray[np.int64]) -> Examples:
            return images

    for view in (Inverted(Fixed(), 1.0, seed=0), Rotated(Fixed(), 1.0, seed=0), Relabelled(Fixed(), 1.0, 62, seed=0)):
        view.gather(np.arange(4))
    assert same(held, images)
    Concatenated(WORLD, 1.0, seed=0).gather(SOME)
    assert same(before, WORLD.gather(SOME))


def test_wrong_use_is_one_sentence() -> None:
    with pytest.raises(DataError, match=r"share from 0 to 1, got 1\.5"):
        Inverted(WRITERS, 1.5, seed=0)
    with pytest.raises(DataError, match="users with images"):
        Inverted(WORLD, 0.5, seed=0).gather(SOME)
    with pytest.raises(DataError, match="users with text"):
        Concatenated(WRITERS, 0.5, seed=0).gather(SOME)
    with pytest.raises(DataError, match="keep no texts, only word ids"):
        spelled(WRITERS, SOME)


def test_a_subset_of_a_broken_population_is_broken_alike() -> None:
    view = Concatenated(WORLD, 0.5, seed=1)
    assert sentences(Subset(view, np.array([7, 31])).gather(np.array([1]))) == sentences(view.gather(np.array([31])))
