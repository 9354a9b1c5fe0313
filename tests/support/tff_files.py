"""Files as TensorFlow Federated writes them: examples in SQLite."""

from __future__ import annotations

import sqlite3
import struct
from collections.abc import Sequence
from pathlib import Path


def varint(value: int) -> bytes:
    out = b""
    while value >= 0x80:
        out += bytes([value & 0x7F | 0x80])
        value >>= 7
    return out + bytes([value])


def field(number: int, content: bytes) -> bytes:
    return varint(number << 3 | 2) + varint(len(content)) + content


def example(*, packed: bool = True, **features: bytes | Sequence[float] | Sequence[int]) -> bytes:
    """A serialized tf.train.Example, written by the wire format's rules."""
    entries = b""
    for name, value in features.items():
        if isinstance(value, bytes):
            feature = field(1, field(1, value))
        elif all(isinstance(number, int) for number in value):
            numbers = [varint(int(number) % (1 << 64)) for number in value]
            feature = field(3, field(1, b"".join(numbers)) if packed else b"".join(b"\x08" + n for n in numbers))
        else:
            floats = [struct.pack("<f", number) for number in value]
            feature = field(2, field(1, b"".join(floats)) if packed else b"".join(b"\x0d" + f for f in floats))
        entries += field(1, field(1, name.encode()) + field(2, feature))
    return field(1, entries)


def sqlite_file(path: Path, *rows: tuple[str, str, bytes]) -> Path:
    with sqlite3.connect(path) as database:
        database.execute(
            "CREATE TABLE examples "
            "(split_name TEXT NOT NULL, client_id TEXT NOT NULL, serialized_example_proto BLOB NOT NULL)"
        )
        database.executemany("INSERT INTO examples VALUES (?, ?, ?)", rows)
    database.close()
    return path
