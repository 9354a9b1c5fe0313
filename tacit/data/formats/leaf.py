"""LEAF's JSON: ``{"users": [...], "num_samples": [...], "user_data": {user: {"x": [...], "y": [...]}}}``.

An x is a text (Shakespeare), a list of strings of which one is the text (Sent140: number 4), lists of tokens (Reddit), or
784 pixels (FEMNIST, dark ink on white) with its class as y. Files are read user by user, never as a whole.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tacit.data.formats.files import open_bytes
from tacit.data.formats.json_stream import JsonStream
from tacit.data.formats.pixels import to_bytes, to_labels
from tacit.data.sources import ImageSource, Source, TextSource
from tacit.errors import DataError

_MARKERS = frozenset({"<PAD>", "<BOS>", "<EOS>"})
_HINT = "A file with a JSON object a line is read with --format jsonl, and an array of objects with --format json."
_WRONG = "is not valid JSON in LEAF's layout"


def read_leaf(path: Path, *, text: str | None = None) -> Source:
    """A LEAF file; `text` is the number of the text in each x, where an x is a list of several strings."""
    if text is not None and not text.isdecimal():
        raise DataError(f"Expected the number of the text within x for a LEAF file, got {text!r}.")
    users = _users(path)
    first = next(users, None)
    if first is None:
        raise DataError(f"The file {path} has no users in 'user_data'.", hint=_HINT)
    x = _list(first[2], "x", path, 1)
    everything = chain([first], users)
    if x and isinstance(x[0], list) and x[0] and isinstance(x[0][0], (int, float)):
        return ImageSource(path.name, "leaf", "user", _images(everything, path))
    return TextSource(path.name, "leaf", "user", _texts(everything, path, None if text is None else int(text)))


def _texts(users: Iterator[tuple[int, str, Any]], path: Path, index: int | None) -> Iterator[tuple[int, str, str]]:
    for place, user, data in users:
        for x in _list(data, "x", path, place):
            try:
                for text in _sentences(x if index is None else x[index]):
                    yield place, user, text
            except (TypeError, IndexError, KeyError):
                raise DataError(f"{path}, user {place}: an x is neither text nor a list of words.") from None


def _sentences(x: Any) -> Iterator[str]:
    """A string is a sentence; a list of strings are the words of one; a list of lists are several."""
    if isinstance(x, str):
        yield x
    elif x and isinstance(x[0], list):
        for inner in x:
            yield from _sentences(inner)
    else:
        yield " ".join(word for word in x if word not in _MARKERS)


def _images(
    users: Iterator[tuple[int, str, Any]], path: Path
) -> Iterator[tuple[int, str, NDArray[np.uint8], NDArray[np.int32]]]:
    for place, user, data in users:
        where = f"{path}, user {place}"
        try:
            x = np.array(_list(data, "x", path, place), np.float32)
            y = np.array(_list(data, "y", path, place))
        except (ValueError, TypeError):
            raise DataError(f"{where}: the images differ in size; expected 784 numbers each.") from None
        if len(x) == 0:
            continue
        images = to_bytes(x, where, ink="dark")
        yield place, user, images, to_labels(y, len(images), where)


def _list(data: Any, name: str, path: Path, place: int) -> list[Any]:
    values = data.get(name) if isinstance(data, dict) else None
    if not isinstance(values, list):
        raise DataError(f"{path}, user {place} has no list {name!r}.")
    return values


def _users(path: Path) -> Iterator[tuple[int, str, Any]]:
    """The entries of ``user_data``, numbered from 1, one after the other."""
    with open_bytes(path) as stream:
        reader = JsonStream(stream, path, wrong=_WRONG, hint=_HINT)
        reader.expect("{")
        while not reader.at("}"):
            key = reader.value()
            reader.expect(":")
            if key == "user_data":
                reader.expect("{")
                place = 0
                while not reader.at("}"):
                    place += 1
                    user = reader.value()
                    reader.expect(":")
                    yield place, str(user), reader.value()
                    reader.comma("}")
                reader.expect("}")
            else:
                reader.value()
            reader.comma("}")
