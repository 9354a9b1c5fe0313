"""A statement is plain text whatever it quotes: nothing in it becomes markup or moves a terminal's cursor."""

from __future__ import annotations

from tacit.privacy.statement.wording import (
    Line,
    Mark,
    Part,
    escaped,
    parts_as_html,
    parts_as_json,
    parts_as_markdown,
    round_up,
)

HOSTILE = "<script>alert(1)</script> **bold** `code` [x](y) \x1b[31m a\nb"
PARTS = (Part(HOSTILE, (Line(HOSTILE), Line(HOSTILE, Mark.ASSUMED, HOSTILE))),)


def test_html_holds_no_markup_of_others():
    text = parts_as_html(PARTS)
    assert "<script" not in text
    assert "\x1b" not in text
    assert text.count("&lt;script&gt;") == 4
    assert '<span class="mark assumed">assumed</span>' in text


def test_markdown_holds_no_markup_of_others():
    lines = parts_as_markdown(PARTS).splitlines()
    assert len(lines) == 4  # a line end in a text adds none
    assert "\x1b" not in "".join(lines)
    for line in (lines[0], lines[2]):
        assert "**bold**" not in line
        assert "<script" not in line.replace("\\<", "")
    assert lines[3].count("`") == 2 + 2  # its own pair, and a text's, escaped
    assert lines[3].endswith("*(assumed)*")


def test_json_says_the_same():
    (part,) = parts_as_json(PARTS)
    assert [set(line) for line in part["lines"]] == [{"text"}, {"text", "mark", "code"}]
    assert "\n" not in part["title"]


def test_escaped_text_stays_inside_quotes():
    assert '"' not in escaped('" onload="x')
    assert "'" not in escaped("' onload='x")


def test_a_number_of_any_size_is_rounded_up() -> None:
    assert (round_up(0.001), round_up(2.0**53), round_up(float("inf"))) == ("0.01", "9007199254740992.00", "∞")
    assert float(round_up(1e308, 4)) == 1e308
