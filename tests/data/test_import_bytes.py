"""The store of an import holds the bytes that a plain import gives, whatever the texts, the users and the format are."""

from __future__ import annotations

import csv
import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow
import pyarrow.feather
import pyarrow.parquet
import pytest

from tacit.data import grouping, importing, vocabulary
from tacit.data.formats import ReadOptions, read
from tacit.data.importing import import_text
from tacit.data.sources import TextSource
from tacit.data.store import Caps
from tacit.data.vocabulary import Vocabulary, load_vocabulary, word_list
from tests.support.plain_import import plain_import

KEY = b"k" * 32
Rows = list[tuple[str, str]]
PARTS = [
    "the", "The", "cat", "don't", "don’t", "dogs'", "'tis", "e\u0301te\u0301", "ÉTÉ", "हिन्दी", "\u0301x", "x\u0301'y", "_",
    "a_b", "İstanbul", "ΑΣ", "½", "𝒜", "🙂", "\u2028", "\n", "\r\n", "\t", "-", "...", "!?", "3:15", "ﬁn", "\ufeff", "", "   ",
    "zz" * 50,
]  # fmt: skip
WORDS = Vocabulary(("the", "cat", "don't", ".", "été", "हिन्दी", "ıstanbul", "ας", "a", "x́'y"), word_list("words"))


def nasty(rows: int, users: int, seed: int, *, ascii_only: bool = False) -> Rows:
    """Rows in any order, of which some hold no word."""
    draws = np.random.default_rng(seed)
    parts = [part for part in PARTS if part.isascii() or not ascii_only]
    ids = ["é-user", "7"] + [f"user {number}" for number in range(users)]
    return [
        (
            ids[draws.integers(len(ids))],
            str(draws.choice(["", " "])).join(
                parts[each] for each in draws.integers(len(parts), size=draws.integers(9))
            ),
        )
        for _ in range(rows)
    ]


def source(rows: Rows) -> TextSource:
    return TextSource("file", "list", "line", ((number, *row) for number, row in enumerate(rows, 1)))


def assert_same(folder: Path, expected: dict[str, bytes]) -> None:
    for name, content in expected.items():
        assert (folder / name).read_bytes() == content, name


@pytest.mark.parametrize("in_pieces", [False, True])
@pytest.mark.parametrize("caps", [Caps(), Caps(examples=3), Caps(tokens=7), Caps(examples=4, tokens=5)])
@pytest.mark.parametrize(("rows", "users", "ascii_only"), [(300, 1, False), (900, 400, False), (900, 40, True)])
def test_nasty_rows(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    in_pieces: bool,
    caps: Caps,
    rows: int,
    users: int,
    ascii_only: bool,
) -> None:
    """Once as it comes, and once as an import of a large file goes: spilled often, encoded by arrays, in many pieces."""
    given = nasty(rows, users, seed=rows + users, ascii_only=ascii_only)
    if in_pieces:
        monkeypatch.setattr(vocabulary, "_MANY", 0)
        monkeypatch.setattr(importing, "_PIECE", 200)
        monkeypatch.setattr(importing, "_REMEMBERED", 5)
        monkeypatch.setattr(grouping, "_REMEMBERED", 5)
        monkeypatch.setattr(
            importing, "Grouping", lambda *of: grouping.Grouping(*of, partitions=7, buffered_bytes=9_000)
        )
        monkeypatch.setattr(grouping.Grouped.blocks, "__kwdefaults__", {"block_bytes": 3_000})
    import_text([source(given)], tmp_path / "store", vocabulary=WORDS, key=KEY, caps=caps)
    assert_same(tmp_path / "store", plain_import(given, WORDS, KEY, caps))


def test_one_very_long_line_and_a_word_list_that_repeats_words(tmp_path: Path) -> None:
    (tmp_path / "words.txt").write_text("the\nThe\ncat\nthe\n'tis\ncat\n")
    words = load_vocabulary(tmp_path / "words.txt")
    given = [("ann", "the cat, " * 200_000 + "x" * 100_000), ("bob", "don’t\nstop " * 30_000), ("ann", "the")]
    import_text([source(given)], tmp_path / "store", vocabulary=words, key=KEY)
    assert_same(tmp_path / "store", plain_import(given, words, KEY))


def json_lines(rows: Rows, path: Path) -> None:
    path.write_text("".join(json.dumps({"user": user, "text": text}) + "\n" for user, text in rows))


def json_array(rows: Rows, path: Path) -> None:
    path.write_text(json.dumps([{"user": user, "text": text} for user, text in rows], ensure_ascii=False))


def comma_separated(rows: Rows, path: Path) -> None:
    with path.open("w", newline="") as file:
        csv.writer(file).writerows([("user", "text"), *rows])


def arrow_table(rows: Rows) -> pyarrow.Table:
    users, texts = zip(*rows, strict=True)
    return pyarrow.table({"user": users, "text": texts})


WRITERS: dict[str, Callable[[Rows, Path], None]] = {
    "rows.jsonl": json_lines,
    "rows.json": json_array,
    "rows.csv": comma_separated,
    "rows.parquet": lambda rows, path: pyarrow.parquet.write_table(arrow_table(rows), path),
    "rows.arrow": lambda rows, path: pyarrow.feather.write_feather(arrow_table(rows), path, compression="uncompressed"),
}


@pytest.mark.parametrize("name", WRITERS)
def test_every_format_of_tables(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    monkeypatch.setattr(vocabulary, "_MANY", 0)
    given = nasty(400, 30, seed=5)
    WRITERS[name](given, tmp_path / name)
    once, again = (read(tmp_path / name, ReadOptions(user="user", text="text")) for _ in range(2))
    assert isinstance(once, TextSource)
    assert isinstance(again, TextSource)
    as_read = [(user, text) for _, user, text in once.rows]
    assert len(as_read) == len(given)
    import_text([again], tmp_path / "store", vocabulary=WORDS, key=KEY)
    assert_same(tmp_path / "store", plain_import(as_read, WORDS, KEY))
