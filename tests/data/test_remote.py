"""A store that a URL names is copied to this machine once, whole or not at all, and is the same on every machine."""

from __future__ import annotations

import json
import pickle
import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tacit.data import remote
from tacit.data.build import save_users
from tacit.data.remote import Storage, place_of
from tacit.data.sharding import cut_into_shards
from tacit.data.store import Store, open_store
from tacit.errors import StoreError, TacitError
from tacit.runs.callbacks import Callback
from tacit.runs.odometer import runs_of
from tacit.simulation.training import resume_run, start_run
from tests.support.chats import write_chat
from tests.support.list_users import ListUsers, listed
from tests.support.tiny_recipe import tiny

fsspec = pytest.importorskip("fsspec")


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Callable[[str], Path]:
    """Go to the machine of this name: a function that returns where its copies lie. We begin on the first one."""

    def go(name: str) -> Path:
        monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / name))
        return tmp_path / name / "tacit" / "stores"

    go("first")
    return go


@pytest.fixture
def uploaded(tmp_path: Path) -> tuple[Store, str]:
    store = write_chat(tmp_path / "bucket" / "chat")
    return store, f"file://{store.path}"


def copies(where: Path) -> list[str]:
    """What is in a folder of copies, locks left out."""
    return sorted(each.name for each in where.iterdir() if not each.name.endswith(".lock")) if where.exists() else []


def test_a_store_at_a_url_is_copied_once_and_is_for_its_owner(
    machine: Callable[[str], Path], uploaded: tuple[Store, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    whole, url = uploaded
    found = open_store(url)
    assert listed(found) == listed(whole)
    assert (found.store_id, found.path) == (whole.store_id, place_of(url))
    users = np.arange(3)
    assert found.texts(users).items.tobytes() == whole.texts(users).items.tobytes()
    assert found.path.stat().st_mode & 0o777 == 0o700
    assert copies(machine("first")) == [found.path.name]

    def refused(*given: object) -> str:
        raise AssertionError("copied again")

    monkeypatch.setattr(Storage, "copy", refused)
    assert listed(open_store(url)) == listed(whole)


def test_images_and_any_kind_of_storage(machine: Callable[[str], Path], tmp_path: Path) -> None:
    save_users(ListUsers([[[1]], [[2], [3]]], images=True), tmp_path / "drawn", source="drawn", vocabulary=None)
    storage = fsspec.filesystem("memory")
    storage.put(str(tmp_path / "drawn"), "/pictures/drawn", recursive=True)
    try:
        found, drawn = open_store("memory://pictures/drawn"), open_store(tmp_path / "drawn")
        np.testing.assert_array_equal(found.gather(np.arange(2)).items, drawn.gather(np.arange(2)).items)
    finally:
        storage.rm("/pictures", recursive=True)


def test_another_machine_makes_its_own_copy(machine: Callable[[str], Path], uploaded: tuple[Store, str]) -> None:
    sent = pickle.dumps(open_store(uploaded[1]))
    assert len(sent) < 3_000  # no text travels
    there = machine("second")
    assert copies(there) == []
    assert listed(pickle.loads(sent)) == listed(uploaded[0])
    assert len(copies(there)) == 1


def test_another_machine_refuses_files_that_are_not_the_driver_s(
    machine: Callable[[str], Path], uploaded: tuple[Store, str]
) -> None:
    """The id, the counts and all sizes are the same, and one word is another."""
    whole, url = uploaded
    sent = pickle.dumps(open_store(url))
    content = bytearray((whole.path / "items.bin").read_bytes())
    content[0] = 7 if content[0] != 7 else 8
    (whole.path / "items.bin").write_bytes(content)
    machine("second")
    with pytest.raises(StoreError, match=r"is another one here than where it was opened first\."):
        pickle.loads(sent)


def test_another_store_under_the_same_url_is_refused(
    machine: Callable[[str], Path], uploaded: tuple[Store, str]
) -> None:
    """Otherwise the runs on the users of the first one would be forgotten, or counted for the second one."""
    whole, url = uploaded
    open_store(url)
    shutil.rmtree(whole.path)
    write_chat(whole.path)
    with pytest.raises(StoreError, match=r"is another one than its copy in .*, which has the list of the runs"):
        open_store(url)


def test_what_cannot_be_copied_whole_leaves_no_copy(
    machine: Callable[[str], Path], uploaded: tuple[Store, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    whole, url = uploaded
    items = (whole.path / "items.bin").read_bytes()
    (whole.path / "items.bin").write_bytes(items[:-1])
    with pytest.raises(StoreError, match=rf"^The store {url} is damaged: items\.bin has"):
        open_store(url)
    (whole.path / "items.bin").unlink()
    with pytest.raises(StoreError, match=rf"^The store {url} is damaged: it has no items\.bin\."):
        open_store(url)
    (whole.path / "items.bin").write_bytes(items)
    plain = Storage.copy

    def killed(storage: Storage, name: str, to: Path) -> str:
        if name == "users.bin":
            raise KeyboardInterrupt
        return plain(storage, name, to)

    monkeypatch.setattr(Storage, "copy", killed)
    with pytest.raises(KeyboardInterrupt):
        open_store(url)
    assert copies(machine("first")) == []
    monkeypatch.setattr(Storage, "copy", plain)
    assert listed(open_store(url)) == listed(whole)


@pytest.mark.parametrize(
    ("url", "sentence"),
    [
        ("file:///nowhere/chat", r"There is no store at file:///nowhere/chat: it has no store\.json\."),
        ("nosuch://bucket/chat", r"The store nosuch://bucket/chat cannot be read: Protocol not known: nosuch\."),
        ("s3://bucket/chat", r"The store s3://bucket/chat cannot be read: Install s3fs"),
    ],
)
def test_what_is_wrong_with_a_url_is_one_sentence(
    machine: Callable[[str], Path], url: str, sentence: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "s3fs", None)
    with pytest.raises(StoreError, match=sentence):
        open_store(url)
    assert copies(machine("first")) == []


def test_without_fsspec_it_is_told_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "fsspec", None)
    with pytest.raises(StoreError) as refused:
        open_store("s3://bucket/chat")
    assert refused.value.hint == "pip install 'tacit[remote]'"


def test_shards_lie_on_disks(machine: Callable[[str], Path], uploaded: tuple[Store, str], tmp_path: Path) -> None:
    cut_into_shards(uploaded[0], tmp_path / "cut", 2)
    with pytest.raises(StoreError, match="lies in shards: copy these to the disks"):
        open_store(f"file://{tmp_path / 'cut'}")


def test_a_damaged_copy_is_told(machine: Callable[[str], Path], uploaded: tuple[Store, str]) -> None:
    found = open_store(uploaded[1])
    (found.path / remote.ORIGIN).write_text("{}")
    with pytest.raises(StoreError, match=r"is damaged: origin\.json cannot be read"):
        pickle.dumps(found)


def recipe_of(url: str) -> Any:
    given = tiny(run={"rounds": 2}, privacy={"population": 60, "cohort": 6}).model_dump(mode="json", exclude_none=True)
    given["data"] = {"store": url, "length": 6, "tokens_per_user": 24, "held_out": 8}
    return type(tiny()).model_validate(given)


def test_a_run_on_a_url_is_listed_in_the_copy_and_goes_on_there(
    machine: Callable[[str], Path], uploaded: tuple[Store, str], tmp_path: Path
) -> None:
    """The recipe keeps the URL, so that any machine can go on with the run."""
    url = uploaded[1]
    start_run(recipe_of(url), tmp_path / "run", Callback())
    assert url in (tmp_path / "run" / "recipe.toml").read_text()
    assert len(runs_of(place_of(url))) == 1
    assert not (uploaded[0].path / "odometer.jsonl").exists()
    with pytest.raises(TacitError, match="has finished"):
        resume_run(tmp_path / "run", Callback())


def test_runs_that_were_uploaded_with_the_store_are_not_forgotten(
    machine: Callable[[str], Path], uploaded: tuple[Store, str], tmp_path: Path
) -> None:
    whole, url = uploaded
    start_run(recipe_of(str(whole.path)), tmp_path / "earlier", Callback())
    start_run(recipe_of(url), tmp_path / "run", Callback())
    assert len(runs_of(place_of(url))) == 2
    origin = json.loads((place_of(url) / remote.ORIGIN).read_text())
    assert "odometer.jsonl" not in origin["files"]
