"""LEAF's JSON: ``{"users": [...], "num_samples": [...], "user_data": {user: {"x": [...], "y": [...]}}}``.

An x is a text (Shakespeare), a list of strings of which one is the text (Sent140: number 4), lists of tokens (Reddit), or
784 pixels (FEMNIST, dark ink on white) with its class as y. Files are read user by user, never as a whole.
"""

from __future__ import annotations

import codecs
import json
from collections.abc import Iterator
from itertools import chain
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from tacit.data.formats.files import open_bytes
from tacit.data.formats.pixels import to_bytes, to_labels
from tacit.data.sources import ImageSource, Source, TextSource
from tacit.errors import DataError

_MARKERS = frozenset({"<PAD>", "<BOS>", "<EOS>"})
_CHUNK = 1 << 20
_MOST_VALUE = 256 << 20
_HINT = "A file with a JSON object a line is read with --format jsonl."


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
        reader = _Reader(stream, path)
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
                    reader.comma()
                reader.expect("}")
            else:
                reader.value()
            reader.comma()


class _Reader:
    """A JSON text read value by value; memory holds one value and a chunk of the file."""

    def __init__(self, stream: IO[bytes], path: Path) -> None:
        self._stream = stream
        self._path = path
        self._decoder = json.JSONDecoder()
        self._text = ""
        self._at = 0
        self._utf8 = codecs.getincrementaldecoder("utf-8")()

    def at(self, character: str) -> bool:
        """Whether this character comes next."""
        self._skip_blanks()
        return self._text[self._at] == character

    def expect(self, character: str) -> None:
        """Pass over this character."""
        if not self.at(character):
            raise self._damaged()
        self._at += 1

    def comma(self) -> None:
        """Pass over a comma, unless the object ends here."""
        if not self.at("}"):
            self.expect(",")

    def value(self) -> Any:
        """Pass over a value and return it."""
        self._skip_blanks()
        wanted = _CHUNK
        while True:
            try:
                value, end = self._decoder.raw_decode(self._text, self._at)
            except (ValueError, RecursionError):
                value, end = None, len(self._text)
            # At the very end of what was read, a number might go on.
            if end < len(self._text):
                self._at = end
                return value
            if not self._more(wanted):
                raise self._damaged()
            wanted *= 2

    def _skip_blanks(self) -> None:
        while True:
            while self._at < len(self._text) and self._text[self._at] in " \t\r\n":
                self._at += 1
            if self._at < len(self._text):
                return
            if not self._more(_CHUNK):
                raise self._damaged()

    def _more(self, wanted: int) -> bool:
        """Read on by about so many bytes, forgetting what was passed over; False at the end of the file."""
        chunk = self._stream.read(wanted)
        if not chunk:
            return False
        if len(self._text) - self._at > _MOST_VALUE:
            raise DataError(f"The file {self._path} has a value of more than {_MOST_VALUE >> 20} MiB.")
        try:
            text = self._utf8.decode(chunk)
        except UnicodeDecodeError:
            raise DataError(f"The file {self._path} is not valid UTF-8.") from None
        self._text = self._text[self._at :] + text
        self._at = 0
        return True

    def _damaged(self) -> DataError:
        return DataError(f"The file {self._path} is not valid JSON in LEAF's layout.", hint=_HINT)
