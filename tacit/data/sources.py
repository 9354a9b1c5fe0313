"""What the reader of a file format returns: rows of text or of images, each with its place in the file."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from tacit.errors import DataError

MOST_USER_BYTES = 1024


@dataclass(frozen=True)
class TextSource:
    """Rows (place, user id, text) of one file, to be read once.

    `unit` says what a place counts ("line", "row"), for messages. `skipped` is filled in while the rows are read: why
    rows were left out, and how many.
    """

    name: str
    format: str
    unit: str
    rows: Iterator[tuple[int, str, str]]
    skipped: dict[str, int] = field(default_factory=dict)


@dataclass(frozen=True)
class ImageSource:
    """Rows (place, user id, images, labels) of one file: several 28×28 images of one user, ink bright (255) on black."""

    name: str
    format: str
    unit: str
    rows: Iterator[tuple[int, str, NDArray[np.uint8], NDArray[np.int32]]]
    skipped: dict[str, int] = field(default_factory=dict)


Source = TextSource | ImageSource


def skip(skipped: dict[str, int], reason: str) -> None:
    """Count one row left out for this reason."""
    skipped[reason] = skipped.get(reason, 0) + 1


def checked_user(user: str, name: str, unit: str, place: int) -> str:
    """The user's id, if it can be one; DataError otherwise, which names the place but never shows the id."""
    if not user:
        raise DataError(f"{name}, {unit} {place}: the user id is empty.")
    # A character has at most four bytes, so a short id need not be encoded to be measured.
    if len(user) * 4 > MOST_USER_BYTES:
        size = len(user.encode(errors="replace"))
        if size > MOST_USER_BYTES:
            raise DataError(
                f"{name}, {unit} {place}: the user id has {size} bytes; expected at most {MOST_USER_BYTES}."
            )
    try:
        user.encode()
    except UnicodeEncodeError:
        raise DataError(f"{name}, {unit} {place}: the user id is not valid Unicode.") from None
    return user
