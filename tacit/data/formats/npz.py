"""Images in a NumPy archive: an array of images, one of labels and one of writers."""

from __future__ import annotations

import math
import zipfile
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from tacit.data.formats.files import check_file, read_errors
from tacit.data.formats.pixels import CONVERSION, Ink, converted, to_bytes, to_labels
from tacit.data.sources import ImageSource
from tacit.data.store import IMAGE_SHAPE
from tacit.errors import DataError

_BLOCK = 4096


@dataclass(frozen=True)
class Fields:
    """The names of the arrays in the archive."""

    images: str = "images"
    labels: str = "labels"
    writers: str = "writers"


def read_npz(path: Path, fields: Fields, *, ink: Ink = "bright", convert: bool = False) -> ImageSource:
    """The images of the archive, whose arrays are read into memory. `convert` takes images of any size and colour."""
    format = f"npz, converted to {CONVERSION}" if convert else "npz"
    return ImageSource(path.name, format, "image", _rows(path, fields, ink, convert))


def _rows(
    path: Path, fields: Fields, ink: Ink, convert: bool
) -> Iterator[tuple[int, str, NDArray[np.uint8], NDArray[np.int32]]]:
    images, raw_labels, writers = _arrays(path, fields)
    labels = to_labels(raw_labels, len(images), str(path))
    if writers.shape != (len(images),):
        raise DataError(
            f"{path}: there are {len(images)} images and {writers.size} writers; expected one writer an image."
        )
    if writers.dtype.kind not in "iuUS":
        raise DataError(f"{path}: the writers are of type {writers.dtype}; expected integers or strings.")
    names = writers.astype(str).tolist()
    # A block of large images takes the memory of one of small images.
    together = max(1, _BLOCK * math.prod(IMAGE_SHAPE) // max(1, math.prod(images.shape[1:])))
    for start in range(0, len(images), together):
        some = images[start : start + together]
        block = converted(some, str(path), ink=ink) if convert else to_bytes(some, str(path), ink=ink)
        for i, image in enumerate(block, start):
            yield i, names[i], image[np.newaxis], labels[i : i + 1]


def _arrays(path: Path, fields: Fields) -> tuple[NDArray, NDArray, NDArray]:
    check_file(path)
    with read_errors(path):
        try:
            # Asked first whether it is an archive at all, since `np.load` takes other files too.
            with open(path, "rb") as file, zipfile.ZipFile(file):
                file.seek(0)
                archive = np.load(file, allow_pickle=False)
                for name in (fields.images, fields.labels, fields.writers):
                    if name not in archive:
                        there = ", ".join(repr(name) for name in archive.files)
                        raise DataError(f"{path} has no array {name!r}; the arrays are {there}.")
                images, labels, writers = (archive[name] for name in (fields.images, fields.labels, fields.writers))
        except (ValueError, zipfile.BadZipFile, zlib.error, EOFError):
            raise DataError(f"The file {path} is not a valid npz archive of plain arrays.") from None
    if images.ndim == 0:
        raise DataError(f"{path}: the array {fields.images!r} is a single number; expected images.")
    return images, labels, writers
