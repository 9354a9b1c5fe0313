"""Rows of many users in any order, grouped by user in bounded memory.

Rows are spilled to as many files as there are partitions, by a hash of their user, and each partition is then grouped by
itself. Memory holds a buffer of rows, the row table of one partition, and some forty bytes a user; never the rows
themselves. Users come out in the order in which they first appeared, each with its rows in the order of arrival, so the
result does not depend on the number of partitions.
"""

from __future__ import annotations

import os
import shutil
import struct
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import chain
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from tacit.data.build import pseudonym
from tacit.data.flat import PSEUDONYM_BYTES
from tacit.data.ragged import offsets_of, ranges, take_slices

_ROW = np.dtype([("high", "<u8"), ("low", "<u8"), ("number", "<i8"), ("length", "<i8"), ("label", "<i4")])
_HEAD = struct.Struct("<16sqqi")  # the same row, with the user's name in one piece
_BUFFERED_BYTES = 64 << 20
_PARTITIONS = 256
# For so many users at a time it is remembered where their rows go.
_REMEMBERED = 100_000

# From a user's payloads, in order, to those that are kept: the first few of them, of which the last may be shortened.
Keep = Callable[[Iterator[bytes]], Iterator[bytes]]


@dataclass(frozen=True)
class UserBlock:
    """Some users after grouping: their rows' payloads back to back."""

    pseudonyms: NDArray[np.uint8]  # (users, 16)
    row_counts: NDArray[np.int64]  # (users,)
    payloads: NDArray[np.uint8]
    lengths: NDArray[np.int64]  # (rows,)
    labels: NDArray[np.int32]  # (rows,)


class Grouping:
    """Takes rows one by one, keeping them in files in a new folder."""

    def __init__(
        self, folder: Path, key: bytes, *, partitions: int = _PARTITIONS, buffered_bytes: int = _BUFFERED_BYTES
    ) -> None:
        """`key` makes pseudonyms of ids. Whoever has it can hash a guessed id and look for it in the store."""
        self._folder = folder
        self._folder.mkdir(mode=0o700)
        self._key = key
        self._buffered_bytes = buffered_bytes
        self._heads: list[list[bytes]] = [[] for _ in range(partitions)]
        self._payloads: list[list[bytes]] = [[] for _ in range(partitions)]
        self._places: dict[str, tuple[bytes, list[bytes], list[bytes]]] = {}
        self._buffered = 0
        self._spilled = False
        self.rows = 0

    def add(self, user: str, payload: bytes, label: int = 0) -> None:
        """Add a row."""
        name, heads, payloads = self._places.get(user) or self._place(user)
        heads.append(_HEAD.pack(name, self.rows, len(payload), label))
        payloads.append(payload)
        self.rows += 1
        self._buffered += len(payload) + 256
        if self._buffered >= self._buffered_bytes:
            self._flush()

    def _place(self, user: str) -> tuple[bytes, list[bytes], list[bytes]]:
        """The name of a user, and the lists of their partition."""
        if len(self._places) >= _REMEMBERED:
            self._places.clear()
        name = pseudonym(user.encode(), self._key)
        partition = int.from_bytes(name[:8], "little") % len(self._heads)
        self._places[user] = place = name, self._heads[partition], self._payloads[partition]
        return place

    def group(self, keep: Keep | None = None) -> Grouped:
        """Group the rows that were added. No row can be added afterwards."""
        if not self._spilled:  # few rows: one partition holds them, which saves many small files
            self._heads, self._payloads = ([list(chain.from_iterable(each))] for each in (self._heads, self._payloads))
        self._flush()
        return Grouped(self._folder, [self._group(partition, keep) for partition in range(len(self._heads))])

    def _flush(self) -> None:
        for partition, (heads, payloads) in enumerate(zip(self._heads, self._payloads, strict=True)):
            if heads:
                with open(_path(self._folder, partition, "rows"), "ab") as file:
                    file.write(b"".join(heads))
                with open(_path(self._folder, partition, "spilled"), "ab") as file:
                    file.write(b"".join(payloads))
                heads.clear()
                payloads.clear()
        self._buffered, self._spilled = 0, True

    def _group(self, partition: int, keep: Keep | None) -> _Partition:
        """Sort one partition by user and write its payloads again in that order."""
        rows_path, spilled_path = _path(self._folder, partition, "rows"), _path(self._folder, partition, "spilled")
        if not rows_path.exists():
            return _Partition.empty()
        rows = np.fromfile(rows_path, _ROW)
        starts = offsets_of(rows["length"])[:-1]
        # This sort is stable, so a user's rows stay in the order in which they came.
        order = np.lexsort((rows["low"], rows["high"]))
        rows, starts = rows[order], starts[order]
        lengths = rows["length"]
        is_first = np.ones(len(rows), bool)
        is_first[1:] = (rows["high"][1:] != rows["high"][:-1]) | (rows["low"][1:] != rows["low"][:-1])
        user_rows = np.append(np.flatnonzero(is_first), len(rows))
        spilled = _map_bytes(spilled_path)
        labels = rows["label"]
        with open(_path(self._folder, partition, "grouped"), "wb") as file:
            if keep is None:
                for start, end in spans(lengths, 16 << 20):
                    some = slice(start, end)
                    file.write(take_slices(spilled, starts[some], starts[some] + lengths[some]).data)
            else:
                counts: list[int] = []
                kept: list[int] = []
                for begin, end in zip(user_rows.tolist(), user_rows[1:].tolist(), strict=False):
                    slices = zip(starts[begin:end].tolist(), lengths[begin:end].tolist(), strict=True)
                    before = len(kept)
                    for payload in keep(spilled[start : start + length].tobytes() for start, length in slices):
                        file.write(payload)
                        kept.append(len(payload))
                    counts.append(len(kept) - before)
                row_counts, lengths = np.array(counts, np.int64), np.array(kept, np.int64)
                labels = labels[ranges(user_rows[:-1], row_counts)]
        heads = rows[user_rows[:-1]]
        names = np.stack([heads["high"], heads["low"]], axis=1).view(np.uint8)
        rows_of_user = user_rows.astype(np.int64) if keep is None else offsets_of(row_counts)
        lengths.astype(np.int64).tofile(_path(self._folder, partition, "lengths"))
        labels.astype(np.int32).tofile(_path(self._folder, partition, "labels"))
        del spilled
        rows_path.unlink()
        spilled_path.unlink()
        return _Partition(heads["number"].copy(), names, rows_of_user, offsets_of(lengths)[rows_of_user])


class Grouped:
    """Rows grouped by user, in files; they can be read several times until they are discarded."""

    def __init__(self, folder: Path, partitions: list[_Partition]) -> None:
        self._folder = folder
        self._partitions = partitions
        order = np.argsort(np.concatenate([part.first for part in partitions]))
        sizes = np.concatenate([np.diff(part.bytes_of_user) for part in partitions])
        self._sizes = sizes[order]
        # The partition of each user, and the place in it.
        self._partition = np.repeat(np.arange(len(partitions)), [len(part.first) for part in partitions])[order]
        self._member = np.concatenate([np.arange(len(part.first)) for part in partitions])[order]

    def __len__(self) -> int:
        """How many users there are."""
        return len(self._member)

    def blocks(self, *, block_bytes: int = 4 << 20) -> Iterator[UserBlock]:
        """All users in the order of their first row, in blocks of about this many bytes."""
        for start, end in spans(self._sizes, block_bytes):
            yield self._collect(self._partition[start:end], self._member[start:end])

    def discard(self) -> None:
        """Remove the files."""
        shutil.rmtree(self._folder)

    def _collect(self, partition: NDArray[np.int64], member: NDArray[np.int64]) -> UserBlock:
        users = len(member)
        names, row_counts = np.empty((users, PSEUDONYM_BYTES), np.uint8), np.empty(users, np.int64)
        pieces: list[tuple[bytes, bytes, bytes]] = [(b"", b"", b"")] * users
        order = np.argsort(partition, kind="stable")
        for begin, end in _spans_of_equal(partition[order]):
            places = order[begin:end]
            number, of_part = int(partition[places[0]]), member[places]
            part = self._partitions[number]
            names[places] = part.names[of_part]
            row_counts[places] = part.rows_of_user[of_part + 1] - part.rows_of_user[of_part]
            read = [
                _slices(_path(self._folder, number, name), offsets[of_part] * size, offsets[of_part + 1] * size)
                for name, offsets, size in (
                    ("grouped", part.bytes_of_user, 1),
                    ("lengths", part.rows_of_user, 8),
                    ("labels", part.rows_of_user, 4),
                )
            ]
            for place, *of_user in zip(places.tolist(), *read, strict=True):
                pieces[place] = (of_user[0], of_user[1], of_user[2])
        payloads, lengths, labels = (b"".join(each) for each in zip(*pieces, strict=True))
        return UserBlock(
            pseudonyms=names,
            row_counts=row_counts,
            payloads=np.frombuffer(payloads, np.uint8),
            lengths=np.frombuffer(lengths, np.int64),
            labels=np.frombuffer(labels, np.int32),
        )


@dataclass(frozen=True)
class _Partition:
    """What stays in memory of a grouped partition."""

    first: NDArray[np.int64]  # the number of the user's first row
    names: NDArray[np.uint8]  # (users, 16)
    rows_of_user: NDArray[np.int64]  # offsets
    bytes_of_user: NDArray[np.int64]  # offsets

    @classmethod
    def empty(cls) -> _Partition:
        none, zero = np.empty(0, np.int64), np.zeros(1, np.int64)
        return cls(none, np.empty((0, PSEUDONYM_BYTES), np.uint8), zero, zero)


def _path(folder: Path, partition: int, name: str) -> Path:
    return folder / f"{partition}.{name}"


def _map_bytes(path: Path) -> NDArray[np.uint8]:
    if not path.exists() or path.stat().st_size == 0:
        return np.empty(0, np.uint8)
    return np.asarray(np.memmap(path, np.uint8, "r"))


def _slices(path: Path, begins: NDArray[np.int64], ends: NDArray[np.int64]) -> list[bytes]:
    """These ranges of a file. It is read, not mapped: what a map has read counts as memory of this process."""
    file = os.open(path, os.O_RDONLY)
    try:
        found = [os.pread(file, end - begin, begin) for begin, end in zip(begins.tolist(), ends.tolist(), strict=True)]
    finally:
        os.close(file)
    if sum(map(len, found)) != int((ends - begins).sum()):
        raise OSError(f"{path} ended early")
    return found


def _spans_of_equal(sorted_values: NDArray[np.int64]) -> Iterator[tuple[int, int]]:
    """Where each value begins and ends in a sorted list that is not empty."""
    cuts = (np.flatnonzero(np.diff(sorted_values)) + 1).tolist()
    yield from zip([0, *cuts], [*cuts, len(sorted_values)], strict=True)


def spans(sizes: NDArray[np.int64], most: int) -> Iterator[tuple[int, int]]:
    """Cut a list of things with these sizes into spans of about `most` together."""
    if len(sizes):
        cuts = np.flatnonzero(np.diff((np.cumsum(sizes) - sizes) // most)) + 1
        yield from zip([0, *cuts.tolist()], [*cuts.tolist(), len(sizes)], strict=True)
