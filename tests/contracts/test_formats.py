"""What the reader of every file format promises: whichever format people's examples are in, the same rows are read."""

from __future__ import annotations

import csv
import json
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tacit.data.formats import FORMATS, ReadOptions, read
from tacit.data.sources import ImageSource, TextSource
from tacit.errors import DataError
from tests.support.arrow_files import as_stream, saved
from tests.support.leaf_files import leaf_file
from tests.support.tff_files import example, sqlite_file

PEOPLE = {"ann": ["see you soon", "ünïcödé"], "7": ['a, b and "c"'], "bob": ["on", "two\nlines"]}
PAIRS = [(user, text) for user, texts in PEOPLE.items() for text in texts]
SECRET = "my password is swordfish"
NAMED = ReadOptions(user="who", text="said")
Pairs = Iterable[tuple[str, str]]


def _by_user(pairs: Pairs) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for user, text in pairs:
        found.setdefault(user, []).append(text)
    return found


def _table(pairs: Pairs) -> pa.Table:
    users, texts = zip(*pairs, strict=True)
    return pa.table({"who": users, "said": texts})


def _json_lines(path: Path, pairs: Pairs, user: str = "who", text: str = "said") -> None:
    path.write_text("".join(json.dumps({user: one, text: said}) + "\n" for one, said in pairs))


def _csv(path: Path, pairs: Pairs) -> None:
    with path.open("w", newline="") as file:
        csv.writer(file).writerows([("who", "said"), *pairs])


def _hdf5(path: Path, pairs: Pairs) -> None:
    with h5py.File(path, "w") as file:
        for user, texts in _by_user(pairs).items():
            file[f"examples/{user}/tokens"] = np.array([text.encode() for text in texts], dtype=object)


def _sqlite(path: Path, pairs: Pairs) -> None:
    sqlite_file(path, *(("train", user, example(tokens=text.encode())) for user, text in pairs))


def _leaf(path: Path, pairs: Pairs) -> None:
    leaf_file(path, {user: {"x": texts, "y": [0] * len(texts)} for user, texts in _by_user(pairs).items()})


# By format: the name of a file, how to write people's texts into it, and what its reader must be told.
TEXTS: dict[str, tuple[str, Callable[[Path, Pairs], object], ReadOptions]] = {
    "jsonl": ("a.jsonl", _json_lines, NAMED),
    "json": (
        "a.json",
        lambda path, pairs: path.write_text(json.dumps([{"who": u, "said": t} for u, t in pairs])),
        NAMED,
    ),
    "csv": ("a.csv", _csv, NAMED),
    "parquet": ("a.parquet", lambda path, pairs: pq.write_table(_table(pairs), path), NAMED),
    "arrow": ("a.arrow", lambda path, pairs: as_stream(path, _table(pairs)), NAMED),
    "datasets": ("folder", lambda path, pairs: saved(path, _table(pairs)), NAMED),
    "reddit": ("a.jsonl", lambda path, pairs: _json_lines(path, pairs, "author", "body"), ReadOptions(format="reddit")),
    "tff-hdf5": ("a.h5", _hdf5, ReadOptions()),
    "tff-sqlite": ("a.sqlite", _sqlite, ReadOptions()),
    "leaf": ("a.json", _leaf, ReadOptions()),
}


def _drawings() -> np.ndarray:
    """Three images that differ, ink bright."""
    return np.random.default_rng(0).integers(0, 2, (3, 28, 28)).astype(np.float32)


def _image_hdf5(path: Path) -> None:
    with h5py.File(path, "w") as file:
        for user, chosen in (("ann", [0, 2]), ("bob", [1])):
            file[f"examples/{user}/pixels"] = 1 - _drawings()[chosen]  # dark ink on white
            file[f"examples/{user}/label"] = np.array(chosen, np.int32)


def _image_sqlite(path: Path) -> None:
    dark = 1 - _drawings()
    owners = ((0, "ann"), (2, "ann"), (1, "bob"))
    sqlite_file(path, *(("train", user, example(pixels=dark[i].ravel().tolist(), label=[i])) for i, user in owners))


def _image_leaf(path: Path) -> None:
    flat = (1 - _drawings()).reshape(3, -1).tolist()
    leaf_file(path, {"ann": {"x": [flat[0], flat[2]], "y": [0, 2]}, "bob": {"x": [flat[1]], "y": [1]}})


def _npz(path: Path) -> None:
    order = [0, 2, 1]
    bright = (255 * _drawings()[order]).astype(np.uint8)
    np.savez(path, images=bright, labels=np.array(order), writers=np.array(["ann", "ann", "bob"]))


IMAGES: dict[str, tuple[str, Callable[[Path], None]]] = {
    "tff-hdf5": ("a.h5", _image_hdf5),
    "tff-sqlite": ("a.sqlite", _image_sqlite),
    "leaf": ("a.json", _image_leaf),
    "npz": ("a.npz", _npz),
}


@pytest.mark.parametrize("format", TEXTS)
class TestTextFormats:
    """One suite for all of them."""

    def written(self, format: str, folder: Path, pairs: Pairs = PAIRS) -> tuple[Path, ReadOptions]:
        name, write, options = TEXTS[format]
        write(folder / name, list(pairs))
        return folder / name, options

    def test_the_rows_are_those_that_were_written(self, format: str, tmp_path: Path) -> None:
        """Every user's texts in their order, whatever is in them."""
        source = read(*self.written(format, tmp_path))
        assert isinstance(source, TextSource)
        assert source.format == format
        rows = list(source.rows)
        assert _by_user((user, text) for _, user, text in rows) == PEOPLE
        assert source.skipped == {}

    def test_places_count_up_in_a_stated_unit(self, format: str, tmp_path: Path) -> None:
        source: Any = read(*self.written(format, tmp_path))
        places = [place for place, *_ in source.rows]
        assert source.unit
        assert all(type(place) is int for place in places)
        assert places == sorted(places)
        assert places[0] >= 0

    def test_a_damaged_file_is_one_sentence_that_quotes_nobody(self, format: str, tmp_path: Path) -> None:
        """Cut off anywhere, it is refused, or its rows are some of those that were written."""
        pairs = [("ann", SECRET), *PAIRS]
        path, options = self.written(format, tmp_path, pairs)
        file = path if path.is_file() else next(path.glob("*.arrow"))
        whole, sentences = file.read_bytes(), []
        for share in (0.1, 0.4, 0.7, 0.95):
            file.write_bytes(whole[: int(len(whole) * share)])
            try:
                assert len(list(read(path, options).rows)) < len(pairs)
            except DataError as error:
                sentences.append(error.sentence)
        assert sentences
        for sentence in sentences:
            assert sentence.endswith(".")
            assert "password" not in sentence
            assert "swordfish" not in sentence

    def test_no_file_is_one_sentence(self, format: str, tmp_path: Path) -> None:
        name, _, options = TEXTS[format]
        with pytest.raises(DataError):
            list(read(tmp_path / name, options).rows)


@pytest.mark.parametrize("format", IMAGES)
def test_images_are_those_that_were_written_with_bright_ink(format: str, tmp_path: Path) -> None:
    name, write = IMAGES[format]
    write(tmp_path / name)
    source = read(tmp_path / name, ReadOptions())
    assert isinstance(source, ImageSource)
    found = [
        (user, int(label), image)
        for _, user, images, labels in source.rows
        for image, label in zip(images, labels, strict=True)
    ]
    assert [(user, label) for user, label, _ in found] == [("ann", 0), ("ann", 2), ("bob", 1)]
    for _, label, image in found:
        assert image.dtype == np.uint8
        np.testing.assert_array_equal(image, 255 * _drawings()[label])


def test_no_format_is_forgotten() -> None:
    assert {*TEXTS, *IMAGES} == set(FORMATS)
