"""A parser of serialized `tf.train.Example` messages, as far as datasets use them.

The message is a map from names to lists: ``Example{1: Features{1: {1: name, 2: Feature}}}``, where a Feature holds
bytes (field 1), floats (2) or integers (3), each a list in a field 1 of its own.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

Feature = list[bytes] | NDArray[np.float32] | NDArray[np.int64]

_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5


def parse_example(message: bytes) -> dict[str, Feature]:
    """The features of one example by name. Raises ValueError for anything that is no such message."""
    features: dict[str, Feature] = {}
    try:
        for group in _submessages(memoryview(message), 1):
            for entry in _submessages(group, 1):
                fields = dict(_fields(entry))
                features[bytes(_as_bytes(fields[1])).decode()] = _feature(_as_bytes(fields.get(2, memoryview(b""))))
    except (IndexError, KeyError, struct.error, UnicodeDecodeError) as error:
        raise ValueError("not a serialized tf.train.Example") from error
    return features


def _feature(message: memoryview) -> Feature:
    for number, content in _fields(message):
        values = [value for field, value in _fields(_as_bytes(content)) if field == 1]
        if number == 1:
            return [bytes(_as_bytes(value)) for value in values]
        if number == 2:
            # Packed into one field, or four bytes each: the same bytes either way.
            return np.frombuffer(b"".join(bytes(_as_bytes(value)) for value in values), "<f4").astype(np.float32)
        if number == 3:
            return np.array([_signed(number) for value in values for number in _integers(value)], np.int64)
    return []


def _integers(value: int | memoryview) -> Iterator[int]:
    if isinstance(value, int):
        yield value
        return
    at = 0
    while at < len(value):
        number, at = _varint(value, at)
        yield number


def _signed(value: int) -> int:
    return value - (1 << 64) if value >= 1 << 63 else value


def _submessages(message: memoryview, wanted: int) -> Iterator[memoryview]:
    for number, value in _fields(message):
        if number == wanted:
            yield _as_bytes(value)


def _fields(message: memoryview) -> Iterator[tuple[int, int | memoryview]]:
    """The fields of a message: numbers of a varint as they are, everything else as bytes."""
    at = 0
    while at < len(message):
        key, at = _varint(message, at)
        kind = key & 7
        if kind == _VARINT:
            value, at = _varint(message, at)
            yield key >> 3, value
            continue
        if kind == _BYTES:
            length, at = _varint(message, at)
        elif kind in (_FIXED64, _FIXED32):
            length = 8 if kind == _FIXED64 else 4
        else:
            raise ValueError("unknown wire type")
        if at + length > len(message):
            raise ValueError("message ends too early")
        yield key >> 3, message[at : at + length]
        at += length


def _varint(message: memoryview, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = message[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, at
        shift += 7
        if shift > 63:
            raise ValueError("varint is too long")


def _as_bytes(value: int | memoryview) -> memoryview:
    if isinstance(value, int):
        raise ValueError("expected bytes, got a number")
    return value
