"""Rows of many users in any order, grouped by user in bounded memory.

Rows are spilled to a file in runs. A run is sorted by partition, which is a hash of the user, and each partition is then
grouped by itself. Memory holds a run twice, the row table of one partition, and some fifty bytes a user; never all rows.
Users come out in the order in which they first appeared, each with its rows in the order of arrival, so the result does not
depend on the number of partitions.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from tacit.data.build import pseudonym
from tacit.data.ragged import offsets_of, ranges, take_slices

_ROW = np.dtype([("high", "<u8"), ("low", "<u8"), ("number", "<i8"), ("length", "<i8"), ("label", "<i4")])
_BUFFERED_BYTES = 32 << 20
_PARTITIONS = 256
_ROWS, _SPILLED = "rows", "spilled"
_GROUPED = _PAYLOADS, _LENGTHS, _LABELS = "payloads", "lengths", "labels"
# The names of so many users at a time are remembered.
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
    """Takes rows, many at a time, and keeps them in files in a new folder."""

    def __init__(
        self, folder: Path, key: bytes, *, partitions: int = _PARTITIONS, buffered_bytes: int = _BUFFERED_BYTES
    ) -> None:
        """`key` makes pseudonyms of ids. Whoever has it can hash a guessed id and look for it in the store."""
        self._folder = folder
        self._folder.mkdir(mode=0o700)
        self._key = key
        self._partitions = partitions
        self._buffered_bytes = buffered_bytes
        self._heads: list[NDArray[np.void]] = []
        self._payloads: list[bytes] = []
        self._names: dict[str, bytes] = {}
        self._buffered = 0
        self._runs: list[_Run] = []
        self.rows = 0

    def add(self, users: Sequence[str], payloads: Sequence[bytes], labels: Sequence[int] | None = None) -> None:
        """Add rows: the user, the payload and the label of each. The label is 0 where none are given."""
        names = self._names
        found = b"".join([names.get(user) or self._name(user) for user in users])
        heads = np.zeros(len(users), _ROW)
        heads["high"], heads["low"] = np.frombuffer(found, "<u8").reshape(-1, 2).T
        heads["number"] = self.rows + np.arange(len(users))
        heads["length"] = np.fromiter(map(len, payloads), np.int64, len(users))
        if labels is not None:
            heads["label"] = labels
        self._heads.append(heads)
        self._payloads.append(b"".join(payloads))
        self.rows += len(users)
        self._buffered += heads.nbytes + len(self._payloads[-1])
        if self._buffered >= self._buffered_bytes:
            self._flush()

    def _name(self, user: str) -> bytes:
        if len(self._names) >= _REMEMBERED:
            self._names.clear()
        self._names[user] = name = pseudonym(user.encode(), self._key)
        return name

    def group(self, keep: Keep | None = None) -> Grouped:
        """Group the rows that were added. No row can be added afterwards."""
        if not self._runs:  # few rows: one partition holds them
            self._partitions = 1
        self._flush()
        with ExitStack() as files:
            payloads, lengths, labels = (files.enter_context(open(self._folder / name, "xb")) for name in _GROUPED)
            into = _Output(payloads, lengths, labels)
            for partition in range(self._partitions):
                self._group(partition, keep, into)
        for name in (_ROWS, _SPILLED):
            (self._folder / name).unlink()
        return Grouped(self._folder, into)

    def _flush(self) -> None:
        """Append the buffered rows to the files, sorted by partition; those of a partition stay in order."""
        if self._heads:
            heads = np.concatenate(self._heads)
            payloads = np.frombuffer(b"".join(self._payloads), np.uint8)
            self._heads, self._payloads, self._buffered = [], [], 0
            starts = offsets_of(heads["length"])
            partition = (heads["high"] % np.uint64(self._partitions)).astype(np.int64)
            order = np.argsort(partition, kind="stable")
            sorted_payloads, heads = take_slices(payloads, starts[order], starts[order + 1]), heads[order]
            rows = np.searchsorted(partition[order], np.arange(self._partitions + 1))
            before = self._runs[-1] if self._runs else _Run(np.zeros(1, np.int64), np.zeros(1, np.int64))
            self._runs.append(_Run(before.rows[-1] + rows, before.bytes[-1] + offsets_of(heads["length"])[rows]))
            for name, values in ((_ROWS, heads), (_SPILLED, sorted_payloads)):
                with open(self._folder / name, "ab") as file:
                    file.write(values.data)

    def _group(self, partition: int, keep: Keep | None, into: _Output) -> None:
        """Sort one partition by user and write its payloads again in that order."""
        with open(self._folder / _ROWS, "rb") as file:
            found, places = [], []
            for run in self._runs:
                begin, end = run.rows[partition : partition + 2].tolist()
                file.seek(begin * _ROW.itemsize)
                found.append(np.fromfile(file, _ROW, end - begin))
                places.append(run.bytes[partition] + offsets_of(found[-1]["length"])[:-1])
        rows, starts = np.concatenate(found), np.concatenate(places)
        if not len(rows):
            return
        # This sort is stable, so a user's rows stay in the order in which they came.
        order = np.lexsort((rows["low"], rows["high"]))
        rows, starts = rows[order], starts[order]
        lengths, labels = rows["length"], rows["label"]
        is_first = np.ones(len(rows), bool)
        is_first[1:] = (rows["high"][1:] != rows["high"][:-1]) | (rows["low"][1:] != rows["low"][:-1])
        user_rows = np.append(np.flatnonzero(is_first), len(rows))
        row_counts = np.diff(user_rows)
        spilled = _map_bytes(self._folder / _SPILLED)
        if keep is None:
            for start, end in spans(lengths, 16 << 20):
                some = slice(start, end)
                into.payloads.write(take_slices(spilled, starts[some], starts[some] + lengths[some]).data)
        else:
            counts: list[int] = []
            kept: list[int] = []
            for begin, end in zip(user_rows.tolist(), user_rows[1:].tolist(), strict=False):
                slices = zip(starts[begin:end].tolist(), lengths[begin:end].tolist(), strict=True)
                before = len(kept)
                for payload in keep(spilled[start : start + length].tobytes() for start, length in slices):
                    into.payloads.write(payload)
                    kept.append(len(payload))
                counts.append(len(kept) - before)
            row_counts, lengths = np.array(counts, np.int64), np.array(kept, np.int64)
            labels = labels[ranges(user_rows[:-1], row_counts)]
        heads = rows[user_rows[:-1]]
        into.lengths.write(lengths.astype(np.int64).data)
        into.labels.write(labels.astype(np.int32).data)
        byte_counts = np.diff(offsets_of(lengths)[offsets_of(row_counts)])
        into.add(
            heads["number"], np.stack([heads["high"], heads["low"]], axis=1).view(np.uint8), row_counts, byte_counts
        )


class Grouped:
    """Rows grouped by user, in files; they can be read several times until they are discarded."""

    def __init__(self, folder: Path, output: _Output) -> None:
        self._folder = folder
        first, names, row_counts, byte_counts = (np.concatenate(each) for each in zip(*output.users, strict=True))
        order = np.argsort(first)
        self._names, self._row_counts, self._sizes = names[order], row_counts[order], byte_counts[order]
        self._rows, self._bytes = offsets_of(row_counts)[order], offsets_of(byte_counts)[order]

    def __len__(self) -> int:
        """How many users there are."""
        return len(self._names)

    def blocks(self, *, block_bytes: int = 4 << 20) -> Iterator[UserBlock]:
        """All users in the order of their first row, in blocks of about this many bytes."""
        for start, end in spans(self._sizes, block_bytes):
            some = slice(start, end)
            rows, counts = self._rows[some], self._row_counts[some]
            yield UserBlock(
                pseudonyms=self._names[some],
                row_counts=counts,
                payloads=np.frombuffer(self._read(_PAYLOADS, self._bytes[some], self._sizes[some]), np.uint8),
                lengths=np.frombuffer(self._read(_LENGTHS, rows * 8, counts * 8), np.int64),
                labels=np.frombuffer(self._read(_LABELS, rows * 4, counts * 4), np.int32),
            )

    def discard(self) -> None:
        """Remove the files."""
        shutil.rmtree(self._folder)

    def _read(self, name: str, begins: NDArray[np.int64], sizes: NDArray[np.int64]) -> bytes:
        """These ranges of a file. It is read, not mapped: what a map has read counts as memory of this process."""
        file = os.open(self._folder / name, os.O_RDONLY)
        try:
            found = b"".join([os.pread(file, *each) for each in zip(sizes.tolist(), begins.tolist(), strict=True)])
        finally:
            os.close(file)
        if len(found) != int(sizes.sum()):
            raise OSError(f"{self._folder / name} ended early")
        return found


@dataclass(frozen=True)
class _Run:
    """Where the rows of each partition, and their payloads, begin and end in the files, of rows written at one time."""

    rows: NDArray[np.int64]  # (partitions + 1,)
    bytes: NDArray[np.int64]  # (partitions + 1,)


@dataclass(frozen=True)
class _Output:
    """The files of grouped rows, and what stays in memory: of each user the first row, the name, how many rows and bytes."""

    payloads: IO[bytes]
    lengths: IO[bytes]
    labels: IO[bytes]
    users: list[tuple[NDArray[Any], ...]] = field(default_factory=list)

    def add(self, *of_users: NDArray[Any]) -> None:
        self.users.append(tuple(np.ascontiguousarray(each) for each in of_users))


def _map_bytes(path: Path) -> NDArray[np.uint8]:
    if not path.exists() or path.stat().st_size == 0:
        return np.empty(0, np.uint8)
    return np.asarray(np.memmap(path, np.uint8, "r"))


def spans(sizes: NDArray[np.int64], most: int) -> Iterator[tuple[int, int]]:
    """Cut a list of things with these sizes into spans of about `most` together."""
    if len(sizes):
        cuts = np.flatnonzero(np.diff((np.cumsum(sizes) - sizes) // most)) + 1
        yield from zip([0, *cuts.tolist()], [*cuts.tolist(), len(sizes)], strict=True)
