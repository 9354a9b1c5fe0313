from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tacit.data.formats import ReadOptions, read
from tacit.data.formats.pixels import converted, to_bytes
from tacit.errors import DataError

RNG = np.random.default_rng(0)


def test_a_plain_image_stays_as_it_is() -> None:
    plain = RNG.integers(0, 256, (2, 28, 28), np.uint8)
    for ink in ("bright", "dark"):
        np.testing.assert_array_equal(converted(plain, "x", ink=ink), to_bytes(plain, "x", ink=ink))


def test_twice_the_size_is_the_mean_of_four_pixels() -> None:
    large = RNG.integers(0, 256, (3, 56, 56), np.uint8)
    means = large.reshape(3, 28, 2, 28, 2).mean(axis=(2, 4))
    np.testing.assert_array_equal(converted(large, "x", ink="bright"), np.rint(means).astype(np.uint8))
    np.testing.assert_array_equal(converted(large, "x", ink="dark"), np.rint(255 - means).astype(np.uint8))


def test_half_the_size_is_repeated() -> None:
    small = RNG.random((2, 14, 14))
    expected = np.rint(small.repeat(2, axis=1).repeat(2, axis=2) * 255).astype(np.uint8)
    np.testing.assert_array_equal(converted(small, "x", ink="bright"), expected)


@pytest.mark.parametrize(("ink", "value"), [("bright", 1.0), ("dark", 0.0)])
def test_a_wide_image_is_centred_on_the_background(ink: Any, value: float) -> None:
    found = converted(np.full((1, 10, 40), value), "x", ink=ink)[0]
    rows = np.flatnonzero(found.any(axis=1))
    assert rows.tolist() == list(range(10, 17))  # 7 of 28 rows, in the middle
    assert (found[10:17] == 255).all()


def test_colours_become_grey_and_alpha_shows_the_background() -> None:
    red = np.zeros((1, 32, 32, 3), np.uint8)
    red[..., 0] = 255
    assert set(converted(red, "x", ink="bright").ravel().tolist()) == {76}  # 0.299 · 255
    np.testing.assert_array_equal(
        converted(np.moveaxis(red, 3, 1), "x", ink="bright"), converted(red, "x", ink="bright")
    )
    seen = np.concatenate([red, np.full((1, 32, 32, 1), 0, np.uint8)], axis=3)
    assert converted(seen, "x", ink="bright").max() == 0
    assert converted(seen, "x", ink="dark").max() == 0
    grey = np.full((1, 28, 28, 3), 100, np.uint8)
    assert set(converted(grey, "x", ink="bright").ravel().tolist()) == {100}


@pytest.mark.parametrize(
    ("images", "sentence"),
    [
        (np.zeros((1, 32, 32, 2), np.uint8), "mine: the images are 32×32×2; expected height × width"),
        (np.zeros((1, 3072), np.uint8), "the images are 3072; expected height × width"),
        (np.zeros((1, 0, 5), np.uint8), "the images are 0×5; expected height × width"),
        (np.zeros((1, 1, 5000), np.uint8), "1×5000; expected at most 4096 pixels a side"),
        (np.zeros((1, 32, 32), bool), "pixels are of type bool"),
        (np.full((1, 32, 32), 1.5), "a pixel is outside 0 to 1"),
        (np.full((1, 32, 32), np.nan), "a pixel is outside 0 to 1"),
        (np.full((1, 32, 32), 256), "a pixel is outside 0 to 255"),
    ],
)
def test_what_cannot_be_converted(images: Any, sentence: str) -> None:
    with pytest.raises(DataError, match=sentence) as caught:
        converted(images, "mine", ink="bright")
    assert ("floats from 0 to 1" in str(caught.value.hint)) == ("outside" in sentence)


def test_conversion_is_asked_for_and_recorded(tmp_path: Path) -> None:
    path = tmp_path / "cifar.npz"
    np.savez(path, images=np.zeros((3, 32, 32, 3), np.uint8), labels=np.arange(3), writers=np.arange(3))
    with pytest.raises(DataError, match=r"cifar\.npz: the images are 32×32×3; expected 28×28") as caught:
        list(read(path, ReadOptions()).rows)
    assert "--convert-images" in str(caught.value.hint)
    source = read(path, ReadOptions(convert_images=True))
    assert [images.shape for _, _, images, _ in source.rows] == [(1, 28, 28)] * 3
    assert source.format.startswith("npz, converted to 28×28 grey")
