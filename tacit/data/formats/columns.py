"""Tables of text with a user column: from records, whatever file they come from, to rows of (place, user, text)."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tacit.data.sources import TextSource, skip
from tacit.errors import DataError

# A record with its place in the file, counted from 1.
Record = tuple[int, dict[str, Any]]

# What may be a column's name. A file without a header line has somebody's text there, which no message may quote.
COLUMN_NAME = re.compile(r"[A-Za-z_][\w.-]{0,31}")
# What such columns are often called, the likeliest first.
USER_COLUMNS = ("user", "user_id", "userid", "author", "client_id", "client", "speaker", "sender", "name", "id")
TEXT_COLUMNS = ("text", "body", "message", "content", "sentence", "sentences", "comment", "tweet", "post")


@dataclass(frozen=True)
class Columns:
    """Which columns hold the user and the text. A text may be a list of texts, each an example of its own."""

    user: str
    text: str
    skip_users: frozenset[str] = frozenset()
    skip_texts: frozenset[str] = frozenset()


REDDIT = Columns("author", "body", frozenset({"[deleted]"}), frozenset({"[deleted]", "[removed]"}))


def table(
    path: Path,
    format: str,
    unit: str,
    records: Iterable[Record],
    columns: Columns,
    skipped: dict[str, int] | None = None,
) -> TextSource:
    """The records of a file as a source; `skipped` is what the reader of the records itself leaves out."""
    skipped = {} if skipped is None else skipped
    return TextSource(path.name, format, unit, _rows(records, columns, path, unit, skipped), skipped)


def check_columns(there: Sequence[str], columns: Columns, path: Path, where: str, *, header: bool = True) -> None:
    """DataError unless both columns are among these, once each; `where` says what has these columns.

    `header`: these are names for certain. The first line of a CSV file may be somebody's text instead, so its words are
    shown only if one of them is a usual name of a column.
    """
    for wanted, option in ((columns.user, "--user"), (columns.text, "--text")):
        if wanted not in there:
            if not header and not {name.strip().lower() for name in there} & {*USER_COLUMNS, *TEXT_COLUMNS}:
                hint = f"The first line of the file names its columns, and {option} is one of these names."
                if len(there) == 1 and ";" in there[0]:
                    hint = "Semicolons part this line: expected commas in a .csv file, and tabs in a .tsv file."
                raise DataError(f"{path}: {where} has no column {wanted!r} among its {len(there)}.", hint=hint)
            named = ", ".join(map(shown_name, there[:20])) or "none"
            raise DataError(
                f"{path}: {where} has no column {wanted!r}; the columns are {named}.",
                hint=f"{option} names the column.",
            )
        if (times := list(there).count(wanted)) > 1:
            raise DataError(f"{path}: {where} has {times} columns {wanted!r}; expected one.")


def shown_name(column: str) -> str:
    """The column's name as a message may show it: somebody's text instead of a name becomes a question mark."""
    return repr(column) if COLUMN_NAME.fullmatch(column) else "?"


def _rows(
    records: Iterable[Record], columns: Columns, path: Path, unit: str, skipped: dict[str, int]
) -> Iterator[tuple[int, str, str]]:
    """The (place, user, text) of each record; a list of texts becomes as many rows."""
    for number, record in records:
        if columns.user not in record or columns.text not in record:
            check_columns(list(record), columns, path, f"{unit} {number}")
        user = _user(record[columns.user], columns, path, unit, number)
        texts = record[columns.text]
        if user in columns.skip_users:
            skip(skipped, "deleted users")
            continue
        for text in (texts or [None]) if isinstance(texts, list) else [texts]:
            if text is None:
                skip(skipped, "rows without a text")
            elif not isinstance(text, str):
                inside = "holds" if isinstance(texts, list) else "is"
                raise DataError(
                    f"{path}, {unit} {number}: column {columns.text!r} {inside} {_kind(text)}; "
                    f"expected a string or a list of strings."
                )
            elif text in columns.skip_texts:
                skip(skipped, "deleted texts")
            else:
                yield number, user, text


def _user(user: object, columns: Columns, path: Path, unit: str, number: int) -> str:
    if isinstance(user, bool) or not isinstance(user, (str, int)):
        raise DataError(
            f"{path}, {unit} {number}: column {columns.user!r} is {_kind(user)}; expected a string or an integer."
        )
    return str(user)


def _kind(value: object) -> str:
    """What a value is, in the words of JSON."""
    names = {bool: "a boolean", int: "a number", float: "a number with a fraction", list: "a list", dict: "an object"}
    return "null" if value is None else names.get(type(value), f"of type {type(value).__name__}")
