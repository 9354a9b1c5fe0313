"""The file formats that can be imported: which there are, which one a file is of, and how to read it.

columns.py    jsonl, csv, parquet, reddit    a table with a user column and a text column
tff.py        tff-hdf5, tff-sqlite           Stack Overflow and Federated EMNIST, as TensorFlow Federated has them
leaf.py       leaf                           LEAF's JSON, text or images
npz.py        npz                            images, labels and writers as NumPy arrays
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from tacit.data.formats.columns import REDDIT, Columns, read_csv, read_json_lines, read_parquet
from tacit.data.formats.files import bare_suffix, check_file
from tacit.data.formats.leaf import read_leaf
from tacit.data.formats.npz import Fields, read_npz
from tacit.data.formats.pixels import Ink
from tacit.data.formats.tff import read_hdf5, read_sqlite
from tacit.data.sources import Source
from tacit.errors import DataError

_SUFFIXES = {
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
    ".csv": "csv",
    ".tsv": "csv",
    ".parquet": "parquet",
    ".h5": "tff-hdf5",
    ".hdf5": "tff-hdf5",
    ".sqlite": "tff-sqlite",
    ".db": "tff-sqlite",
    ".lzma": "tff-sqlite",
    ".json": "leaf",
    ".npz": "npz",
}
FORMATS = ("jsonl", "csv", "parquet", "reddit", "tff-hdf5", "tff-sqlite", "leaf", "npz")


@dataclass(frozen=True)
class ReadOptions:
    """What a reader may need to be told; each format takes what concerns it."""

    format: str | None = None
    user: str | None = None
    text: str | None = None
    split: str | None = None
    fields: Fields = field(default_factory=Fields)
    ink: Ink = "bright"


def guess_format(path: Path) -> str:
    """The format that the file's name tells."""
    suffix = bare_suffix(path)
    if suffix not in _SUFFIXES:
        raise DataError(
            f"The name of {path} does not tell its format; expected one that ends with {', '.join(sorted(_SUFFIXES))}.",
            hint=f"--format names it: {', '.join(FORMATS)}.",
        )
    return _SUFFIXES[suffix]


def read(path: Path, options: ReadOptions) -> Source:
    """The rows of a file, which is opened and read as they are asked for."""
    check_file(path)
    name = options.format or guess_format(path)
    if options.split is not None and name != "tff-sqlite":
        raise DataError(f"A split, here {options.split!r}, can be chosen of tff-sqlite files only; {path} is {name}.")
    match name:
        case "jsonl":
            return read_json_lines(path, _columns(path, options))
        case "reddit":
            return read_json_lines(path, REDDIT, name="reddit")
        case "csv":
            delimiter = "\t" if bare_suffix(path) == ".tsv" else ","
            return read_csv(path, _columns(path, options), delimiter=delimiter)
        case "parquet":
            return read_parquet(path, _columns(path, options))
        case "tff-hdf5":
            return read_hdf5(path, text=options.text)
        case "tff-sqlite":
            return read_sqlite(path, text=options.text, split=options.split)
        case "leaf":
            return read_leaf(path, text=options.text)
        case "npz":
            return read_npz(path, options.fields, ink=options.ink)
        case _:
            raise DataError(f"Expected a format among {', '.join(FORMATS)}, got {name!r}.")


def _columns(path: Path, options: ReadOptions) -> Columns:
    if options.user is None or options.text is None:
        missing = "user" if options.user is None else "text"
        raise DataError(
            f"{path} is a table: the name of its {missing} column is missing.",
            hint="--user and --text name the columns.",
        )
    return Columns(options.user, options.text)
