"""Tables of text as Apache Arrow has them: Parquet, Arrow files and streams, and folders of Hugging Face's `datasets`.

`Dataset.save_to_disk` writes a folder with state.json, which lists the Arrow streams of the table; `DatasetDict.save_to_disk`
writes a folder with dataset_dict.json, which lists the splits, each a folder of the first kind. Everything is read a batch of
rows at a time.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tacit.data.formats.columns import Columns, Record, check_columns, table
from tacit.data.formats.files import check_file, is_compressed, open_bytes, read_errors
from tacit.data.sources import TextSource
from tacit.errors import DataError

_BATCH = 4096
_FILE_MAGIC = b"ARROW1"
_STATE, _SPLITS = "state.json", "dataset_dict.json"


def read_parquet(path: Path, columns: Columns) -> TextSource:
    """An Apache Parquet file."""
    return table(path, "parquet", "row", _records(_parquet_batches(path, columns), columns, path, 0), columns)


def read_arrow(path: Path, columns: Columns) -> TextSource:
    """An Arrow file, or a stream of Arrow's messages, which may be compressed as a whole."""
    return table(path, "arrow", "row", _records(_arrow_batches(path, columns), columns, path, 0), columns)


def read_dataset(folder: Path, columns: Columns, *, split: str | None = None) -> TextSource:
    """A folder that `save_to_disk` of Hugging Face's `datasets` made; one with several splits needs to be told which."""
    if not any((folder / name).is_file() for name in (_STATE, _SPLITS)):
        what = "a folder" if folder.is_dir() else "a file"
        raise DataError(
            f"{folder} is {what} without {_STATE} and {_SPLITS}; expected a folder that Hugging Face's save_to_disk made.",
            hint="A folder of other files is imported by naming the files.",
        )
    files = _files_of(_folder_of(folder, split))
    return table(folder, "datasets", "row", _dataset_records(files, columns), columns)


def _folder_of(folder: Path, split: str | None) -> Path:
    """The folder of the split, or the folder itself if it has no splits."""
    if not (folder / _SPLITS).is_file():
        named = _json(folder / _STATE).get("_split")
        if split is not None and split != named:
            raise DataError(f"{folder} holds the split {named!r} alone, so --split {split} is not there.")
        return folder
    splits = _json(folder / _SPLITS).get("splits")
    if not isinstance(splits, list) or not splits or not all(_is_plain(name) for name in splits):
        raise DataError(f"The file {folder / _SPLITS} is damaged: it has no list of splits.")
    if split is None and len(splits) == 1:
        split = splits[0]
    if split is None or split not in splits:
        names = ", ".join(map(repr, splits))
        asked = "expected --split with one of them" if split is None else f"it has no split {split!r}"
        raise DataError(
            f"{folder} holds the splits {names}; {asked}.",
            hint=f"To import several, name their folders: {folder / splits[0]} {folder / splits[-1]}",
        )
    return folder / split


def _files_of(folder: Path) -> list[Path]:
    """The Arrow files of a dataset, in order."""
    state = _json(folder / _STATE)
    if state.get("_indices_data_files"):
        raise DataError(
            f"{folder} chooses rows by a table of indices, which Tacit does not read.",
            hint="Save it again with dataset.flatten_indices().save_to_disk(...).",
        )
    listed = state.get("_data_files")
    names = [each.get("filename", "") for each in listed if isinstance(each, dict)] if isinstance(listed, list) else []
    if not names or not all(_is_plain(name) for name in names):
        raise DataError(f"The file {folder / _STATE} is damaged: it lists no data files.")
    files = [folder / name for name in names]
    for file in files:
        check_file(file)
    return files


def _is_plain(name: object) -> bool:
    """Whether this is the name of something directly in a folder."""
    return isinstance(name, str) and name not in ("", ".", "..") and Path(name).name == name


def _json(path: Path) -> dict[str, Any]:
    check_file(path)
    try:
        found = json.loads(path.read_bytes())
    except OSError as error:
        raise DataError(f"The file {path} cannot be read: {error.strerror}.") from None
    except ValueError:
        found = None
    if not isinstance(found, dict):
        raise DataError(f"The file {path} is not a valid JSON object.")
    return found


def _dataset_records(files: list[Path], columns: Columns) -> Iterator[Record]:
    """The rows of all files, numbered through, as the dataset itself numbers them from 0 on."""
    before = 0
    for file in files:
        number = before
        for number, record in _records(_arrow_batches(file, columns), columns, file, before):
            yield number, record
        before = number


def _records(batches: Iterator[Any], columns: Columns, path: Path, number: int) -> Iterator[Record]:
    """The rows of the batches, the first of them number + 1."""
    for batch in batches:
        for start in range(0, batch.num_rows, _BATCH):
            some = batch.slice(start, _BATCH)
            try:
                found = [some.column(name).to_pylist() for name in (columns.user, columns.text)]
            except UnicodeDecodeError:
                raise DataError(f"{path}, row {number + 1 + _broken(some, columns)} is not valid UTF-8.") from None
            for user, text in zip(*found, strict=True):
                number += 1
                yield number, {columns.user: user, columns.text: text}


def _broken(batch: Any, columns: Columns) -> int:
    """The first row of the batch that holds no valid UTF-8."""
    for row in range(batch.num_rows):
        try:
            for name in (columns.user, columns.text):
                batch.column(name)[row].as_py()
        except UnicodeDecodeError:
            return row
    return 0


@contextmanager
def _arrow_errors(path: Path, format: str) -> Iterator[None]:
    import pyarrow

    with read_errors(path):
        try:
            yield
        except pyarrow.ArrowException:
            # What Arrow says might quote a value.
            raise DataError(
                f"The file {path} is not a valid {format} file: it is damaged, cut or something else."
            ) from None


def _parquet_batches(path: Path, columns: Columns) -> Iterator[Any]:
    import pyarrow.parquet

    check_file(path)
    with _arrow_errors(path, "Parquet"), pyarrow.parquet.ParquetFile(path) as file:
        check_columns(file.schema_arrow.names, columns, path, "the table")
        yield from file.iter_batches(_BATCH, columns=list(dict.fromkeys([columns.user, columns.text])))


def _arrow_batches(path: Path, columns: Columns) -> Iterator[Any]:
    """The batches of a file or stream. One that is not compressed is mapped into memory, however large its batches are."""
    import pyarrow
    from pyarrow import ipc

    compressed = is_compressed(path)
    with open_bytes(path) as stream, _arrow_errors(path, "Arrow"):
        is_file = stream.peek(len(_FILE_MAGIC)).startswith(_FILE_MAGIC)  # type: ignore[attr-defined]
        if is_file and compressed:
            raise DataError(f"{path} is a compressed Arrow file, whose index is at its end; expected it unpacked.")
        with stream if compressed else pyarrow.memory_map(str(path)) as content:
            found = ipc.open_file(content) if is_file else ipc.open_stream(content)
            check_columns(found.schema.names, columns, path, "the table")
            if is_file:
                yield from map(found.get_batch, range(found.num_record_batches))
            else:
                yield from found
