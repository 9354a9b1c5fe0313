from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tacit.data.formats import ReadOptions, read
from tacit.data.formats.npz import Fields
from tacit.errors import DataError

GOOD: dict[str, Any] = {
    "images": np.arange(3, dtype=np.uint8)[:, None, None] + np.zeros((3, 28, 28), np.uint8),
    "labels": np.array([5, 6, 7], np.uint8),
    "writers": np.array([10, 11, 10]),
}


def archive(path: Path, **arrays: Any) -> Path:
    np.savez(path, **arrays)
    return path


def test_images_with_writers(tmp_path: Path) -> None:
    rows = list(read(archive(tmp_path / "a.npz", **GOOD), ReadOptions()).rows)
    assert [(place, user, images[0, 3, 3], labels.tolist()) for place, user, images, labels in rows] == [
        (0, "10", 0, [5]),
        (1, "11", 1, [6]),
        (2, "10", 2, [7]),
    ]


def test_other_names_floats_and_dark_ink(tmp_path: Path) -> None:
    path = archive(tmp_path / "a.npz", x=np.zeros((1, 784), np.float32), y=np.array([1]), who=np.array(["ann"]))
    options = ReadOptions(fields=Fields("x", "y", "who"), ink="dark")
    ((_, user, images, _),) = read(path, options).rows
    assert (user, images.min(), images.shape) == ("ann", 255, (1, 28, 28))


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"labels": np.array([1, 2])}, "3 images and 2 labels"),
        ({"writers": np.array([1, 2])}, "3 images and 2 writers"),
        ({"writers": np.array([1.5, 2, 3])}, "writers are of type float64"),
        ({"images": np.zeros((3, 32, 32), np.uint8)}, "images are 32×32; expected 28×28"),
        ({"images": np.zeros((3, 28, 28), np.int64) + 300}, "outside 0 to 255"),
        ({"images": np.zeros((3, 28, 28), bool)}, "pixels are of type bool"),
        ({"images": np.uint8(3)}, "a single number"),
        ({"labels": np.array([0.5, 1, 2])}, "label is not a whole number"),
        ({"labels": np.array(["a", "b", {}], object)}, "not a valid npz archive"),
    ],
)
def test_bad_arrays(tmp_path: Path, change: dict[str, Any], sentence: str) -> None:
    path = archive(tmp_path / "a.npz", **{**GOOD, **change})
    with pytest.raises(DataError, match=sentence):
        list(read(path, ReadOptions()).rows)


def test_a_missing_array_and_broken_files(tmp_path: Path) -> None:
    path = archive(tmp_path / "a.npz", images=GOOD["images"], labels=GOOD["labels"])
    with pytest.raises(DataError, match="no array 'writers'; the arrays are 'images', 'labels'"):
        list(read(path, ReadOptions()).rows)
    path.write_bytes(path.read_bytes()[:500])
    with pytest.raises(DataError, match="not a valid npz"):
        list(read(path, ReadOptions()).rows)
    with open(path, "wb") as file:
        np.save(file, GOOD["images"])
    with pytest.raises(DataError, match="not a valid npz"):
        list(read(path, ReadOptions()).rows)
