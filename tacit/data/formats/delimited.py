"""Tables of text as comma- or tab-separated values under a first line that names the columns.

A value in quotes may hold delimiters, doubled quotes and line breaks. A quote that opens and does not close properly would make
the rest of the file one value. Such a line is left out and counted, and reading goes on with the line after it.
"""

from __future__ import annotations

import csv
from collections import deque
from collections.abc import Iterator
from pathlib import Path

from tacit.data.formats.columns import Columns, Record, check_columns, shown_name, table
from tacit.data.formats.files import MOST_LINE_BYTES, lines
from tacit.data.sources import TextSource, skip
from tacit.errors import DataError

STRAY_QUOTE = "lines with a stray quote"
_HINT = "With --plain-quotes a quote is a character like any other."


def read_csv(path: Path, columns: Columns, *, delimiter: str = ",", quotes: bool = True) -> TextSource:
    """The rows of the file. Without `quotes`, a quote is a character like any other, and a value ends with its line."""
    skipped: dict[str, int] = {}
    return table(path, "csv", "line", _records(path, columns, delimiter, quotes, skipped), columns, skipped)


def _records(path: Path, columns: Columns, delimiter: str, quotes: bool, skipped: dict[str, int]) -> Iterator[Record]:
    csv.field_size_limit(MOST_LINE_BYTES)
    feed = _Feed(lines(path, blank=True))
    if quotes:
        reader = csv.reader(feed, delimiter=delimiter, strict=True)
    else:
        reader = csv.reader(feed, delimiter=delimiter, strict=True, quoting=csv.QUOTE_NONE)
    header: list[str] | None = None
    while True:
        feed.mark()
        try:
            values = next(reader)
        except StopIteration:
            return
        except csv.Error as error:
            if header is not None and quotes and feed.quoted:
                skip(skipped, STRAY_QUOTE)
                feed.back_to_second_line()
                continue
            reason = "a quote does not close" if quotes and feed.quoted else str(error)
            raise DataError(f"{path}, line {feed.first} is not valid CSV: {reason}.", hint=_HINT) from None
        if not values or (header is None and not "".join(values).strip()):
            continue
        if header is None:
            header = values
            _check_header(header, columns, path, feed.first)
        elif len(values) == len(header):
            yield feed.last, dict(zip(header, values, strict=True))
        elif feed.last > feed.first:
            # A quote that opened by mistake, closed by one that opens a value some lines further on.
            skip(skipped, STRAY_QUOTE)
            feed.back_to_second_line()
        else:
            raise DataError(f"{path}, line {feed.last} has {len(values)} values; expected {len(header)}, one a column.")


def _check_header(header: list[str], columns: Columns, path: Path, line: int) -> None:
    if len(set(header)) != len(header):
        twice = next(name for name in header if header.count(name) > 1)
        raise DataError(f"{path}, line {line} names a column twice: {shown_name(twice)}.")
    check_columns(header, columns, path, f"line {line}", header=False)


class _Feed:
    """Numbered lines for the CSV reader, with their line breaks, which remembers those of the record under way."""

    def __init__(self, numbered: Iterator[tuple[int, str]]) -> None:
        self._numbered = numbered
        self._waiting: deque[tuple[int, str]] = deque()
        self._taken: list[tuple[int, str]] = []

    def __iter__(self) -> Iterator[str]:
        return self

    def __next__(self) -> str:
        number, line = self._waiting.popleft() if self._waiting else next(self._numbered)
        self._taken.append((number, line))
        return f"{line}\n"

    def mark(self) -> None:
        """The next line begins a record."""
        self._taken.clear()

    def back_to_second_line(self) -> None:
        """Give every line of the record but its first once more."""
        self._waiting.extendleft(reversed(self._taken[1:]))
        self._taken.clear()

    @property
    def quoted(self) -> bool:
        """Whether the record's first line holds a quote."""
        return bool(self._taken) and '"' in self._taken[0][1]

    @property
    def first(self) -> int:
        """The number of the record's first line."""
        return self._taken[0][0] if self._taken else 1

    @property
    def last(self) -> int:
        """The number of the record's last line."""
        return self._taken[-1][0]
