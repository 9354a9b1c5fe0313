"""A store in shards gives what the store gave that was cut, refuses what is not here, and is cut by names alone."""

from __future__ import annotations

import pickle
import shutil
from pathlib import Path

import numpy as np
import pytest

import tacit
from tacit.data.build import save_users
from tacit.data.sharded import ShardedStore, shard_of, sharded
from tacit.data.sharding import cut_into_shards
from tacit.data.store import Store, open_store
from tacit.data.users import all_names
from tacit.data.views import Capped, Subset, split_users
from tacit.errors import DataError, StoreError
from tests.support.chats import chat, write_chat
from tests.support.list_users import ListUsers, listed

SHARDS = 3


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Store:
    return write_chat(tmp_path_factory.mktemp("chat") / "whole")


@pytest.fixture(scope="module")
def cut(whole: Store) -> ShardedStore:
    """Not to be changed."""
    return cut_into_shards(whole, whole.path.parent / "cut", SHARDS)


@pytest.fixture
def copied(cut: ShardedStore, tmp_path: Path) -> Path:
    """A copy of the folder, as another machine may have it."""
    return Path(shutil.copytree(cut.path, tmp_path / "copied"))


def someone_in(store: ShardedStore, shard: int) -> np.ndarray:
    return np.flatnonzero(store.shards_of(np.arange(len(store))) == shard)[:1]


def test_everything_is_as_in_the_store_that_was_cut(whole: Store, cut: ShardedStore) -> None:
    assert (cut.store_id, len(cut), cut.info.shards) == (whole.store_id, len(whole), SHARDS)
    assert listed(cut) == listed(whole)
    assert listed(cut, [70, 3, 3, 11]) == listed(whole, [70, 3, 3, 11])
    assert listed(cut, []) == []
    np.testing.assert_array_equal(all_names(cut), all_names(whole))
    np.testing.assert_array_equal(cut.held_out_users(), whole.held_out_users())
    np.testing.assert_array_equal(cut.example_counts(), whole.example_counts())
    for some in (None, np.array([4, 1])):
        np.testing.assert_array_equal(cut.token_counts(some), whole.token_counts(some))
    users = np.array([9, 2, 60])
    for one, other in (
        (cut.texts(users), whole.texts(users)),
        (cut.pick(users, np.array([1, 0, 0])), whole.pick(users, np.array([1, 0, 0]))),
    ):
        assert one.items.tobytes() == other.items.tobytes()
        np.testing.assert_array_equal(one.user_offsets, other.user_offsets)


def test_each_trained_user_is_in_one_shard_and_the_held_out_are_in_none(cut: ShardedStore) -> None:
    folders = [open_store(cut.path / f"shard-{shard}") for shard in range(SHARDS)]
    names = [tuple(name) for folder in folders for name in all_names(folder).tolist()]
    train, held_out = split_users(cut)
    assert sorted(names) == sorted(map(tuple, all_names(train).tolist()))
    apart = open_store(cut.path / "shard-held-out")
    assert all_names(apart).tolist() == all_names(held_out).tolist()
    assert cut.trained() == [0, 1, 2]
    assert min(map(len, folders)) > 10  # of about 60 in three


def test_a_user_s_shard_depends_on_their_name_alone(whole: Store, cut: ShardedStore, tmp_path: Path) -> None:
    """Without one of the people everybody else is where they were, byte for byte in all shards but one."""
    people = chat()
    gone = list(people)[7]
    without = cut_into_shards(
        write_chat(tmp_path / "without", {name: wrote for name, wrote in people.items() if name != gone}),
        tmp_path / "cut",
        SHARDS,
    )
    before = dict(zip(map(tuple, all_names(cut).tolist()), cut.shards_of(np.arange(len(cut))), strict=True))
    after = dict(zip(map(tuple, all_names(without).tolist()), without.shards_of(np.arange(len(without))), strict=True))
    assert after.items() <= before.items()
    assert len(before) == len(after) + 1
    changed = [
        name
        for name in ("shard-0", "shard-1", "shard-2", "shard-held-out")
        if (cut.path / name / "items.bin").read_bytes() != (without.path / name / "items.bin").read_bytes()
    ]
    assert len(changed) == 1


def test_shards_get_equal_shares_whoever_is_held_out() -> None:
    names = np.random.default_rng(1).integers(0, 2**64, (30_000, 2), np.uint64)
    found = np.bincount(shard_of(names, 4, 0.2))
    assert len(found) == 5
    np.testing.assert_allclose(found / 30_000, [0.2] * 5, atol=0.01)
    assert shard_of(np.array([[2**64 - 1, 2**64 - 1], [0, 2**64 - 1]], np.uint64), 7, 0.0).tolist() == [6, 0]


def test_whose_shard_is_not_here_is_refused_and_the_others_are_read(cut: ShardedStore, copied: Path) -> None:
    shutil.rmtree(copied / "shard-1")
    there = open_store(copied)
    assert isinstance(there, ShardedStore)
    assert there.here() == {0, 2}
    assert listed(there, someone_in(cut, 2).tolist()) == listed(cut, someone_in(cut, 2).tolist())
    for refused in (there.gather, lambda one: there.pick(one, np.zeros(1, int)), there.texts):
        with pytest.raises(StoreError, match=r"lies in shards, and shard-1 is not on this machine\."):
            refused(someone_in(cut, 1))
    with pytest.raises(StoreError, match="shard-1 is not on this machine"):
        there.require_here()
    # What does not need the text is known of everybody.
    assert there.token_counts(someone_in(cut, 1)).tolist() == cut.token_counts(someone_in(cut, 1)).tolist()


@pytest.mark.parametrize("what", ["another shard", "another store", "other people", "fewer words", "cut short"])
def test_a_folder_that_is_not_the_shard_is_refused(cut: ShardedStore, copied: Path, what: str) -> None:
    place, expected = copied / "shard-1", "is no shard of the store"
    if what == "another shard":
        shutil.rmtree(place)
        shutil.copytree(copied / "shard-0", place)
    elif what == "another store":
        info = (place / "store.json").read_text()
        (place / "store.json").write_text(info.replace(cut.store_id, "0" * 32))
    elif what == "other people":
        names = (place / "users.bin").read_bytes()
        (place / "users.bin").write_bytes(bytes([names[0] ^ 1]) + names[1:])
    elif what == "fewer words":
        old = open_store(place)
        shorter = Capped(old, tokens=5)
        save_users(
            shorter, copied / "new", source="", vocabulary=old.vocabulary, keep_names=True, store_id=cut.store_id
        )
        shutil.rmtree(place)
        (copied / "new").rename(place)
    else:
        (place / "items.bin").write_bytes((place / "items.bin").read_bytes()[:-1])
        expected = "is damaged: items.bin"
    with pytest.raises(StoreError, match=expected):
        open_store(copied).gather(someone_in(cut, 1))
    with pytest.raises(StoreError, match=expected):
        open_store(copied).here()  # type: ignore[attr-defined]


def test_another_process_opens_the_folder_where_it_stands(cut: ShardedStore) -> None:
    sent = pickle.dumps(cut)
    assert len(sent) < 2_000
    assert listed(pickle.loads(sent)) == listed(cut)


def test_views_show_that_users_lie_in_shards(whole: Store, cut: ShardedStore) -> None:
    train, _ = split_users(cut)
    assert sharded(Capped(train, tokens=5)) is cut
    assert sharded(Subset(whole, np.arange(3))) is None
    assert sharded(tacit.KeyboardWorld(seed=1, users=5)) is None


def test_images_lie_in_shards_too(tmp_path: Path) -> None:
    pictures = ListUsers([[[number], [number + 1]][: number % 3] for number in range(9)], images=True)
    save_users(pictures, tmp_path / "store", source="drawn", vocabulary=None, held_out=0.3)
    store = open_store(tmp_path / "store")
    found = cut_into_shards(store, tmp_path / "cut", 2)
    users = np.array([8, 2, 5, 1])
    one, other = found.gather(users), store.gather(users)
    np.testing.assert_array_equal(one.items, other.items)
    np.testing.assert_array_equal(one.labels, other.labels)
    assert one.example_offsets.tolist() == other.example_offsets.tolist()


def test_a_mistake_leaves_nothing(whole: Store, cut: ShardedStore, tmp_path: Path) -> None:
    for shards in (0, 10_001):
        with pytest.raises(DataError, match=f"Expected from 1 to 10,000 shards, got {shards}"):
            cut_into_shards(whole, tmp_path / "out", shards)
    with pytest.raises(DataError, match="lies in 3 shards already"):
        cut_into_shards(cut, tmp_path / "out", 2)
    (tmp_path / "taken").mkdir()
    with pytest.raises(DataError, match="exists already"):
        cut_into_shards(whole, tmp_path / "taken", 2)
    assert [each.name for each in tmp_path.iterdir()] == ["taken"]


def test_the_list_of_runs_goes_along(whole: Store, tmp_path: Path) -> None:
    """What the people of the store have paid before is not forgotten."""
    own = Path(shutil.copytree(whole.path, tmp_path / "own"))
    (own / "odometer.jsonl").write_text("line\n")
    (own / "odometer.jsonl").chmod(0o600)
    made = cut_into_shards(open_store(own), tmp_path / "cut", 2).path / "odometer.jsonl"
    assert (made.read_text(), made.stat().st_mode & 0o777) == ("line\n", 0o600)
