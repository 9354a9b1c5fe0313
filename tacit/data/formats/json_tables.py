"""Tables of text as JSON: an object a line, or one array of objects; and Reddit's lines as Pushshift has them."""

from __future__ import annotations

import codecs
import json
import re
from collections.abc import Iterator
from pathlib import Path

from tacit.data.formats.columns import Columns, Record, table
from tacit.data.formats.files import lines, open_bytes
from tacit.data.formats.json_stream import JsonStream
from tacit.data.sources import TextSource
from tacit.errors import DataError

_BEGINNING = 1 << 16
_LEAF = re.compile(rb'\{\s*"(users|num_samples|user_data|hierarchies)"\s*:\s*[\[{]')
_WRONG = "is not a valid JSON array of objects"


def read_json_lines(path: Path, columns: Columns, *, name: str = "jsonl") -> TextSource:
    """A JSON object a line."""
    return table(path, name, "line", _lines(path), columns)


def read_json_array(path: Path, columns: Columns) -> TextSource:
    """A file that is one array of objects, read object by object: memory holds one of them and a chunk of the file."""
    return table(path, "json", "object", _array(path), columns)


def json_kind(path: Path) -> str:
    """What the beginning of a JSON file looks like: "json" (an array), "leaf", or else "jsonl"."""
    with open_bytes(path) as stream:
        beginning = stream.read(_BEGINNING).removeprefix(codecs.BOM_UTF8).lstrip()
    if beginning.startswith(b"["):
        return "json"
    return "leaf" if _LEAF.match(beginning) else "jsonl"


def _lines(path: Path) -> Iterator[Record]:
    for number, line in lines(path):
        try:
            record = json.loads(line)
        except (ValueError, RecursionError):
            array = number == 1 and line.lstrip().startswith("[")
            hint = "One array of objects is read with --format json." if array else None
            raise DataError(f"{path}, line {number} is not valid JSON.", hint=hint) from None
        if not isinstance(record, dict):
            hint = "One array of objects is read with --format json." if isinstance(record, list) else None
            raise DataError(f"{path}, line {number} is not a JSON object.", hint=hint)
        yield number, record


def _array(path: Path) -> Iterator[Record]:
    with open_bytes(path) as stream:
        reader = JsonStream(stream, path, wrong=_WRONG, hint="A JSON object a line is read with --format jsonl.")
        if reader.ended():
            raise DataError(f"The file {path} is empty.")
        reader.expect("[")
        number = 0
        while not reader.at("]"):
            number += 1
            line = reader.line()
            record = reader.value()
            if not isinstance(record, dict):
                raise DataError(f"{path}, object {number} (line {line}) is not a JSON object.")
            yield number, record
            reader.comma("]")
        reader.expect("]")
        if not reader.ended():
            raise reader.damaged()
