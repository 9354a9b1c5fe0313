from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tacit.data.formats import ReadOptions, read
from tacit.data.sources import TextSource
from tacit.errors import DataError

EMPTY = {"who": 3, "said": []}
OPTIONS = ReadOptions(user="who", text="said")


def rows(path: Path, options: ReadOptions = OPTIONS) -> list[tuple[int, str, str]]:
    source = read(path, options)
    assert isinstance(source, TextSource)
    return list(source.rows)


def json_file(path: Path, *records: Any) -> Path:
    path.write_text("".join(json.dumps(record) + "\n" for record in records))
    return path


def test_json_lines(tmp_path: Path) -> None:
    path = json_file(tmp_path / "a.jsonl", {"who": "ann", "said": "hi", "x": 1}, {"who": 7, "said": ["a", "b"]})
    assert rows(path) == [(1, "ann", "hi"), (2, "7", "a"), (2, "7", "b")]
    (tmp_path / "a.ndjson.gz").write_bytes(gzip.compress(path.read_bytes()))
    assert rows(tmp_path / "a.ndjson.gz") == rows(path)


def test_a_missing_text_is_counted(tmp_path: Path) -> None:
    source = read(
        json_file(tmp_path / "a.jsonl", {"who": 1, "said": None}, {"who": 2, "said": ["x", None]}, EMPTY), OPTIONS
    )
    assert [row[2] for row in source.rows] == ["x"]
    assert source.skipped == {"rows without a text": 3}


def test_lines_are_read_one_by_one(tmp_path: Path) -> None:
    """The first row is there before a later, broken line is looked at."""
    path = json_file(tmp_path / "a.jsonl", {"who": "ann", "said": "hi"})
    path.write_text(path.read_text() + "{broken\n")
    source = read(path, OPTIONS)
    assert next(source.rows) == (1, "ann", "hi")
    with pytest.raises(DataError, match="line 2 is not valid JSON"):
        next(source.rows)


@pytest.mark.parametrize(
    ("record", "sentence"),
    [
        ({"author": "ann", "said": "x"}, "line 1 has no column 'who'; the columns are 'author', 'said'"),
        ({"who": "ann"}, "line 1 has no column 'said'"),
        ({"who": None, "said": "x"}, "line 1: column 'who' is null; expected a string or an integer"),
        ({"who": True, "said": "x"}, "column 'who' is a boolean"),
        ({"who": "ann", "said": {"a": "secret"}}, "column 'said' is an object; expected a string or a list of strings"),
        ({"who": "ann", "said": ["x", 5]}, "column 'said' holds a number"),
        (["ann", "x"], "line 1 is not a JSON object"),
    ],
)
def test_a_bad_record(tmp_path: Path, record: Any, sentence: str) -> None:
    with pytest.raises(DataError, match=sentence) as caught:
        rows(json_file(tmp_path / "a.jsonl", record))
    assert "secret" not in caught.value.sentence


def test_csv_with_quotes_and_line_breaks(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text('id,who,said\r\n1,ann,"hi, ""you""\n\nthere"\r\n\r\n2,bob,\r\n')
    assert rows(path) == [(4, "ann", 'hi, "you"\n\nthere'), (6, "bob", "")]
    (tmp_path / "a.tsv").write_text("who\tsaid\nann\thi, you\n")
    assert rows(tmp_path / "a.tsv") == [(2, "ann", "hi, you")]


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        ("who,text\nann,x\n", "has no column 'said'; the columns are 'who', 'text'"),
        ("who,said\nann\n", "line 2 has 1 values; expected 2"),
        ("who,who,said\n", "names a column twice"),
        ("user,My secret diary\nbob,hi\n", "the columns are 'user', [?]"),
        ("ann,yes\nbob,hi\n", "line 1 has no column 'who' among its 2[.]$"),
    ],
)
def test_bad_csv(tmp_path: Path, content: str, sentence: str) -> None:
    (tmp_path / "a.csv").write_text(content)
    with pytest.raises(DataError, match=sentence):
        rows(tmp_path / "a.csv")


def test_semicolons_are_told(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("who;said\nann;hi\n")
    with pytest.raises(DataError, match=r"has no column 'who' among its 1[.]$") as raised:
        rows(tmp_path / "a.csv")
    assert str(raised.value.hint).startswith("Semicolons part this line")


def test_parquet_in_row_groups(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    table = pa.table({"who": ["ann", "bob", "ann"], "said": [["a", "b"], [], ["c"]], "other": [1, 2, 3]})
    pq.write_table(table, path, row_group_size=2)
    assert rows(path) == [(1, "ann", "a"), (1, "ann", "b"), (3, "ann", "c")]
    pq.write_table(pa.table({"who": [5, 6], "said": ["a", None]}), path)
    assert rows(path) == [(1, "5", "a")]
    with pytest.raises(DataError, match="no column 'text'; the columns are 'who', 'said'"):
        rows(path, ReadOptions(user="who", text="text"))
    path.write_bytes(path.read_bytes()[:-20])
    with pytest.raises(DataError, match="not a valid Parquet file"):
        rows(path)


def test_reddit(tmp_path: Path) -> None:
    path = json_file(
        tmp_path / "RC.jsonl",
        {"author": "ann", "body": "hi", "subreddit": "x"},
        {"author": "[deleted]", "body": "gone"},
        {"author": "bob", "body": "[removed]"},
        {"author": "bob", "body": "[deleted]"},
        {"author": "bob", "body": "here"},
    )
    source = read(path, ReadOptions(format="reddit"))
    assert list(source.rows) == [(1, "ann", "hi"), (5, "bob", "here")]
    assert source.skipped == {"deleted users": 1, "deleted texts": 2}
    assert source.format == "reddit"


def test_what_cannot_be_read(tmp_path: Path) -> None:
    path = json_file(tmp_path / "a.jsonl", {"who": "ann", "said": "hi"})
    with pytest.raises(DataError, match="the name of its text column is missing"):
        read(path, ReadOptions(user="who"))
    with pytest.raises(DataError, match=r"Expected a format among jsonl, .*got 'xml'"):
        read(path, ReadOptions(format="xml"))
    with pytest.raises(DataError, match=r"A split.*tff-sqlite"):
        read(path, ReadOptions(user="who", text="said", split="train"))
    path.rename(tmp_path / "a.weird")
    with pytest.raises(DataError, match="does not tell its format"):
        read(tmp_path / "a.weird", OPTIONS)
    with pytest.raises(DataError, match="There is no file"):
        read(tmp_path / "missing.jsonl", OPTIONS)
