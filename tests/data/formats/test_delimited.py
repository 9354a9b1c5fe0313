from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tacit.data.formats import ReadOptions, files, read
from tacit.data.formats.delimited import STRAY_QUOTE
from tacit.errors import DataError

OPTIONS = ReadOptions(user="who", text="said")


def found(path: Path, content: str, options: ReadOptions = OPTIONS) -> tuple[list[Any], dict[str, int]]:
    path.write_text(content, encoding="utf-8", newline="")
    source = read(path, options)
    return list(source.rows), source.skipped


@pytest.mark.parametrize(
    ("content", "rows", "stray"),
    [
        # Nothing closes it: before, the whole rest of the file was one value.
        ('ann\t"hi\nbob\tyes\ncat\tno\n', [(3, "bob", "yes"), (4, "cat", "no")], 1),
        ('ann\tyes\nbob\t"no', [(2, "ann", "yes")], 1),
        # A later value in quotes seems to close it.
        ('ann\t"hi\nbob\tyes\ncat\t"no"\n', [(3, "bob", "yes"), (4, "cat", "no")], 1),
        ('ann\t"hi\nbob\t"yes"\n', [(3, "bob", "yes")], 1),
        # It closes in the middle of a value.
        ('ann\t"hi" you\nbob\tyes\n', [(3, "bob", "yes")], 1),
        # It closes some lines further on, where the number of values is another.
        ('ann\t"hi\nbob\tyes"\tno\ncat\tno\n', None, 0),
        ('"ann\thi\nbob\tyes\n"cat"\tno\n', [(3, "bob", "yes"), (4, "cat", "no")], 1),
        ('ann\t"a\nbob\t"b\ncat\t"c\ndan\td\n', [(5, "dan", "d")], 3),
        # Quotes inside a value and quotes that close are no mistakes.
        ('ann\t5" pipe\nbob\t"a ""b""\nc"\n', [(2, "ann", '5" pipe'), (4, "bob", 'a "b"\nc')], 0),
    ],
)
def test_a_stray_quote_costs_its_line(tmp_path: Path, content: str, rows: list[Any] | None, stray: int) -> None:
    if rows is None:
        with pytest.raises(DataError, match="line 3 has 3 values; expected 2, one a column"):
            found(tmp_path / "a.tsv", "who\tsaid\n" + content)
        return
    skipped = {STRAY_QUOTE: stray} if stray else {}
    assert found(tmp_path / "a.tsv", "who\tsaid\n" + content) == (rows, skipped)


def test_without_quotes_a_quote_is_a_character(tmp_path: Path) -> None:
    options = ReadOptions(user="who", text="said", quotes=False)
    assert found(tmp_path / "a.tsv", 'who\tsaid\nann\t"hi\nbob\t"yes"\n', options) == (
        [(2, "ann", '"hi'), (3, "bob", '"yes"')],
        {},
    )


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        ('"who,said\nann,x\n', "a.csv, line 1 is not valid CSV: a quote does not close"),
        ("\nwho,said,who\nann,x,y\n", "line 2 names a column twice: 'who'"),
        ("My diary,My diary\nann,x\n", "line 1 names a column twice: [?]"),
        ("who,said\nann,x\rbob,y\n", "line 2 is not valid CSV: new-line character"),
        ("who,said\nann,x\nbob,y,z\n", "line 3 has 3 values; expected 2, one a column"),
        ("\n\n", "is empty"),
    ],
)
def test_what_is_refused(tmp_path: Path, content: str, sentence: str) -> None:
    with pytest.raises(DataError, match=sentence):
        found(tmp_path / "a.csv", content)


def test_a_byte_order_mark_and_utf_16(tmp_path: Path) -> None:
    assert found(tmp_path / "a.csv", "\ufeffwho,said\nann,hi\n")[0] == [(2, "ann", "hi")]
    (tmp_path / "b.csv").write_text("who,said\nann,hi\n", encoding="utf-16")
    with pytest.raises(DataError, match=r"b\.csv is UTF-16 text; expected UTF-8"):
        list(read(tmp_path / "b.csv", OPTIONS).rows)


def test_a_value_over_many_lines_is_given_up_at_the_limit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tacit.data.formats.delimited.MOST_LINE_BYTES", 1000)
    assert files.MOST_LINE_BYTES > 1000
    rows, skipped = found(tmp_path / "a.csv", 'who,said\nann,"x\n' + "bob,y\n" * 500)
    assert (len(rows), skipped) == (500, {STRAY_QUOTE: 1})


VALUES = st.text(st.sampled_from('a",\n\t é'), max_size=6)


@given(st.lists(st.tuples(VALUES, VALUES), max_size=6))
def test_what_a_csv_writer_wrote_is_read_back(tmp_path_factory: pytest.TempPathFactory, pairs: list[Any]) -> None:
    import csv
    import io

    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerows([("who", "said"), *pairs])
    rows, skipped = found(tmp_path_factory.mktemp("csv") / "a.csv", out.getvalue())
    assert [row[1:] for row in rows] == pairs
    assert skipped == {}
