from __future__ import annotations

import json
import pickle
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from tacit.data.build import save_users
from tacit.data.store import Store, open_store
from tacit.data.users import Examples, Names, names_of_numbers
from tacit.data.views import Capped, Reshuffled, Subset, split_users
from tacit.data.vocabulary import PRIVATE, Vocabulary, word_list
from tacit.errors import DataError, StoreError
from tests.support.list_users import ListUsers, listed

POPULATION = [[[4, 5], [], [6]], [], [[7, 7, 7]], [[4]]]
VOCABULARY = Vocabulary(("a", "b", "c", "d"), word_list("letters"))


@pytest.fixture
def store(tmp_path: Path) -> Store:
    save_users(ListUsers(POPULATION), tmp_path / "s", source="test", vocabulary=VOCABULARY, held_out=0.5, key=bytes(32))
    return open_store(tmp_path / "s")


def test_users_come_back_in_any_order_and_as_often_as_asked(store: Store) -> None:
    assert len(store) == 4
    assert listed(store) == POPULATION
    assert listed(store, [3, 0, 0, 1]) == [POPULATION[3], POPULATION[0], POPULATION[0], []]
    assert listed(store, [1]) == [[]]
    assert listed(store, []) == []


def test_counts(store: Store) -> None:
    assert store.example_counts().tolist() == [3, 0, 1, 1]
    assert store.token_counts().tolist() == [3, 0, 3, 1]


def test_another_process_opens_the_folder_and_gets_no_text_sent(store: Store, tmp_path: Path) -> None:
    sent = pickle.dumps(store)
    assert store._items.tobytes() not in sent
    again = pickle.loads(sent)
    assert again.info == store.info
    numbers = np.arange(len(store))
    np.testing.assert_array_equal(again.gather(numbers).items, store.gather(numbers).items)
    moved = tmp_path / "moved"
    store.path.rename(moved)
    with pytest.raises(StoreError, match="There is no store"):
        pickle.loads(sent)
    moved.rename(store.path)
    info = store.path / "store.json"
    info.write_text(info.read_text().replace(store.store_id, "f" * len(store.store_id)))
    with pytest.raises(StoreError, match="is another one here than where it was opened first"):
        pickle.loads(sent)


def test_single_examples(store: Store) -> None:
    picked = store.pick(np.array([3, 0, 0]), np.array([0, 2, 1]))
    assert picked.items.tolist() == [4, 6]
    assert picked.example_offsets.tolist() == [0, 1, 2, 2]


def test_views_of_a_store_equal_views_of_lists(store: Store) -> None:
    users = ListUsers(POPULATION)
    for view, slow in ((store, users), (Subset(store, np.array([2, 1, 0])), Subset(users, np.array([2, 1, 0])))):
        # A store has names of its own, so its examples are dealt otherwise; nothing is lost and nothing new.
        dealt = [sentence for user in listed(Reshuffled(view, 3, seed=5)) for sentence in user]
        assert sorted(dealt) == sorted(sentence for user in listed(slow) for sentence in user)
    assert listed(Capped(store, tokens=2)) == listed(Capped(users, tokens=2))
    train, aside = split_users(store)
    assert listed(train) == [POPULATION[user] for user in range(4) if user not in store.held_out_users()]
    assert listed(aside) == [POPULATION[user] for user in store.held_out_users()]


def test_an_image_store(tmp_path: Path) -> None:
    users = ListUsers([[[1], [2]], [], [[3]]], images=True)
    save_users(users, tmp_path / "s", source="test", vocabulary=None)
    store = open_store(tmp_path / "s")
    gathered = store.gather(np.array([2, 1, 0]))
    assert gathered.labels is not None
    assert (gathered.labels.tolist(), gathered.labels.dtype) == ([3, 1, 2], np.int32)
    assert gathered.items[:, 5, 5].tolist() == [3, 1, 2]
    assert (gathered.items.shape, gathered.items.dtype) == ((3, 28, 28), np.uint8)
    assert gathered.user_offsets.tolist() == [0, 1, 1, 3]
    assert gathered.example_offsets.tolist() == [0, 1, 2, 3]
    assert store.pick(np.array([0]), np.array([1])).items[0, 0, 0] == 2
    dealt = Reshuffled(store, 2, seed=2).gather(np.array([0, 1])).labels
    assert dealt is not None
    assert sorted(dealt.tolist()) == [1, 2, 3]
    with pytest.raises(StoreError, match="keeps no texts"):
        store.texts(np.array([0]))


def test_a_store_without_any_user(tmp_path: Path) -> None:
    save_users(ListUsers([]), tmp_path / "s", source="test", vocabulary=VOCABULARY)
    store = open_store(tmp_path / "s")
    assert len(store) == 0
    assert listed(store) == []


def test_the_vocabulary_comes_with_its_provenance(tmp_path: Path, store: Store) -> None:
    assert store.vocabulary == VOCABULARY
    save_users(ListUsers(POPULATION), tmp_path / "p", source="test", vocabulary=Vocabulary(VOCABULARY.words, PRIVATE))
    opened = open_store(tmp_path / "p").vocabulary
    assert opened is not None
    assert not opened.is_public


def test_every_store_has_a_name_of_its_own(tmp_path: Path, store: Store) -> None:
    save_users(ListUsers(POPULATION), tmp_path / "again", source="test", vocabulary=VOCABULARY)
    assert open_store(tmp_path / "again").store_id != store.store_id
    assert len(set(store.pseudonyms(np.arange(4)))) == 4


@pytest.mark.parametrize(
    "name",
    ["items.bin", "example_offsets.bin", "user_offsets.bin", "users.bin", "vocabulary.txt", "store.json"],
)
def test_a_missing_or_shortened_file_is_noticed(store: Store, name: str) -> None:
    content = (store.path / name).read_bytes()
    (store.path / name).write_bytes(content[:-3])
    with pytest.raises(StoreError, match="damaged"):
        open_store(store.path)
    (store.path / name).unlink()
    with pytest.raises(StoreError, match=name):
        open_store(store.path)


def test_offsets_that_do_not_fit_are_noticed(store: Store) -> None:
    offsets = np.fromfile(store.path / "example_offsets.bin", np.int64)
    offsets[-1] += 1
    offsets.tofile(store.path / "example_offsets.bin")
    with pytest.raises(StoreError, match=r"example_offsets\.bin does not count to 7"):
        open_store(store.path)
    offsets[-1] -= 1
    offsets[1] = 6
    offsets.tofile(store.path / "example_offsets.bin")
    with pytest.raises(StoreError, match="not in order"):
        open_store(store.path).gather(np.arange(4))


def test_a_vocabulary_put_in_its_place_is_noticed(store: Store) -> None:
    (store.path / "vocabulary.txt").unlink()
    Vocabulary(VOCABULARY.words, word_list("other letters")).save(store.path / "vocabulary.txt")
    with pytest.raises(StoreError, match="not the vocabulary"):
        open_store(store.path)


def test_what_is_no_store_is_said_so(tmp_path: Path, store: Store) -> None:
    with pytest.raises(StoreError, match="There is no store"):
        open_store(tmp_path / "nowhere")
    with pytest.raises(StoreError, match=r"no store: it has no store\.json"):
        open_store(tmp_path)
    info = json.loads((store.path / "store.json").read_text())
    (store.path / "store.json").write_text(json.dumps({**info, "format_version": 3}))
    with pytest.raises(StoreError, match=r"another version: store\.json, format_version"):
        open_store(store.path)


def test_a_folder_that_exists_is_never_replaced(tmp_path: Path) -> None:
    (tmp_path / "s").mkdir()
    with pytest.raises(DataError, match="exists already"):
        save_users(ListUsers(POPULATION), tmp_path / "s", source="test", vocabulary=VOCABULARY)
    assert [path.name for path in tmp_path.iterdir()] == ["s"]


class Million:
    """A million users with two sentences of three words each."""

    def __len__(self) -> int:
        return 1_000_000

    def names(self, users: NDArray[np.int64]) -> Names:
        return names_of_numbers(users)

    def gather(self, users: NDArray[np.int64]) -> Examples:
        words = np.repeat(users % 4 + 4, 6).astype(np.uint16)
        return Examples(words, np.arange(0, len(words) + 1, 3), np.arange(0, 2 * len(users) + 1, 2))


def test_a_million_users_open_at_once_and_a_cohort_is_a_gather(tmp_path: Path) -> None:
    save_users(Million(), tmp_path / "s", source="test", vocabulary=VOCABULARY)
    store = open_store(tmp_path / "s")
    cohort = np.random.default_rng(0).integers(0, len(store), 1000)
    gathered = store.gather(cohort)
    assert gathered.items[::6].tolist() == (cohort % 4 + 4).tolist()
