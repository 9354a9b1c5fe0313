from __future__ import annotations

import gzip
import json
import tracemalloc
from pathlib import Path
from typing import Any

import pytest
import zstandard

from tacit.data.formats import ReadOptions, json_stream, read
from tacit.errors import DataError

OPTIONS = ReadOptions(user="who", text="said")
RECORDS = [{"who": "ann", "said": "hi [you], {él}\n"}, {"who": 7, "said": ["a", 'b"\\'], "more": [{"x": [1.5e3]}]}]
ROWS = [(1, "ann", "hi [you], {él}\n"), (2, "7", "a"), (2, "7", 'b"\\')]


def rows(path: Path, options: ReadOptions = OPTIONS) -> list[Any]:
    return list(read(path, options).rows)


@pytest.mark.parametrize("chunk", [1, 3, 1 << 20])
@pytest.mark.parametrize("indent", [None, 2])
@pytest.mark.parametrize("ascii", [True, False])
def test_an_array_is_the_same_rows_as_its_lines(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, chunk: int, indent: int | None, ascii: bool
) -> None:
    monkeypatch.setattr(json_stream, "_CHUNK", chunk)
    path = tmp_path / "a.json"
    path.write_text("\ufeff \n" + json.dumps(RECORDS, indent=indent, ensure_ascii=ascii) + "\n", encoding="utf-8")
    assert rows(path) == ROWS
    assert read(path, OPTIONS).format == "json"


def test_a_compressed_array(tmp_path: Path) -> None:
    content = json.dumps(RECORDS).encode()
    (tmp_path / "a.json.gz").write_bytes(gzip.compress(content))
    (tmp_path / "a.json.zst").write_bytes(zstandard.compress(content))
    assert rows(tmp_path / "a.json.gz") == rows(tmp_path / "a.json.zst") == ROWS


def test_memory_does_not_grow_with_the_array(tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    with open(path, "w") as file:
        file.write("[")
        file.write(",\n".join(json.dumps({"who": i, "said": "word " * 200}) for i in range(30_000)))
        file.write("]")
    assert path.stat().st_size > 30e6
    tracemalloc.start()
    try:
        assert sum(1 for _ in read(path, OPTIONS).rows) == 30_000
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 12e6


def test_a_json_file_with_an_object_a_line(tmp_path: Path) -> None:
    """Columns are named, so it is a table; without them it is taken for LEAF's layout, like a file that begins so."""
    path = tmp_path / "a.json"
    path.write_text("".join(json.dumps(record) + "\n" for record in RECORDS))
    assert rows(path) == ROWS
    with pytest.raises(DataError, match=r"LEAF's layout|no users") as caught:
        rows(path, ReadOptions())
    assert "--format jsonl" in str(caught.value.hint)
    path.write_text(json.dumps({"users": ["ann"], "num_samples": [1], "user_data": {"ann": {"x": ["hi"], "y": [0]}}}))
    assert rows(path, ReadOptions(user="who")) == [(1, "ann", "hi")]


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        ("[", r"a.json is not a valid JSON array of objects \(line 1\)"),
        ('[{"who": 1, "said": "x"}', r"not a valid JSON array of objects \(line 1\)"),
        ('[{"who": 1, "said": "x"},\n{"who": 1, "said": "secr', r"not a valid JSON array of objects \(line 2\)"),
        ('[{"who": 1, "said": "x"},\n\n{"who" 1}' + " " * 100 + "]", r"\(line 3\)"),
        ('[{"who": 1, "said": "x"},]', r"\(line 1\)"),
        ('[{"who": 1, "said": "x"}]\n[]', r"\(line 2\)"),
        ('[\n{"who": 1, "said": "x"},\n5]', r"object 2 \(line 3\) is not a JSON object"),
        ('[{"who": null, "said": "x"}]', r"object 1: column 'who' is null; expected a string or an integer"),
        ('[{"who": 1, "said": [["secret"]]}]', r"object 1: column 'said' holds a list; expected a string or a list"),
        ('[{"who": 1, "text": "x"}]', r"object 1 has no column 'said'; the columns are 'who', 'text'"),
        ("[" * 100_000, r"\(line 1\)"),
        ('[{"who": 1' + "0" * 5_000 + ', "said": "x"}]', r"\(line 1\)"),
    ],
)
def test_a_bad_array(tmp_path: Path, content: str, sentence: str) -> None:
    path = tmp_path / "a.json"
    path.write_text(content)
    with pytest.raises(DataError, match=sentence) as caught:
        rows(path)
    assert "secr" not in caught.value.sentence
    assert len(caught.value.sentence) < 250


def test_a_syntax_error_is_found_before_the_rest_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(json_stream, "_MOST_VALUE", 1000)
    path = tmp_path / "a.json"
    path.write_text('[{"who" 1},' + '{"who": 1, "said": "x"},' * 200_000)
    with pytest.raises(DataError, match="not a valid JSON array"):
        rows(path)
    path.write_text('[{"who": 1, "said": "' + "x" * 4_000_000 + '"}]')
    with pytest.raises(DataError, match="a value is longer than"):
        rows(path)


def test_bytes_that_are_no_text(tmp_path: Path) -> None:
    (tmp_path / "a.json").write_bytes(b'[{"who": 1, "said": "\xff"}]')
    with pytest.raises(DataError, match="is not valid UTF-8"):
        rows(tmp_path / "a.json")
    (tmp_path / "a.json").write_bytes('[{"who": 1, "said": "é'.encode()[:-1])
    with pytest.raises(DataError, match="is not valid UTF-8"):
        rows(tmp_path / "a.json")
    (tmp_path / "a.json").write_bytes(b" \n ")
    with pytest.raises(DataError, match="is empty"):
        rows(tmp_path / "a.json", ReadOptions(format="json", user="who", text="said"))
    (tmp_path / "a.jsonl").write_text("[\n" + json.dumps(RECORDS[0]) + "]")
    with pytest.raises(DataError, match="line 1 is not valid JSON") as caught:
        rows(tmp_path / "a.jsonl")
    assert "--format json" in str(caught.value.hint)
