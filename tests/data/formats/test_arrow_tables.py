from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tacit.data.formats import ReadOptions, arrow_tables, read
from tacit.errors import DataError
from tests.support.arrow_files import as_stream, saved

OPTIONS = ReadOptions(user="who", text="said")
TABLE = pa.table({"who": ["ann", "bob", "ann"], "said": [["a", "b"], [], ["c"]], "other": [1, 2, 3]})
ROWS = [(1, "ann", "a"), (1, "ann", "b"), (3, "ann", "c")]


def rows(path: Path, options: ReadOptions = OPTIONS) -> list[Any]:
    return list(read(path, options).rows)


def as_file(path: Path, table: pa.Table, batch: int = 2) -> Path:
    with pa.ipc.new_file(path, table.schema) as writer:
        writer.write_table(table, max_chunksize=batch)
    return path


@pytest.mark.parametrize("batch", [1, 2, 10])
def test_a_file_and_a_stream(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, batch: int) -> None:
    monkeypatch.setattr(arrow_tables, "_BATCH", 2)
    assert rows(as_file(tmp_path / "a.arrow", TABLE, batch)) == ROWS
    assert rows(as_file(tmp_path / "a.feather", TABLE, batch)) == ROWS
    stream = as_stream(tmp_path / "b.arrow", TABLE, batch)
    assert rows(stream) == ROWS
    (tmp_path / "b.arrow.gz").write_bytes(gzip.compress(stream.read_bytes()))
    assert rows(tmp_path / "b.arrow.gz") == ROWS


@pytest.mark.parametrize(
    "column",
    [
        pa.array(["a", None, "c"], pa.large_string()),
        pa.array(["a", None, "c"]).dictionary_encode(),
        pa.array(["a", None, "c"], pa.string_view()),
    ],
)
def test_other_kinds_of_text_columns(tmp_path: Path, column: pa.Array) -> None:
    source = read(as_file(tmp_path / "a.arrow", pa.table({"who": [5, 6, 7], "said": column})), OPTIONS)
    assert list(source.rows) == [(1, "5", "a"), (3, "7", "c")]
    assert source.skipped == {"rows without a text": 1}


def test_damaged_files(tmp_path: Path) -> None:
    for write in (as_file, as_stream):
        path = write(tmp_path / "a.arrow", TABLE)
        path.write_bytes(path.read_bytes()[:-300])
        with pytest.raises(DataError, match=r"a\.arrow is not a valid Arrow file"):
            rows(path)
    path.write_bytes(b"something else")
    with pytest.raises(DataError, match="is not a valid Arrow file"):
        rows(path)
    path.write_bytes(b"")
    with pytest.raises(DataError, match="is empty"):
        rows(path)
    (tmp_path / "a.arrow.gz").write_bytes(gzip.compress(as_file(tmp_path / "c.arrow", TABLE).read_bytes()))
    with pytest.raises(DataError, match=r"compressed Arrow file.*expected it unpacked"):
        rows(tmp_path / "a.arrow.gz")
    whole = gzip.compress(as_stream(tmp_path / "c.arrow", TABLE).read_bytes())
    (tmp_path / "a.arrow.gz").write_bytes(whole[:-30])
    with pytest.raises(DataError, match=r"truncated|not a valid Arrow file"):
        rows(tmp_path / "a.arrow.gz")


NOT_UTF8 = pa.array([b"good", b"bad \xff"]).view(pa.string())


@pytest.mark.parametrize("suffix", ["arrow", "parquet"])
@pytest.mark.parametrize(
    ("table", "sentence"),
    [
        ({"who": [1, 2], "said": NOT_UTF8}, "row 2 is not valid UTF-8"),
        ({"who": ["ann", None], "said": ["x", "y"]}, "row 2: column 'who' is null; expected a string or an integer"),
        ({"who": [1.5, 2.5], "said": ["x", "y"]}, "row 1: column 'who' is a number with a fraction"),
        ({"who": [1], "said": [[["x"]]]}, "row 1: column 'said' holds a list; expected a string or a list of strings"),
        ({"who": [1], "said": [{"role": "secret"}]}, "row 1: column 'said' is an object"),
        ({"who": [1], "said": [b"x"]}, "row 1: column 'said' is of type bytes"),
        ({"who": [1], "text": ["x"]}, "the table has no column 'said'; the columns are 'who', 'text'"),
    ],
)
def test_bad_tables(tmp_path: Path, suffix: str, table: dict[str, Any], sentence: str) -> None:
    path = tmp_path / f"a.{suffix}"
    as_file(path, pa.table(table)) if suffix == "arrow" else pq.write_table(pa.table(table), path)
    with pytest.raises(DataError, match=sentence) as caught:
        rows(path)
    assert "secret" not in caught.value.sentence


def test_a_column_that_is_there_twice(tmp_path: Path) -> None:
    twice = pa.Table.from_arrays([pa.array([1]), pa.array(["x"]), pa.array(["y"])], names=["who", "said", "said"])
    with pytest.raises(DataError, match="the table has 2 columns 'said'; expected one"):
        rows(as_file(tmp_path / "a.arrow", twice))
    pq.write_table(twice, tmp_path / "a.parquet")
    with pytest.raises(DataError, match="the table has 2 columns 'said'; expected one"):
        rows(tmp_path / "a.parquet")


def test_a_dataset_of_several_files_is_numbered_through(tmp_path: Path) -> None:
    folder = saved(tmp_path / "ds", TABLE, TABLE.slice(0, 1))
    assert rows(folder) == [*ROWS, (4, "ann", "a"), (4, "ann", "b")]
    assert rows(folder, ReadOptions(user="who", text="said", split="train")) == rows(folder)
    assert read(folder, OPTIONS).format == "datasets"
    with pytest.raises(DataError, match="holds the split 'train' alone, so --split test is not there"):
        rows(folder, ReadOptions(user="who", text="said", split="test"))
    broken = saved(tmp_path / "b", TABLE, pa.table({"who": [None], "said": ["x"]}))
    with pytest.raises(DataError, match="b, row 4: column 'who' is null"):
        rows(broken)


def test_a_dataset_with_splits(tmp_path: Path) -> None:
    folder = tmp_path / "ds"
    saved(folder / "train", TABLE)
    saved(folder / "test", TABLE.slice(2), split="test")
    (folder / "dataset_dict.json").write_text(json.dumps({"splits": ["train", "test"]}))
    with pytest.raises(DataError, match="ds holds the splits 'train', 'test'; expected --split with one of them"):
        rows(folder)
    with pytest.raises(DataError, match="it has no split 'dev'"):
        rows(folder, ReadOptions(user="who", text="said", split="dev"))
    assert rows(folder, ReadOptions(user="who", text="said", split="test")) == [(1, "ann", "c")]
    assert rows(folder / "train") == ROWS
    (folder / "dataset_dict.json").write_text(json.dumps({"splits": ["train"]}))
    assert rows(folder) == ROWS


@pytest.mark.parametrize(
    ("state", "sentence"),
    [
        ("{", r"state\.json is not a valid JSON object"),
        ("", r"state\.json is empty"),
        ("[]", r"state\.json is not a valid JSON object"),
        ("{}", r"state\.json is damaged: it lists no data files"),
        ('{"_data_files": [{"filename": "../x.arrow"}]}', r"state\.json is damaged"),
        ('{"_data_files": [{"filename": "gone.arrow"}]}', r"There is no file .*gone\.arrow"),
        ('{"_data_files": [{"filename": "x"}], "_indices_data_files": [{"filename": "i"}]}', "table of indices"),
    ],
)
def test_a_damaged_dataset(tmp_path: Path, state: str, sentence: str) -> None:
    folder = saved(tmp_path / "ds", TABLE)
    (folder / "state.json").write_text(state)
    with pytest.raises(DataError, match=sentence):
        rows(folder)


def test_a_folder_that_is_no_dataset(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"is a folder without state\.json.*expected a folder that Hugging Face"):
        rows(tmp_path)
    (tmp_path / "dataset_dict.json").write_text(json.dumps({"splits": ["..", "train"]}))
    with pytest.raises(DataError, match="it has no list of splits"):
        rows(tmp_path)
