"""The file formats that can be imported: which there are, which one a file is of, and how to read it.

json_tables.py     jsonl, json, reddit         tables with a user and a text column (columns.py): objects, as lines or an array
delimited.py       csv                         such tables as comma- or tab-separated values
arrow_tables.py    parquet, arrow, datasets    such tables as Apache Arrow has them; a folder of Hugging Face's `datasets`
tff.py             tff-hdf5, tff-sqlite        Stack Overflow and Federated EMNIST, as TensorFlow Federated has them
leaf.py            leaf                        LEAF's JSON, text or images
npz.py             npz                         images, labels and writers as NumPy arrays
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from tacit.data.formats.arrow_tables import read_arrow, read_dataset, read_parquet
from tacit.data.formats.columns import REDDIT, Columns
from tacit.data.formats.delimited import read_csv
from tacit.data.formats.files import bare_suffix, check_file
from tacit.data.formats.json_tables import json_kind, read_json_array, read_json_lines
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
    ".arrow": "arrow",
    ".feather": "arrow",
    ".h5": "tff-hdf5",
    ".hdf5": "tff-hdf5",
    ".sqlite": "tff-sqlite",
    ".db": "tff-sqlite",
    ".lzma": "tff-sqlite",
    ".json": "json",
    ".npz": "npz",
}
FORMATS = ("jsonl", "json", "csv", "parquet", "arrow", "datasets", "reddit", "tff-hdf5", "tff-sqlite", "leaf", "npz")
_WITH_SPLITS = ("datasets", "tff-sqlite")


@dataclass(frozen=True)
class ReadOptions:
    """What a reader may need to be told; each format takes what concerns it."""

    format: str | None = None
    user: str | None = None
    text: str | None = None
    split: str | None = None
    fields: Fields = field(default_factory=Fields)
    ink: Ink = "bright"
    convert_images: bool = False
    quotes: bool = True


def guess_format(path: Path, options: ReadOptions) -> str:
    """The format that the name tells. A .json file is an array of objects, or LEAF's object, or, where columns are named, an
    object a line; a folder is a dataset of Hugging Face's."""
    if path.is_dir():
        return "datasets"
    suffix = bare_suffix(path)
    if suffix not in _SUFFIXES:
        raise DataError(
            f"The name of {path} does not tell its format; expected one that ends with {', '.join(sorted(_SUFFIXES))}.",
            hint=f"--format names it: {', '.join(FORMATS)}.",
        )
    if suffix == ".json" and (kind := json_kind(path)) != "json":
        return "leaf" if options.user is None else kind
    return _SUFFIXES[suffix]


def read(path: Path, options: ReadOptions) -> Source:
    """The rows of a file, which is opened and read as they are asked for."""
    if not path.is_dir():
        check_file(path)
    name = options.format or guess_format(path, options)
    if options.split is not None and name not in _WITH_SPLITS:
        raise DataError(
            f"A split, here {options.split!r}, can be chosen of {' and '.join(_WITH_SPLITS)} only; {path} is {name}."
        )
    match name:
        case "jsonl":
            return read_json_lines(path, _columns(path, options))
        case "json":
            return read_json_array(path, _columns(path, options))
        case "reddit":
            return read_json_lines(path, REDDIT, name="reddit")
        case "csv":
            delimiter = "\t" if bare_suffix(path) == ".tsv" else ","
            return read_csv(path, _columns(path, options), delimiter=delimiter, quotes=options.quotes)
        case "parquet":
            return read_parquet(path, _columns(path, options))
        case "arrow":
            return read_arrow(path, _columns(path, options))
        case "datasets":
            return read_dataset(path, _columns(path, options), split=options.split)
        case "tff-hdf5":
            return read_hdf5(path, text=options.text)
        case "tff-sqlite":
            return read_sqlite(path, text=options.text, split=options.split)
        case "leaf":
            return read_leaf(path, text=options.text)
        case "npz":
            return read_npz(path, options.fields, ink=options.ink, convert=options.convert_images)
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
