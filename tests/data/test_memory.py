from __future__ import annotations

import csv
import io
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tacit.data import memory
from tacit.data.importing import import_text
from tacit.data.memory import users
from tacit.data.sources import TextSource
from tacit.data.store import open_store
from tacit.data.users import OOV, all_names
from tacit.data.views import split_users
from tacit.data.vocabulary import PRIVATE, Vocabulary
from tacit.errors import DataError
from tests.support.list_users import listed
from tests.support.store_keys import KEY

WORDS = ["see", "you", "soon", "on", "my", "way"]
CHATS = {"ann": ["See you SOON", "on my way"], "bob": ["you?", ""], "cy": [], "dee": ["soon soon"]}
IDS = [[[4, 5, 6], [7, 8, 9]], [[5, OOV]], [], [[6, 6]]]


def rows_of(chats: dict[str, list[str]]) -> list[dict[str, str]]:
    """The chats as rows, those of one user apart: first everybody's first sentence, then everybody's second."""
    return [
        {"who": who, "said": said[turn], "more": "!"}
        for turn in range(2)
        for who, said in chats.items()
        if turn < len(said)
    ]


def test_a_mapping_of_sentences() -> None:
    people = users(CHATS, vocabulary=WORDS)
    assert listed(people) == IDS
    assert people.gather(np.arange(4)).items.dtype == np.uint16
    assert people.words == ("<pad>", "<bos>", "<eos>", "<oov>", *WORDS)
    assert repr(people) == "MemoryUsers(4 users, 4 examples, 6 words)"
    assert people.vocabulary is not None
    assert people.vocabulary.is_public


def test_rows_in_any_order_give_the_same_users() -> None:
    sentences = {who: said for who, said in CHATS.items() if said}
    people = users(sentences, vocabulary=WORDS, key=KEY)
    by_row = users(rows_of(sentences), vocabulary=WORDS, user="who", text="said", key=KEY)
    assert listed(by_row) == listed(people) == [user for user in IDS if user]
    np.testing.assert_array_equal(all_names(by_row), all_names(people))


def test_a_csv_reader_and_a_generator_are_rows() -> None:
    reader = csv.DictReader(io.StringIO("who,said\nann,see\nbob,you\nann,soon\n"))
    assert listed(users(reader, vocabulary=WORDS, user="who", text="said")) == [[[4], [6]], [[5]]]
    rows = ({"who": who, "said": [6]} for who in (np.int64(3), 3, 4))
    assert listed(users(rows, user="who", text="said")) == [[[6], [6]], [[6]]]


def test_many_blocks_of_shuffled_rows_keep_each_users_order(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory, "_TEXTS_AT_A_TIME", 3)
    monkeypatch.setattr(memory, "_SENTENCES_AT_A_TIME", 4)
    generator = np.random.default_rng(0)
    rows = [
        {"who": int(who), "said": " ".join(generator.choice([*WORDS, "other"], 1 + who % 3))}
        for who in generator.integers(0, 7, 50)
    ]
    expected: dict[int, list[list[int]]] = {}
    for row in rows:
        expected.setdefault(row["who"], []).append(
            [4 + WORDS.index(w) if w in WORDS else OOV for w in row["said"].split()]
        )
    assert listed(users(rows, vocabulary=WORDS, user="who", text="said")) == list(expected.values())


def test_the_import_of_a_store_makes_the_same_users(tmp_path: Path) -> None:
    chats = {"ann": ["See you—soon, DON'T", "ça va\u0301"], "bob": ["...", "@"], "dee": ["on\nmy\tway"]}
    words = Vocabulary((*WORDS, "don't", ".", ",", "ça", "vá"), PRIVATE)
    rows = iter([(i, who, text) for i, (who, said) in enumerate(chats.items()) for text in said])
    store = import_text([TextSource("f", "jsonl", "line", rows)], tmp_path / "s", vocabulary=words, key=KEY)
    people = users(chats, vocabulary=words, key=KEY)
    assert listed(people) == listed(store)
    np.testing.assert_array_equal(all_names(people), all_names(store))


def test_names_are_keyed_hashes_of_ids_and_a_key_is_thrown_away() -> None:
    once, again = users(CHATS, vocabulary=WORDS), users(CHATS, vocabulary=WORDS)
    assert not np.any(all_names(once) == all_names(again))
    assert once.store_id != again.store_id
    kept = users(CHATS, vocabulary=WORDS, key=KEY)
    reversed_ = users(dict(reversed(CHATS.items())), vocabulary=WORDS, key=KEY)
    np.testing.assert_array_equal(all_names(kept), all_names(reversed_)[::-1])
    assert kept.store_id == reversed_.store_id
    attributes = [value for value in vars(kept).values() if not isinstance(value, np.ndarray)]
    assert not any("ann" in repr(value) for value in attributes)


def test_who_is_held_out_depends_on_the_user_alone() -> None:
    chats = {f"user {number}": ["see you"] for number in range(200)}
    people = users(chats, vocabulary=WORDS, held_out=0.3, key=KEY)
    aside = people.held_out_users()
    assert 30 < len(aside) < 90
    train, held_out = split_users(people, 10)
    assert len(train) == 200 - len(aside)
    assert set(held_out.members) <= set(aside)
    assert len(held_out) == 10
    removed = dict(chats)
    del removed["user 0"]
    shifted = users(removed, vocabulary=WORDS, held_out=0.3, key=KEY).held_out_users() + 1
    assert shifted.tolist() == [number for number in aside.tolist() if number != 0]
    with pytest.raises(DataError, match="Expected held-out users"):
        split_users(users(chats, vocabulary=WORDS, held_out=0))


def test_word_ids_that_somebody_else_encoded() -> None:
    people = users({"ann": [[4, 70_000], []], "bob": [np.array([OOV], np.uint8)]})
    assert listed(people) == [[[4, 70_000]], [[OOV]]]
    assert (people.vocabulary, people.words) == (None, ())
    assert listed(users({"ann": ["see", [5, 9], "on"]}, vocabulary=WORDS)) == [[[4], [5, 9], [7]]]
    with pytest.raises(DataError, match="A store of text needs a vocabulary"):
        people.save("nowhere")


def images(labels: list[int]) -> tuple[np.ndarray, list[int]]:
    return np.array(labels, np.uint8)[:, None, None] + np.zeros((1, 28, 28), np.uint8), labels


def test_images_and_labels() -> None:
    people = users({"ann": images([1, 2]), "bob": [], "cy": images([3])})
    found = people.gather(np.array([2, 1, 0]))
    assert found.labels is not None
    assert (found.labels.tolist(), found.labels.dtype) == ([3, 1, 2], np.int32)
    assert found.items[:, 5, 5].tolist() == [3, 1, 2]
    assert found.user_offsets.tolist() == [0, 1, 1, 3]
    assert repr(people) == "MemoryUsers(3 users, 3 examples)"


@pytest.mark.parametrize("source", [CHATS, {"ann": images([1, 2]), "bob": []}], ids=["text", "images"])
def test_a_saved_store_has_the_same_users_under_the_same_names(tmp_path: Path, source: dict[str, Any]) -> None:
    people = users(source, vocabulary=WORDS if source is CHATS else None, held_out=0.5)
    people.save(tmp_path / "s")
    store = open_store(tmp_path / "s")
    everybody = np.arange(len(people))
    np.testing.assert_array_equal(store.gather(everybody).items, people.gather(everybody).items)
    np.testing.assert_array_equal(all_names(store), all_names(people))
    np.testing.assert_array_equal(store.held_out_users(), people.held_out_users())
    assert store.store_id == people.store_id
    assert store.vocabulary == people.vocabulary


def test_the_words_of_another_vocabulary_keep_their_ids() -> None:
    people = users(CHATS, vocabulary=WORDS)
    assert users(CHATS, vocabulary=people.words).vocabulary == people.vocabulary


TEXT = {"vocabulary": WORDS}
ROWS = {**TEXT, "user": "u", "text": "t"}


@pytest.mark.parametrize(
    ("source", "given", "sentence"),
    [
        ({}, TEXT, "Expected at least one user, got none."),
        ([], ROWS, "Expected at least one user, got none."),
        ({"": ["see"]}, TEXT, "The mapping, user 1: the user id is empty."),
        ({"a": [], 1.5: ["see"]}, TEXT, "user 2: expected a user id that is a string or a whole number, got float."),
        ({True: ["see"]}, TEXT, "The mapping, user 1: expected a user id that is a string or a whole number, got bool."),
        ({1: ["see"], "1": ["you"]}, TEXT, "Two ids of the mapping are the same once whole numbers are written as text."),
        ({"a": "see you"}, TEXT, "The mapping, user 1: expected a list of sentences, got str."),
        ({"a": 3}, TEXT, "The mapping, user 1: expected a list of sentences, got int."),
        ({"a": ["see", None]}, TEXT, "expected a sentence as a string or as a list of word ids, got NoneType."),
        ({"a": [b"see"]}, TEXT, "expected a sentence as a string or as a list of word ids, got bytes."),
        ({"a": [["see", "you"]]}, TEXT, "expected a sentence as a string or as a list of word ids, got list."),
        ({"a": [[[4], [5, 6]]]}, TEXT, "expected a sentence as a string or as a list of word ids, got list."),
        ({"a": [4, 5]}, TEXT, "expected a sentence as a string or as a list of word ids, got int."),
        ({"a": [[4.0]]}, TEXT, "expected a sentence as a string or as a list of word ids, got list."),
        ({"a": [[4, 10]]}, TEXT, "The mapping, user 1: expected word ids from 4 to 9, or 3 for an unknown word."),
        ({"a": [[4, 0]]}, TEXT, "The mapping, user 1: expected word ids from 4 to 9, or 3 for an unknown word."),
        ({"a": [[2**32]]}, {}, "The mapping, user 1: expected word ids from 4 to 4294967295, or 3 for an unknown word."),
        ({"a": ["see"]}, {}, "Text needs vocabulary=, a list of public words."),
        ({"a": ["see"]}, {"vocabulary": "see"}, "Expected a Vocabulary or a list of public words as vocabulary, got str."),
        ({"a": ["see"]}, {"vocabulary": {"see"}}, "Expected a Vocabulary or a list of public words as vocabulary, got set."),
        ({"a": ["see"]}, {"vocabulary": ["see", "see you"]}, "Word 2 of the vocabulary holds 2 words; expected one."),
        ({"a": ["see"]}, {"vocabulary": ["see", 3]}, "Word 2 of the vocabulary is no string but int."),
        ({"a": ["see"]}, ROWS, "user= and text= name the columns of rows, and this source is a mapping."),
        ([{"u": 1, "t": "see"}], TEXT, "Rows need user= and text=, the names of the columns"),
        ([{"u": 1}], ROWS, "The rows, row 1: there is no column 't'."),
        ([{"u": 1, "t": "see"}, {"u": "", "t": "see"}], ROWS, "The rows, row 2: the user id is empty."),
        ([{"u": None, "t": "see"}], ROWS, "row 1: expected a user id that is a string or a whole number, got NoneType."),
        ([(1, "see")], ROWS, "The rows, row 1: expected a mapping with the columns 'u' and 't', got tuple."),
        ("chat.csv", ROWS, "Expected a mapping of users or rows, got str."),
        (5, ROWS, "Expected a mapping of users or rows, got int."),
        ({"a": ["see"]}, {**TEXT, "key": b"short"}, "Expected a key of exactly 32 bytes, got 5 bytes."),
        ({"a": ["see"]}, {**TEXT, "key": "k" * 32}, "Expected a key of exactly 32 bytes, got str."),
        ({"a": ["see"]}, {**TEXT, "held_out": 1.0}, "Expected a share of held-out users from 0 to below 1, got 1."),
        ({"a": images([1])}, TEXT, "Images have no vocabulary, and one was given."),
        ({"a": images([1]), "b": ["see"]}, {}, "user 2: expected a pair of arrays (images, labels) as other users have."),
        ({"a": (np.zeros((1, 28, 28)), [1])}, {}, "user 1: expected images of 28×28 uint8, got 28×28 float64."),
        ({"a": (np.zeros((1, 32, 32), np.uint8), [1])}, {}, "user 1: expected images of 28×28 uint8, got 32×32 uint8."),
        ({"a": (images([1])[0], [1, 2])}, {}, "user 1: expected a label for each of 1 images, got the shape (2,)."),
        ({"a": (images([1])[0], [-1])}, {}, "user 1: expected whole numbers from 0 on as labels."),
        ({"a": (images([1])[0], [0.5])}, {}, "user 1: expected whole numbers from 0 on as labels."),
    ],
)  # fmt: skip
def test_each_mistake_has_its_sentence(source: Any, given: dict[str, Any], sentence: str) -> None:
    with pytest.raises(DataError) as caught:
        users(source, **given)
    assert sentence in caught.value.sentence
