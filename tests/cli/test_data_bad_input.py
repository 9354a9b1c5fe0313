"""What people bring that is broken: each gets one sentence that names the file, and the place where there is one, and leaves
nothing behind. What can be read is read, and what was left out is counted at the end."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import zstandard
from typer.testing import CliRunner

from tacit.cli.data import app
from tacit.errors import DataError

SECRET = "xylophone"
LINES = "".join(json.dumps({"user": f"u{i}", "text": f"the {SECRET} {i * 7919}"}) + "\n" for i in range(3000)).encode()


def imported(path: Path, *more: str) -> str:
    """What an import of this file printed; an exception of the command is raised."""
    arguments = ["import", str(path), "--user", "user", "--text", "text", "--vocabulary-private", "10", *more]
    result = CliRunner().invoke(app, [*arguments, "--out", str(path.parent / "store")])
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    assert result.exit_code == 0, result.output
    return result.stdout


def table(**columns: object) -> bytes:
    sink = pa.BufferOutputStream()
    pq.write_table(pa.table(columns), sink)
    return sink.getvalue().to_pybytes()


BROKEN = {
    "empty.jsonl": (b"", "empty.jsonl is empty"),
    "blank.csv": (b"\n \n", "blank.csv is empty"),
    "empty.json": (b"", "empty.json is empty"),
    "empty.arrow": (b"", "empty.arrow is empty"),
    "empty.jsonl.gz": (gzip.compress(b""), r"empty.jsonl.gz is empty"),
    "cut.jsonl.gz": (gzip.compress(LINES)[:-2000], r"cut.jsonl.gz is truncated"),
    "cut.jsonl.zst": (zstandard.compress(LINES)[:-2000], r"cut.jsonl.zst is truncated"),
    "cut.json.gz": (gzip.compress(b"[" + LINES.replace(b"\n", b",\n"))[:-2000], r"cut.json.gz is truncated"),
    "plain.jsonl.gz": (LINES, r"plain.jsonl.gz is damaged: it is not valid gzip data"),
    "cut.parquet": (table(user=["a"], text=["b"])[:-9], r"cut.parquet is not a valid Parquet file"),
    "mixed.jsonl": (
        b'{"user": "a", "text": "b"}\n{"user": "a", "text": 5}\n',
        r"mixed.jsonl, line 2: column 'text' is a",
    ),
    "null.jsonl": (b'{"user": null, "text": "b"}\n', r"null.jsonl, line 1: column 'user' is null"),
    "nobody.csv": (b"user,text\nann,hi\n,hi\n", r"nobody.csv, line 3: the user id is empty"),
    "null.parquet": (table(user=["a", None], text=["b", "c"]), r"null.parquet, row 2: column 'user' is null"),
    "latin.csv": (b"user,text\nann,caf\xe9\n", r"latin.csv, line 2 is not valid UTF-8"),
    "latin.jsonl": (b'{"user": "a", "text": "caf\xe9"}\n', r"latin.jsonl, line 1 is not valid UTF-8"),
    "utf16.jsonl": ('{"user": "a", "text": "b"}\n'.encode("utf-16"), r"utf16.jsonl is UTF-16 text; expected UTF-8"),
    "nul.tsv": (b"user\ttext\na\tb\0\n", r"nul.tsv, line 2 holds a NUL byte"),
    "twice.csv": (b"user,user,text\na,b,c\n", r"twice.csv, line 1 names a column twice: 'user'"),
    "nested.jsonl": (b'{"user": 1, "text": [["x"]]}\n', r"nested.jsonl, line 1: column 'text' holds a list; expected"),
    "nested.parquet": (table(user=[1], text=[[["x"]]]), r"nested.parquet, row 1: column 'text' holds a list; expected"),
    "huge.jsonl": (
        b'{"user": "' + b"x" * 5000 + b'", "text": "b"}\n',
        "huge.jsonl, line 1: the user id has 5000 bytes",
    ),
    "wide.csv": (b"user,text\nann,a,b\n", r"wide.csv, line 2 has 3 values; expected 2"),
    "strays.csv": (b'user,text\nann,"a\nbob,"b\n', r"strays.csv holds no text.*left out: 2 lines with a stray quote"),
    "notes.txt": (b"hello\n", r"The name of .*notes.txt does not tell its format"),
    "surrogate.jsonl": (b'{"user": "a", "text": "b \\ud800"}\n', r"surrogate.jsonl, line 1: the text is not valid Uni"),
}


@pytest.mark.parametrize("name", BROKEN)
def test_one_sentence_and_nothing_left_behind(tmp_path: Path, name: str) -> None:
    content, sentence = BROKEN[name]
    path = tmp_path / name
    path.write_bytes(content)
    with pytest.raises(DataError, match=sentence) as caught:
        imported(path)
    assert len(caught.value.sentence.removeprefix(str(tmp_path))) < 400
    assert SECRET not in caught.value.sentence
    assert "\n" not in caught.value.sentence
    assert [each.name for each in tmp_path.iterdir()] == [name]


def test_images_of_another_size_are_refused_by_name(tmp_path: Path) -> None:
    path = tmp_path / "photos.npz"
    np.savez(path, images=np.zeros((2, 32, 32, 3), np.uint8), labels=np.arange(2), writers=np.arange(2))
    arguments = ["import", str(path), "--out", str(tmp_path / "store")]
    result = CliRunner().invoke(app, arguments)
    assert isinstance(result.exception, DataError)
    assert "photos.npz: the images are 32×32×3; expected 28×28" in result.exception.sentence
    assert [each.name for each in tmp_path.iterdir()] == ["photos.npz"]
    done = CliRunner().invoke(app, [*arguments, "--convert-images"])
    assert done.exit_code == 0, done.output
    assert "2 users, 2 images, 2 classes" in done.stdout
    assert "read from: npz, converted to 28×28 grey: luminance of colours" in " ".join(done.stdout.split())


def test_what_was_left_out_is_counted_at_the_end(tmp_path: Path) -> None:
    (tmp_path / "chat.tsv").write_text('user\ttext\nann\thello you\nbob\t"hello\nann\t***\ncat\thello\n')
    printed = imported(tmp_path / "chat.tsv")
    assert "2 users, 2 examples" in printed
    assert "left out: 1 lines with a stray quote" in printed
    assert "left out: 1 texts without a word" in printed


def test_the_same_rows_give_the_same_store_whatever_the_file(tmp_path: Path) -> None:
    rows = [(f"u{i % 40}", f"hello number {i}") for i in range(200)]
    users, texts = ([row[i] for row in rows] for i in (0, 1))
    both = pa.table({"user": users, "text": texts})
    (tmp_path / "key").write_bytes(b"k" * 32)
    objects = [{"user": user, "text": text} for user, text in rows]
    (tmp_path / "a.jsonl").write_text("\n".join(map(json.dumps, objects)))
    (tmp_path / "a.json").write_text(json.dumps(objects, indent=1))
    (tmp_path / "a.csv").write_text("\ufeffuser,text\n" + "".join(f'{user},"{text}"\n' for user, text in rows))
    pq.write_table(both, tmp_path / "a.parquet")
    with pa.ipc.new_file(tmp_path / "a.arrow", both.schema) as writer:
        writer.write_table(both, max_chunksize=7)
    folder = tmp_path / "a.dataset"
    folder.mkdir()
    with pa.OSFile(str(folder / "data-0.arrow"), "wb") as out, pa.ipc.new_stream(out, both.schema) as stream:
        stream.write_table(both)
    (folder / "state.json").write_text(json.dumps({"_data_files": [{"filename": "data-0.arrow"}], "_split": None}))
    stores = []
    for path in sorted(tmp_path.glob("a.*")):
        imported(path, "--key-file", str(tmp_path / "key"))
        stores.append({file.name: file.read_bytes() for file in (tmp_path / "store").glob("*.bin")})
        (tmp_path / "store").rename(tmp_path / f"store of {path.name}")
    assert len(stores) == 6
    assert len(stores[0]) >= 5
    assert all(store == stores[0] for store in stores)
