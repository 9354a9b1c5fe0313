from __future__ import annotations

import gzip
from pathlib import Path

import pytest
import zstandard

from tacit.data.formats import files
from tacit.data.formats.files import bare_suffix, lines
from tacit.errors import DataError

TEXT = "eins\n\nzwei é\r\n drei"
LINES = [(1, "eins"), (3, "zwei é"), (4, " drei")]


def write(path: Path, content: bytes) -> Path:
    if path.suffix == ".gz":
        content = gzip.compress(content)
    if path.suffix == ".zst":
        content = zstandard.compress(content)
    path.write_bytes(content)
    return path


@pytest.mark.parametrize("name", ["a.txt", "a.txt.gz", "a.txt.zst"])
def test_lines_keep_their_numbers(tmp_path: Path, name: str) -> None:
    assert list(lines(write(tmp_path / name, TEXT.encode()))) == LINES
    assert list(lines(write(tmp_path / name, b"\xef\xbb\xbf" + TEXT.encode()))) == LINES


def test_several_zstd_frames_are_one_file(tmp_path: Path) -> None:
    path = tmp_path / "a.zst"
    path.write_bytes(zstandard.compress(b"one\ntw") + zstandard.compress(b"o\n" * 200_000))
    read = list(lines(path))
    assert (read[:2], len(read)) == ([(1, "one"), (2, "two")], 200_001)


@pytest.mark.parametrize("name", ["a.txt.gz", "a.txt.zst"])
def test_a_truncated_file_is_noticed(tmp_path: Path, name: str) -> None:
    path = write(tmp_path / name, "".join(f"{i * 7919}\n" for i in range(50_000)).encode())
    path.write_bytes(path.read_bytes()[:-100])
    with pytest.raises(DataError, match="truncated"):
        list(lines(path))


@pytest.mark.parametrize("name", ["a.txt.gz", "a.txt.zst"])
def test_a_file_that_is_not_compressed_is_noticed(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_bytes(b"plain text")
    with pytest.raises(DataError, match="damaged"):
        list(lines(tmp_path / name))


@pytest.mark.parametrize("name", ["a.txt", "a.txt.gz", "a.txt.zst"])
@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        (b"good\nbad\0\n", "line 2 holds a NUL byte"),
        (b"good\n\n\xff\xfe\n", "line 3 is not valid UTF-8"),
        (b"", "is empty"),
        (b" \n\n", "is empty"),
    ],
)
def test_bad_content_is_named_by_its_line(tmp_path: Path, name: str, content: bytes, sentence: str) -> None:
    with pytest.raises(DataError, match=sentence):
        list(lines(write(tmp_path / name, content)))


def test_an_endless_line_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(files, "MOST_LINE_BYTES", 1 << 20)
    path = write(tmp_path / "a.txt", b"short\n" + b"x" * (1 << 21))
    with pytest.raises(DataError, match="line 2 is longer than 1 MiB"):
        list(lines(path))


def test_no_file(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="There is no file"):
        list(lines(tmp_path / "missing"))
    with pytest.raises(DataError, match="is a folder"):
        list(lines(tmp_path))


def test_the_suffix_beneath_the_compression() -> None:
    assert bare_suffix(Path("a.b.JSONL.gz")) == ".jsonl"
    assert bare_suffix(Path("a.csv")) == ".csv"
    assert bare_suffix(Path("a.gz")) == ""
