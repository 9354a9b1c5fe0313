"""A statement for people to read: titled parts of lines, some of them marked, as Markdown and as HTML.

All text in a statement is plain: whatever comes from a file (a mechanism's name, a data set's, a reason) is escaped here
and cannot become markup, nor a control sequence for a terminal.
"""

from __future__ import annotations

import html
import math
import re
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

_MARKDOWN = re.compile(r"([\\`*_\[\]<>#|])")


class Mark(StrEnum):
    """How a line is known to be so."""

    ENFORCED = "enforced by Tacit"
    OBSERVED = "observed in the ledger"
    ASSUMED = "assumed"


@dataclass(frozen=True)
class Line:
    """A sentence, perhaps with its mark, perhaps with something to type or to compare behind it."""

    text: str
    mark: Mark | None = None
    code: str | None = None


@dataclass(frozen=True)
class Part:
    """Lines under a title."""

    title: str
    lines: tuple[Line, ...]


def plain(text: object) -> str:
    """The text on one line, without characters that do not print."""
    return "".join(each for each in " ".join(str(text).split()) if each.isprintable())


def round_up(value: float, decimals: int = 2) -> str:
    """The number with so many decimals, rounded up: a bound stays one."""
    if math.isinf(value):
        return "∞"
    # A float from 2⁵³ on is a whole number, and may be too large for more digits.
    rounded = value if value >= 2.0**53 else math.ceil(value * 10**decimals) / 10**decimals
    return f"{rounded:.{decimals}f}"


def epsilon_text(epsilon: float | None) -> str:
    """Two decimals, rounded up: a bound stays one. Infinity (None in JSON) as its sign."""
    return round_up(math.inf if epsilon is None else epsilon)


def counted(number: int, noun: str) -> str:
    """How many, with the noun in its plural if it needs one."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def times(count: int) -> str:
    """How often, in words."""
    return {1: "once", 2: "twice"}.get(count, f"{count:,} times")


def rounds_in_words(planned: int, run: int, again: int) -> str:
    """Which rounds a cost is that of, for example "the 20 rounds that were planned; 12 of them have run".

    `again` is how many attempts are counted in addition to the first one of their round.
    """
    if planned == 1:
        words = f"the one round that was planned; it has {'' if run else 'not '}run"
    else:
        which = "all of them have" if run == planned else f"{run:,} of them {'has' if run == 1 else 'have'}"
        words = f"the {planned:,} rounds that were planned; {which} run"
    if not again:
        return words
    more = "1 further attempt at them is" if again == 1 else f"{again:,} further attempts at them are"
    return f"{words}; {more} counted in addition"


def escaped(text: object) -> str:
    """The text as HTML shows it, wherever it came from; also inside an attribute's quotes."""
    return html.escape(plain(text), quote=True)


def parts_as_markdown(parts: tuple[Part, ...], *, level: int = 2) -> str:
    """Each part a heading of this level and a list."""
    return "\n\n".join(
        f"{'#' * level} {in_markdown(part.title)}\n\n" + "\n".join(_markdown_line(line) for line in part.lines)
        for part in parts
    )


def parts_as_html(parts: tuple[Part, ...], *, level: int = 3) -> str:
    """Each part a heading of this level and a list; a mark stands first, in a span of the classes `mark` and its first word."""
    return "\n".join(
        f"<h{level}>{escaped(part.title)}</h{level}>\n<ul>\n"
        + "\n".join(_html_line(line) for line in part.lines)
        + "\n</ul>"
        for part in parts
    )


def parts_as_json(parts: tuple[Part, ...]) -> list[dict[str, Any]]:
    """The same as plain data."""
    return [{"title": plain(part.title), "lines": [_json_line(line) for line in part.lines]} for part in parts]


def in_markdown(text: object) -> str:
    """The text as Markdown shows it."""
    return _MARKDOWN.sub(r"\\\1", plain(text))


def _markdown_line(line: Line) -> str:
    mark = "" if line.mark is None else f" *({line.mark})*"
    code = "" if line.code is None else f" `{plain(line.code).replace('`', '')}`"
    return f"- {in_markdown(line.text)}{code}{mark}"


def _html_line(line: Line) -> str:
    code = "" if line.code is None else f" <code>{escaped(line.code)}</code>"
    if line.mark is None:
        return f"<li>{escaped(line.text)}{code}</li>"
    mark = f'<span class="mark {line.mark.split()[0]}">{escaped(line.mark)}</span>'
    return f'<li class="marked">{mark} <span>{escaped(line.text)}{code}</span></li>'


def _json_line(line: Line) -> dict[str, Any]:
    content: dict[str, Any] = {"text": plain(line.text)}
    if line.mark is not None:
        content["mark"] = str(line.mark)
    if line.code is not None:
        content["code"] = plain(line.code)
    return content
