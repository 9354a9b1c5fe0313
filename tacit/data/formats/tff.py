"""Stack Overflow and Federated EMNIST in the two layouts that TensorFlow Federated distributes.

HDF5: a group ``examples`` with a group a client, which holds an array a feature. SQLite: a table
``examples(split_name, client_id, serialized_example_proto)``, an example a row. Stack Overflow's text is the feature
``tokens``; EMNIST has ``pixels`` (28×28 floats, dark ink on white) and ``label``.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tacit.data.formats.files import check_file
from tacit.data.formats.pixels import to_bytes, to_labels
from tacit.data.formats.tf_example import Feature, parse_example
from tacit.data.sources import ImageSource, Source, TextSource
from tacit.data.store import IMAGE_SHAPE
from tacit.errors import DataError

_TEXT = "tokens"
_PIXELS, _LABEL = "pixels", "label"

# (place, client, features by name)
_Record = tuple[int, str, dict[str, Any]]


def read_hdf5(path: Path, *, text: str | None = None) -> Source:
    """An HDF5 file; `text` names the feature that holds text, if it is not ``tokens``."""
    return _source(path, "tff-hdf5", "client", _hdf5_records(path, text), text)


def read_sqlite(path: Path, *, text: str | None = None, split: str | None = None) -> Source:
    """An SQLite file; `split` takes only the examples of this split ("train", "heldout", "test")."""
    return _source(path, "tff-sqlite", "row", _sqlite_records(path, split), text)


def _source(path: Path, name: str, unit: str, records: Iterator[_Record], text: str | None) -> Source:
    """Images if the first record has pixels, else text."""
    first = next(records, None)
    if first is None:
        raise DataError(f"The file {path} holds no example.")
    everything = chain([first], records)
    if _PIXELS in first[2] and text is None:
        return ImageSource(path.name, name, unit, _images(everything, path, unit))
    wanted = text or _TEXT
    return TextSource(path.name, name, unit, _texts(everything, path, unit, wanted))


def _texts(records: Iterator[_Record], path: Path, unit: str, wanted: str) -> Iterator[tuple[int, str, str]]:
    for place, client, features in records:
        try:
            for value in _feature(features, wanted, path, unit, place):
                yield place, client, value.decode() if isinstance(value, bytes) else str(value)
        except UnicodeDecodeError:
            raise DataError(f"{path}, {unit} {place}: the text is not valid UTF-8.") from None


def _images(
    records: Iterator[_Record], path: Path, unit: str
) -> Iterator[tuple[int, str, NDArray[np.uint8], NDArray[np.int32]]]:
    for place, client, features in records:
        where = f"{path}, {unit} {place}"
        pixels = np.asarray(_feature(features, _PIXELS, path, unit, place))
        if pixels.ndim == 1 or pixels.shape == IMAGE_SHAPE:  # a single example, as SQLite has them
            pixels = pixels[np.newaxis]
        images = to_bytes(pixels, where, ink="dark")
        labels = np.atleast_1d(np.asarray(_feature(features, _LABEL, path, unit, place)))
        yield place, client, images, to_labels(labels, len(images), where)


def _feature(features: dict[str, Any], wanted: str, path: Path, unit: str, place: int) -> Any:
    if wanted not in features:
        there = ", ".join(repr(name) for name in sorted(features)) or "none"
        raise DataError(f"{path}, {unit} {place} has no feature {wanted!r}; the features are {there}.")
    return features[wanted]


def _hdf5_records(path: Path, text: str | None) -> Iterator[_Record]:
    try:
        import h5py
    except ImportError:
        raise DataError(f"Reading {path} needs the package h5py.", hint="pip install h5py") from None
    check_file(path)
    wanted = {_TEXT, _PIXELS, _LABEL, text}
    try:
        with h5py.File(path, "r") as file:
            if "examples" not in file:
                raise DataError(f"The file {path} has no group 'examples'; expected TensorFlow Federated's layout.")
            for place, (client, group) in enumerate(file["examples"].items(), 1):
                if not isinstance(group, h5py.Group):
                    raise DataError(f"{path}, client {place} is no group of features.")
                yield place, client, {name: group[name][()] if name in wanted else None for name in group}
    except (OSError, RuntimeError, KeyError):
        raise DataError(f"The file {path} is not a valid HDF5 file.") from None


def _sqlite_records(path: Path, split: str | None) -> Iterator[_Record]:
    check_file(path)
    if path.suffix.lower() in (".lzma", ".xz"):
        raise DataError(f"The file {path} is still compressed; expected it unpacked.", hint=f"xz --decompress {path}")
    query = "SELECT rowid, client_id, serialized_example_proto FROM examples"
    try:
        with closing(sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True)) as database:
            if split is not None:
                _check_split(database, path, split)
                rows = database.execute(f"{query} WHERE split_name = ? ORDER BY rowid", (split,))
            else:
                rows = database.execute(f"{query} ORDER BY rowid")
            for place, client, message in rows:
                yield place, str(client), dict(_parse(message, path, place))
    except sqlite3.Error as error:
        raise DataError(f"The file {path} is not an SQLite file in TensorFlow Federated's layout ({error}).") from None


def _check_split(database: sqlite3.Connection, path: Path, split: str) -> None:
    splits = sorted(str(name) for (name,) in database.execute("SELECT DISTINCT split_name FROM examples"))
    if split not in splits:
        raise DataError(f"{path} has no split {split!r}; the splits are {', '.join(map(repr, splits))}.")


def _parse(message: object, path: Path, place: int) -> dict[str, Feature]:
    try:
        if not isinstance(message, bytes):
            raise ValueError
        return parse_example(message)
    except ValueError:
        raise DataError(f"{path}, row {place} is not a serialized tf.train.Example.") from None
