from __future__ import annotations

from pathlib import Path

import h5py
import numpy as np
import pytest

from tacit.data.formats import ReadOptions, read
from tacit.data.formats.tf_example import parse_example
from tacit.errors import DataError
from tests.support.tff_files import example, field, sqlite_file


@pytest.mark.parametrize("packed", [True, False])
def test_every_kind_of_feature(packed: bool) -> None:
    parsed = parse_example(example(packed=packed, text=b"h\xc3\xa9", numbers=[1, 300, -1], floats=[0.5, -2.0]))
    assert parsed["text"] == [b"h\xc3\xa9"]
    np.testing.assert_array_equal(parsed["numbers"], [1, 300, -1])
    np.testing.assert_array_equal(parsed["floats"], np.float32([0.5, -2.0]))


def test_an_example_without_features() -> None:
    assert parse_example(b"") == {}
    assert parse_example(field(1, field(1, field(1, b"empty")))) == {"empty": []}


@pytest.mark.parametrize("message", [b"\xff", b"\x0a\x7f", b"\x0b", b"\x08\x01", b"\x80" * 20])
def test_what_is_no_example_is_refused(message: bytes) -> None:
    with pytest.raises(ValueError, match=r".+"):
        parse_example(message)


def pixels() -> np.ndarray:
    """Dark ink in one corner, white elsewhere."""
    image = np.ones((28, 28), np.float32)
    image[0, 0], image[0, 1] = 0.0, 0.5
    return image


def test_stack_overflow_in_sqlite(tmp_path: Path) -> None:
    path = sqlite_file(
        tmp_path / "so.sqlite",
        ("train", "17", example(tokens=b"how to sort", title=b"sorting", score=[3])),
        ("test", "18", example(tokens=b"why", title=b"reasons")),
        ("train", "17", example(tokens=b"thanks")),
    )
    assert list(read(path, ReadOptions()).rows) == [(1, "17", "how to sort"), (2, "18", "why"), (3, "17", "thanks")]
    assert [row[0] for row in read(path, ReadOptions(split="train")).rows] == [1, 3]
    assert next(read(path, ReadOptions(text="title")).rows) == (1, "17", "sorting")
    with pytest.raises(DataError, match="row 3 has no feature 'title'; the features are 'tokens'"):
        list(read(path, ReadOptions(text="title")).rows)
    with pytest.raises(DataError, match="no split 'heldout'; the splits are 'test', 'train'"):
        list(read(path, ReadOptions(split="heldout")).rows)


def test_emnist_in_sqlite(tmp_path: Path) -> None:
    message = example(pixels=pixels().ravel().tolist(), label=[61])
    path = sqlite_file(tmp_path / "e.sqlite", ("train", "f0_1", message), ("train", "f0_2", message))
    ((_, user, images, labels), _) = read(path, ReadOptions()).rows
    assert user == "f0_1"
    assert (images.shape, images.dtype) == ((1, 28, 28), np.uint8)
    assert images[0, 0, :3].tolist() == [255, 127, 0]
    assert labels.tolist() == [61]


def test_broken_sqlite(tmp_path: Path) -> None:
    path = sqlite_file(tmp_path / "a.sqlite", ("train", "17", b"nonsense"))
    with pytest.raises(DataError, match="row 1 is not a serialized"):
        read(path, ReadOptions())
    with pytest.raises(DataError, match="holds no example"):
        read(sqlite_file(tmp_path / "empty.sqlite"), ReadOptions())
    (tmp_path / "b.sqlite").write_text("no database" * 1000)
    with pytest.raises(DataError, match="not an SQLite file"):
        read(tmp_path / "b.sqlite", ReadOptions())
    (tmp_path / "c.sqlite.lzma").write_bytes(b"x")
    with pytest.raises(DataError, match="still compressed"):
        read(tmp_path / "c.sqlite.lzma", ReadOptions())


def test_stack_overflow_in_hdf5(tmp_path: Path) -> None:
    with h5py.File(tmp_path / "so.h5", "w") as file:
        file["examples/17/tokens"] = np.array([b"how to sort", "thank you é".encode()], dtype=object)
        file["examples/17/score"] = np.array([1, 2])
        file["examples/18/tokens"] = np.array([b"why"], dtype=object)
    expected = [(1, "17", "how to sort"), (1, "17", "thank you é"), (2, "18", "why")]
    assert list(read(tmp_path / "so.h5", ReadOptions()).rows) == expected
    with pytest.raises(DataError, match="no feature 'body'; the features are 'score', 'tokens'"):
        list(read(tmp_path / "so.h5", ReadOptions(text="body")).rows)


def test_emnist_in_hdf5(tmp_path: Path) -> None:
    with h5py.File(tmp_path / "e.h5", "w") as file:
        file["examples/f0/pixels"] = np.stack([pixels()] * 3)
        file["examples/f0/label"] = np.array([1, 2, 3], np.int32)
    ((_, user, images, labels),) = read(tmp_path / "e.h5", ReadOptions()).rows
    assert (user, images.shape, labels.tolist()) == ("f0", (3, 28, 28), [1, 2, 3])
    assert images[2, 0, :3].tolist() == [255, 127, 0]


@pytest.mark.parametrize(
    ("images", "labels", "sentence"),
    [
        (np.ones((2, 32, 32)), [1, 2], "images are 32×32; expected 28×28"),
        (np.ones((2, 28, 28)), [1], "2 images and 1 labels"),
        (np.full((2, 28, 28), np.nan), [1, 2], "outside 0 to 1"),
        (np.full((2, 28, 28), 1.5), [1, 2], "outside 0 to 1"),
        (np.ones((2, 28, 28)), [1, -2], "label is not a whole number"),
        (np.ones((2, 28, 28)), [1.0, 2.0], "label is not a whole number"),
    ],
)
def test_bad_images(tmp_path: Path, images: np.ndarray, labels: list[float], sentence: str) -> None:
    with h5py.File(tmp_path / "e.h5", "w") as file:
        file["examples/f0/pixels"] = images
        file["examples/f0/label"] = np.array(labels)
    with pytest.raises(DataError, match=sentence):
        list(read(tmp_path / "e.h5", ReadOptions()).rows)


def test_broken_hdf5(tmp_path: Path) -> None:
    (tmp_path / "a.h5").write_bytes(b"nonsense")
    with pytest.raises(DataError, match="not a valid HDF5 file"):
        read(tmp_path / "a.h5", ReadOptions())
    with h5py.File(tmp_path / "b.h5", "w") as file:
        file["other"] = 1
    with pytest.raises(DataError, match="no group 'examples'"):
        read(tmp_path / "b.h5", ReadOptions())
    with h5py.File(tmp_path / "c.h5", "w") as file:
        file["examples/17"] = 1
    with pytest.raises(DataError, match="client 1 is no group"):
        read(tmp_path / "c.h5", ReadOptions())
