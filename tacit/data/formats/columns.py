"""Tables of text with a user column: JSON lines, CSV and TSV, Parquet, and Reddit's JSON lines as Pushshift has them."""

from __future__ import annotations

import csv
import json
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tacit.data.formats.files import MOST_LINE_BYTES, check_file, lines, read_errors
from tacit.data.sources import TextSource, skip
from tacit.errors import DataError

_PARQUET_BATCH = 4096

# What may be a column's name. A file without a header line has somebody's text there, which no message may quote.
_COLUMN_NAME = re.compile(r"[A-Za-z_][\w.-]{0,31}")


@dataclass(frozen=True)
class Columns:
    """Which columns hold the user and the text. A text may be a list of texts, each an example of its own."""

    user: str
    text: str
    skip_users: frozenset[str] = frozenset()
    skip_texts: frozenset[str] = frozenset()


REDDIT = Columns("author", "body", frozenset({"[deleted]"}), frozenset({"[deleted]", "[removed]"}))


def read_json_lines(path: Path, columns: Columns, *, name: str = "jsonl") -> TextSource:
    """A JSON object a line."""
    skipped: dict[str, int] = {}
    return TextSource(path.name, name, "line", _rows(_json_records(path), columns, path, "line", skipped), skipped)


def read_csv(path: Path, columns: Columns, *, delimiter: str = ",") -> TextSource:
    """Comma- or tab-separated values under a first line that names the columns."""
    skipped: dict[str, int] = {}
    records = _csv_records(path, delimiter)
    return TextSource(path.name, "csv", "line", _rows(records, columns, path, "line", skipped), skipped)


def read_parquet(path: Path, columns: Columns) -> TextSource:
    """An Apache Parquet file, read a batch of rows at a time."""
    skipped: dict[str, int] = {}
    records = _parquet_records(path, columns)
    return TextSource(path.name, "parquet", "row", _rows(records, columns, path, "row", skipped), skipped)


def _json_records(path: Path) -> Iterator[tuple[int, dict[str, Any]]]:
    for number, line in lines(path):
        try:
            record = json.loads(line)
        except (ValueError, RecursionError):
            raise DataError(f"{path}, line {number} is not valid JSON.") from None
        if not isinstance(record, dict):
            raise DataError(f"{path}, line {number} is not a JSON object.")
        yield number, record


def _csv_records(path: Path, delimiter: str) -> Iterator[tuple[int, dict[str, Any]]]:
    csv.field_size_limit(MOST_LINE_BYTES)
    # The reader gets line breaks back, since a quoted value may span lines.
    reader = csv.reader((f"{line}\n" for _, line in lines(path, blank=True)), delimiter=delimiter, strict=True)
    try:
        header = next(values for values in reader if values)
        if len(set(header)) != len(header):
            raise DataError(f"{path}, line 1 names a column twice.")
        for values in filter(None, reader):
            if len(values) != len(header):
                raise DataError(
                    f"{path}, line {reader.line_num} has {len(values)} values; expected {len(header)}, one a column."
                )
            yield reader.line_num, dict(zip(header, values, strict=True))
    except csv.Error:
        raise DataError(f"{path}, line {reader.line_num} is not valid CSV.") from None


def _parquet_records(path: Path, columns: Columns) -> Iterator[tuple[int, dict[str, Any]]]:
    import pyarrow
    import pyarrow.parquet

    check_file(path)
    with read_errors(path):
        try:
            with pyarrow.parquet.ParquetFile(path) as file:
                _check_columns(file.schema_arrow.names, columns, path, "the table")
                number = 0
                for batch in file.iter_batches(_PARQUET_BATCH, columns=[columns.user, columns.text]):
                    for record in batch.to_pylist():
                        number += 1
                        yield number, record
        except (pyarrow.ArrowException, UnicodeDecodeError):
            raise DataError(f"The file {path} is not a valid Parquet file.") from None


def _rows(
    records: Iterable[tuple[int, dict[str, Any]]], columns: Columns, path: Path, unit: str, skipped: dict[str, int]
) -> Iterator[tuple[int, str, str]]:
    """The (place, user, text) of each record; a list of texts becomes as many rows."""
    for number, record in records:
        if columns.user not in record or columns.text not in record:
            _check_columns(list(record), columns, path, f"{unit} {number}")
        user = _user(record[columns.user], columns, path, unit, number)
        texts = record[columns.text]
        if user in columns.skip_users:
            skip(skipped, "deleted users")
            continue
        for text in (texts or [None]) if isinstance(texts, list) else [texts]:
            if text is None:
                skip(skipped, "rows without a text")
            elif not isinstance(text, str):
                raise DataError(
                    f"{path}, {unit} {number}: column {columns.text!r} is {type(text).__name__}; "
                    f"expected a string or a list of strings."
                )
            elif text in columns.skip_texts:
                skip(skipped, "deleted texts")
            else:
                yield number, user, text


def _user(user: object, columns: Columns, path: Path, unit: str, number: int) -> str:
    if isinstance(user, bool) or not isinstance(user, (str, int)):
        raise DataError(
            f"{path}, {unit} {number}: column {columns.user!r} is {type(user).__name__}; expected a string or an integer."
        )
    return str(user)


def _check_columns(there: list[str], columns: Columns, path: Path, where: str) -> None:
    for wanted, option in ((columns.user, "--user"), (columns.text, "--text")):
        if wanted not in there:
            named = ", ".join(repr(name) if _COLUMN_NAME.fullmatch(name) else "?" for name in there[:20]) or "none"
            raise DataError(
                f"{path}: {where} has no column {wanted!r}; the columns are {named}.",
                hint=f"{option} names the column.",
            )
