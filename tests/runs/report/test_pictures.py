"""Grey pixels as pictures: what is written is what a reader of PNG files sees."""

from __future__ import annotations

import base64
import io

import numpy as np
from matplotlib import image

from tacit.runs.report.pictures import grid, picture, png

RANDOM = np.random.default_rng(0)


def seen(data: bytes) -> np.ndarray:
    return np.rint(image.imread(io.BytesIO(data), format="png") * 255).astype(np.uint8)


def test_a_png_is_read_back_as_it_was() -> None:
    pixels = RANDOM.integers(0, 256, (7, 11), dtype=np.uint8)
    assert np.array_equal(seen(png(pixels)), pixels)


def test_a_grid_shows_every_image_once_in_order() -> None:
    images = RANDOM.integers(0, 256, (5, 4, 3), dtype=np.uint8)
    sheet = grid(images, 2)
    assert sheet.shape == (3 * 5 + 1, 2 * 4 + 1)
    for number, one in enumerate(images):
        top, left = 1 + number // 2 * 5, 1 + number % 2 * 4
        assert np.array_equal(sheet[top : top + 4, left : left + 3], one)
    assert (sheet[11:15, 5:8] == 128).all()  # the place of a sixth image


def test_a_picture_is_a_block_with_larger_pixels() -> None:
    pixels = RANDOM.integers(0, 256, (4, 6), dtype=np.uint8)
    block = picture(pixels, "noise", "Noise")
    assert (block.media, block.description, block.caption) == ("image/png", "noise", "Noise")
    assert np.array_equal(seen(base64.b64decode(block.data))[::2, ::2], pixels)
