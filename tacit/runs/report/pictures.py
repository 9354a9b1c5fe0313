"""Arrays of grey pixels as pictures of a report: a PNG needs nothing but zlib, and a grid of small images is one array."""

from __future__ import annotations

import base64
import struct
import zlib

import numpy as np
from numpy.typing import NDArray

from tacit.runs.report.blocks import Image

# Between two images of a grid, and how much larger than life they are shown.
_GAP, _GAP_SHADE, _SCALE = 1, 128, 2


def png(pixels: NDArray[np.uint8]) -> bytes:
    """A picture of grey values [rows, columns], 0 black, as a PNG file."""
    rows, columns = pixels.shape
    lines = np.concatenate([np.zeros((rows, 1), np.uint8), pixels], axis=1)  # each line begins with its filter, none
    head = struct.pack(">IIBBBBB", columns, rows, 8, 0, 0, 0, 0)
    pieces = ((b"IHDR", head), (b"IDAT", zlib.compress(lines.tobytes(), 9)), (b"IEND", b""))
    return b"\x89PNG\r\n\x1a\n" + b"".join(
        struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data)) for name, data in pieces
    )


def grid(images: NDArray[np.uint8], columns: int) -> NDArray[np.uint8]:
    """Images [n, rows, columns] side by side, line by line, with a thin line between them."""
    count, height, width = images.shape
    lines = -(-count // columns)
    step_down, step_right = height + _GAP, width + _GAP
    sheet = np.full((lines * step_down + _GAP, columns * step_right + _GAP), _GAP_SHADE, np.uint8)
    for number, image in enumerate(images):
        top, left = _GAP + number // columns * step_down, _GAP + number % columns * step_right
        sheet[top : top + height, left : left + width] = image
    return sheet


def picture(pixels: NDArray[np.uint8], description: str, caption: str = "") -> Image:
    """Grey values as a block of a report, every pixel drawn as a small square."""
    large = pixels.repeat(_SCALE, axis=0).repeat(_SCALE, axis=1)
    data = base64.b64encode(png(large)).decode("ascii")
    return Image(media="image/png", data=data, description=description, caption=caption)
