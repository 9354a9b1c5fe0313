from __future__ import annotations

import errno
import gzip
import json
from collections.abc import Iterator
from itertools import chain
from pathlib import Path

import numpy as np
import pytest

from tacit.data import build, folders, sources
from tacit.data.formats import ReadOptions, read
from tacit.data.grouping import Grouping
from tacit.data.importing import PrivateVocabulary, import_images, import_text
from tacit.data.sources import ImageSource, TextSource
from tacit.data.store import Caps, Store, split_texts
from tacit.data.users import OOV
from tacit.data.views import Capped, Subset, split_users
from tacit.data.vocabulary import PRIVATE, Vocabulary, count_vocabulary, word_list
from tacit.errors import DataError
from tests.support.list_users import listed

ROWS = [
    ("ann", "Hello, world!"),
    ("bob", "hello you"),
    ("ann", "***"),
    ("cat", "?!"),
    ("ann", "See you, bob"),
    ("dan", "_"),
]
VOCABULARY = Vocabulary(("hello", "you", ",", "!"), word_list("words"))


def source(rows: list[tuple[str, str]], **options: str) -> TextSource:
    return TextSource("file", options.get("format", "list"), "line", ((i, *row) for i, row in enumerate(rows, 1)))


def make(tmp_path: Path, rows: list[tuple[str, str]] = ROWS, caps: Caps | None = None) -> Store:
    return import_text([source(rows)], tmp_path / "store", vocabulary=VOCABULARY, caps=caps or Caps())


def texts(users: Store | Subset | Capped) -> list[str]:
    return split_texts(users.texts(np.arange(len(users), dtype=np.int64)))


def test_scattered_rows_become_users(tmp_path: Path) -> None:
    store = make(tmp_path)
    assert listed(store) == [[[4, 6, OOV, 7], [OOV, 5, 6, OOV]], [[4, 5]], [[OOV, 7]]]
    assert texts(store) == ["Hello, world!", "See you, bob", "hello you", "?!"]
    assert store.info.skipped == {"texts without a word": 2}
    assert store.info.sources == ("list",)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["store"]
    assert "spill" not in [path.name for path in store.path.iterdir()]


def test_a_vocabulary_can_be_counted_on_some_users_of_a_store(tmp_path: Path) -> None:
    blocks = make(tmp_path).text_blocks(np.array([1, 2]))
    counted = count_vocabulary(chain.from_iterable(blocks), size=100, provenance=PRIVATE)
    assert set(counted.words) == {"hello", "you", "?", "!"}


def test_no_raw_id_is_in_the_store(tmp_path: Path) -> None:
    store = make(tmp_path, [("somebody@example.org", "hello")])
    content = b"".join(path.read_bytes() for path in store.path.iterdir())
    assert b"somebody" not in content
    assert b"example.org" not in content


@pytest.mark.parametrize("caps", [Caps(tokens=3), Caps(tokens=4), Caps(tokens=6, examples=1), Caps(examples=1)])
def test_caps_at_import_equal_caps_as_a_view(tmp_path: Path, caps: Caps) -> None:
    capped = make(tmp_path / "capped", caps=caps)
    view = Capped(make(tmp_path / "full"), tokens=caps.tokens, examples=caps.examples)
    assert listed(capped) == listed(view)
    assert texts(capped) == texts(view)
    assert capped.info.caps == caps


def test_the_token_cap_cuts_the_text_with_the_words(tmp_path: Path) -> None:
    assert texts(make(tmp_path, caps=Caps(tokens=6))) == ["Hello, world!", "See you", "hello you", "?!"]


def test_a_private_vocabulary_leaves_the_held_out_users_out(tmp_path: Path) -> None:
    rows = [(f"u{i}", f"all word{i}") for i in range(40)]
    store = import_text(
        [source(rows)], tmp_path / "s", vocabulary=PrivateVocabulary(1000), held_out=0.3, key=b"\1" * 32
    )
    assert store.vocabulary is not None
    aside = {f"word{i}" for i in store.held_out_users()}
    assert 3 <= len(aside) <= 25
    assert set(store.vocabulary.words) == {"all", *(f"word{i}" for i in range(40))} - aside
    assert not store.vocabulary.is_public


def test_removing_a_user_moves_nobody_else_in_or_out_of_the_hold_out(tmp_path: Path) -> None:
    """The fault that this is about: a permutation of row numbers moved a dozen people when one training user left."""
    rows = [(f"user {i}", f"hello number{i}") for i in range(200)]
    key = b"\7" * 32
    everybody = import_text([source(rows)], tmp_path / "all", vocabulary=VOCABULARY, held_out=0.2, key=key)
    aside = {texts(everybody)[i] for i in everybody.held_out_users()}
    few = {texts(everybody)[i] for i in everybody.held_out_users(7)}
    assert len(few) == 7
    assert few < aside
    for gone in (0, 77, 199):
        rest = [row for number, row in enumerate(rows) if number != gone]
        store = import_text([source(rest)], tmp_path / str(gone), vocabulary=VOCABULARY, held_out=0.2, key=key)
        assert {texts(store)[i] for i in store.held_out_users()} == aside - {rows[gone][1]}
        if rows[gone][1] not in few:
            assert {texts(store)[i] for i in store.held_out_users(7)} == few


def test_about_the_share_is_held_out_and_nobody_is_both(tmp_path: Path) -> None:
    rows = [(f"user {i}", "hello") for i in range(4000)]
    store = import_text([source(rows)], tmp_path / "s", vocabulary=VOCABULARY, held_out=0.1)
    assert 300 < len(store.held_out_users()) < 500  # ten standard deviations
    train, aside = split_users(store, 50)
    assert len(aside) == 50
    # Those beyond the 50 are in neither.
    assert len(train) == 4000 - len(store.held_out_users())
    assert not set(train.members) & set(store.held_out_users())


@pytest.mark.parametrize("share", [-0.1, 1.0, 400.0, float("nan")])
def test_a_share_that_is_none(tmp_path: Path, share: float) -> None:
    with pytest.raises(DataError, match="share of held-out users from 0 to below 1"):
        import_text([source(ROWS)], tmp_path / "s", vocabulary=VOCABULARY, held_out=share)


def test_two_imports_of_the_same_rows_number_users_alike(tmp_path: Path) -> None:
    rows = [(f"user {i * 7919 % 101}", f"word{i}") for i in range(500)]
    first, second = make(tmp_path / "a", rows), make(tmp_path / "b", rows)
    assert texts(first) == texts(second)
    assert first.pseudonyms(np.arange(3)) != second.pseudonyms(np.arange(3))


def test_several_sources_share_users(tmp_path: Path) -> None:
    sources = [source([("ann", "hello")], format="csv"), source([("bob", "you"), ("ann", "you")], format="jsonl")]
    store = import_text(sources, tmp_path / "s", vocabulary=VOCABULARY)
    assert listed(store) == [[[4], [5]], [[5]]]
    assert store.info.sources == ("csv", "jsonl")


@pytest.mark.parametrize(
    ("rows", "sentence"),
    [
        (
            [("ann", "hi"), ("x" * 10_000_000, "hi")],
            "file, line 2: the user id has 10000000 bytes; expected at most 1024",
        ),
        ([("é" * (sources.MOST_USER_BYTES // 2 + 1), "hi")], "line 1: the user id has 1026 bytes"),
        ([("", "hi")], "line 1: the user id is empty"),
        ([("\ud800", "hi")], "line 1: the user id is not valid Unicode"),
        ([("ann", "hi \ud800")], "line 1: the text is not valid Unicode"),
        ([("ann", "hi\0")], "line 1: the text holds a NUL"),
        ([("ann", "hi"), ("bob", "a\0"), ("", "hi"), ("ann", "\ud800")], "line 2: the text holds a NUL"),
        ([("ann", "hi"), ("", "***"), ("", "hi"), ("bob", "a\0")], "line 3: the user id is empty"),
        ([("ann", "***")], "file holds no text with a word"),
        ([], "file holds no text with a word"),
    ],
)
def test_a_bad_row_is_one_sentence_and_leaves_nothing_behind(
    tmp_path: Path, rows: list[tuple[str, str]], sentence: str
) -> None:
    with pytest.raises(DataError, match=sentence) as caught:
        make(tmp_path, rows)
    assert len(caught.value.sentence) < 200
    assert list(tmp_path.iterdir()) == []


def test_a_bad_row_is_told_before_a_later_fault_of_its_file(tmp_path: Path) -> None:
    def rows(user: str, text: str) -> Iterator[tuple[int, str, str]]:
        yield 1, "ann", "hi"
        yield 2, user, text
        raise DataError("The file is truncated.")

    for second, sentence in (
        (("bob", "hi"), "The file is truncated"),
        (("bob", "a\0"), "line 2: the text holds a NUL"),
    ):
        with pytest.raises(DataError, match=sentence):
            import_text([TextSource("file", "list", "line", rows(*second))], tmp_path / "store", vocabulary=VOCABULARY)


def test_a_user_id_of_the_largest_size_is_taken(tmp_path: Path) -> None:
    assert len(make(tmp_path, [("é" * (sources.MOST_USER_BYTES // 2), "hi")])) == 1


@pytest.mark.parametrize("place", [(Grouping, "_flush"), (build.OffsetFile, "append"), (folders, "_sync")])
def test_a_full_disk_is_one_sentence_and_leaves_nothing_behind(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, place: tuple[object, str]
) -> None:
    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(*place, full)
    with pytest.raises(DataError, match="The disk is full"):
        make(tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_an_interrupted_import_leaves_nothing_behind(tmp_path: Path) -> None:
    def rows() -> Iterator[tuple[int, str, str]]:
        yield 1, "ann", "hello"
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        import_text([TextSource("f", "x", "line", rows())], tmp_path / "s", vocabulary=VOCABULARY)
    assert list(tmp_path.iterdir()) == []


def test_an_existing_folder_stays_as_it_is(tmp_path: Path) -> None:
    (tmp_path / "store").mkdir()
    (tmp_path / "store" / "mine").write_text("precious")
    with pytest.raises(DataError, match="exists already"):
        make(tmp_path)
    assert (tmp_path / "store" / "mine").read_text() == "precious"


def test_a_folder_that_appears_meanwhile_is_not_replaced(tmp_path: Path) -> None:
    def rows() -> Iterator[tuple[int, str, str]]:
        yield 1, "ann", "hello"
        (tmp_path / "s").mkdir()

    with pytest.raises(DataError, match="appeared while it was being made"):
        import_text([TextSource("f", "x", "line", rows())], tmp_path / "s", vocabulary=VOCABULARY)
    assert [path.name for path in tmp_path.iterdir()] == ["s"]
    assert list((tmp_path / "s").iterdir()) == []


def test_a_forbidden_place_is_one_sentence(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(DataError, match="cannot be made"):
        import_text([source(ROWS)], tmp_path / "file" / "store", vocabulary=VOCABULARY)


@pytest.mark.parametrize("size", [0, 4])
def test_a_private_vocabulary_that_cannot_be(tmp_path: Path, size: int) -> None:
    with pytest.raises(DataError, match=f"got {size}"):
        import_text([source(ROWS)], tmp_path / "s", vocabulary=PrivateVocabulary(size))
    assert list(tmp_path.iterdir()) == []


def images(*rows: tuple[str, list[int]]) -> ImageSource:
    def read() -> Iterator:
        for i, (user, labels) in enumerate(rows):
            classes = np.array(labels, np.int32)
            yield i, user, np.zeros((len(labels), 28, 28), np.uint8) + classes.astype(np.uint8)[:, None, None], classes

    return ImageSource("file", "npz", "image", read())


def test_images_with_labels(tmp_path: Path) -> None:
    store = import_images([images(("ann", [3, 1]), ("bob", [2]), ("ann", [5]))], tmp_path / "s")
    gathered = store.gather(np.array([0, 1]))
    assert gathered.labels is not None
    assert gathered.labels.tolist() == [3, 1, 5, 2]
    assert gathered.items[:, 9, 9].tolist() == [3, 1, 5, 2]
    assert store.vocabulary is None


def test_a_cap_on_images_takes_their_labels_along(tmp_path: Path) -> None:
    rows = images(("ann", [3, 1]), ("bob", [2]), ("ann", [5]))
    capped = import_images([rows], tmp_path / "s", caps=Caps(examples=2)).gather(np.array([0, 1]))
    assert capped.labels is not None
    assert capped.labels.tolist() == [3, 1, 2]
    assert capped.items[:, 9, 9].tolist() == [3, 1, 2]
    with pytest.raises(DataError, match="does not fit images"):
        import_images([images(("ann", [1]))], tmp_path / "t", caps=Caps(tokens=2))
    with pytest.raises(DataError, match="holds no image"):
        import_images([images()], tmp_path / "t")
    assert [path.name for path in tmp_path.iterdir()] == ["s"]


@pytest.mark.slow
def test_real_text(tmp_path: Path, shared_data: Path) -> None:
    path = shared_data / "stackexchange_small_en.jsonl.gz"
    options = ReadOptions(user="user", text="sentences")
    rows = read(path, options)
    assert isinstance(rows, TextSource)
    store = import_text([rows], tmp_path / "s", vocabulary=PrivateVocabulary(10_000))
    assert len(store) == 2001
    assert store.info.items == pytest.approx(1.1e6, rel=0.05)
    with gzip.open(path, "rt") as file:
        first = json.loads(next(file))
    assert split_texts(store.texts(np.array([0]))) == first["sentences"]
    assert np.mean(store.gather(np.arange(2001)).items == OOV) < 0.06


@pytest.mark.slow
def test_real_images(tmp_path: Path, shared_data: Path) -> None:
    path = shared_data / "mnist_by_writer.npz"
    rows = read(path, ReadOptions())
    assert isinstance(rows, ImageSource)
    store = import_images([rows], tmp_path / "s")
    with np.load(path) as archive:
        writer = archive["writers"] == archive["writers"][0]
        expected, labels = archive["images"][writer], archive["labels"][writer]
    gathered = store.gather(np.array([0]))
    assert len(store) == 836
    assert gathered.labels is not None
    np.testing.assert_array_equal(gathered.items, expected)
    np.testing.assert_array_equal(gathered.labels, labels)
