"""The guarantee as a PDF of A4 pages, to sign and to file. Text stays text: it can be searched and copied.

The file depends on the statement alone: the same statement gives the same bytes.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tacit.errors import RunError
from tacit.plotting import load_pyplot
from tacit.privacy.statement.guarantee import Guarantee
from tacit.privacy.statement.wording import plain

# A4 in points, and what is left empty on each side.
_WIDTH, _HEIGHT = 595.0, 842.0
_LEFT, _TOP, _BOTTOM = 64.0, 64.0, 56.0
_INK, _QUIET = "#1f2933", "#5b6672"


@dataclass(frozen=True)
class _Style:
    size: float
    bold: bool = False
    mono: bool = False
    indent: float = 0.0
    before: float = 0.0  # empty points above it, unless it begins a page
    color: str = _INK

    @property
    def family(self) -> str:
        return "DejaVu Sans Mono" if self.mono else "DejaVu Sans"

    @property
    def weight(self) -> str:
        return "bold" if self.bold else "normal"

    @property
    def height(self) -> float:
        return 1.42 * self.size


_TITLE = _Style(17, bold=True)
_HEADLINE = _Style(11, bold=True, before=10)
_TEXT = _Style(9.5, before=8)
_HEADING = _Style(11.5, bold=True, before=16)
_LINE = _Style(9, indent=12, before=4)
_MARK = _Style(8, indent=12, color=_QUIET)
_CODE = _Style(8, mono=True, indent=12, color=_QUIET)


@dataclass(frozen=True)
class _Row:
    """A line of a page. `bullet` stands before it; the next `keep` rows may not begin a page of their own."""

    text: str
    style: _Style
    first: bool
    bullet: bool = False
    keep: int = 0


def write_guarantee_pdf(said: Guarantee, out: Path) -> None:
    """Write the statement to `out`; RunError if it cannot be written."""
    if out.suffix != ".pdf":
        raise RunError(f"Expected a file that ends in .pdf, got {out}.")
    pyplot = load_pyplot()
    from matplotlib.backends.backend_pdf import PdfPages

    about = {"Title": f"The guarantee of run {plain(said.run_id)}", "CreationDate": None, "Creator": "Tacit"}
    pages = list(_pages(list(_rows(said))))
    try:
        with pyplot.rc_context({"pdf.fonttype": 42}), PdfPages(out, metadata=about) as pdf:
            for number, rows in enumerate(pages, start=1):
                figure = pyplot.figure(figsize=(_WIDTH / 72, _HEIGHT / 72))
                _draw(figure, rows, f"Run {plain(said.run_id)}, page {number} of {len(pages)}")
                pdf.savefig(figure)
                pyplot.close(figure)
    except OSError as error:
        raise RunError(f"Cannot write {out} ({error.strerror}).") from None


def _rows(said: Guarantee) -> Iterator[_Row]:
    """The statement, broken into lines as wide as a page."""
    yield from _broken(f"The guarantee of run {plain(said.run_id)}", _TITLE)
    yield from _broken(plain(said.headline), _HEADLINE)
    yield from _broken(plain(said.paragraph), _TEXT)
    for part in said.parts:
        yield from _broken(plain(part.title), _HEADING, keep=2)
        for line in part.lines:
            yield from _broken(plain(line.text), _LINE, bullet=True)
            if line.code is not None:
                yield from _broken(plain(line.code), _CODE)
            if line.mark is not None:
                yield from _broken(str(line.mark), _MARK)


def _broken(text: str, style: _Style, *, bullet: bool = False, keep: int = 0) -> Iterator[_Row]:
    """The text in rows that fit. A word that is wider than a row (a digest) is cut."""
    width, measure = _WIDTH - 2 * _LEFT - style.indent, _ruler(style)
    row, first = "", True
    for word in text.split(" "):
        longer = f"{row} {word}" if row else word
        if measure(longer) <= width:
            row = longer
            continue
        if row:
            yield _Row(row, style, first, bullet and first, keep)
            first = False
        while measure(word) > width:
            fits = next(length for length in range(len(word) - 1, 0, -1) if measure(word[:length]) <= width)
            yield _Row(word[:fits], style, first, bullet and first, keep)
            word, first = word[fits:], False
        row = word
    yield _Row(row, style, first, bullet and first, keep)


def _ruler(style: _Style) -> Any:
    """A function that measures a text in points."""
    from matplotlib.font_manager import FontProperties, findfont, get_font

    font = get_font(findfont(FontProperties(family=style.family, weight=style.weight)))

    def measure(text: str) -> float:
        font.set_size(style.size, 72)
        font.set_text(text, 0.0)
        return float(font.get_width_height()[0]) / 64

    return measure


def _pages(rows: list[_Row]) -> Iterator[list[tuple[float, _Row]]]:
    """The rows of each page, each with the height of its foot above the paper's lower edge."""
    page: list[tuple[float, _Row]] = []
    place = _HEIGHT - _TOP
    for number, row in enumerate(rows):
        step = row.style.height + (row.style.before if row.first and page else 0)
        with_next = step + sum(
            each.style.height + each.style.before for each in rows[number + 1 : number + 1 + row.keep]
        )
        if page and place - with_next < _BOTTOM:
            yield page
            page, place, step = [], _HEIGHT - _TOP, row.style.height
        place -= step
        page.append((place, row))
    yield page


def _draw(figure: Any, rows: list[tuple[float, _Row]], foot: str) -> None:
    def text(left: float, height: float, content: str, style: _Style) -> None:
        # A dollar sign would begin a formula.
        figure.text(
            left / _WIDTH,
            height / _HEIGHT,
            content.replace("$", r"\$"),
            fontsize=style.size,
            family=style.family,
            weight=style.weight,
            color=style.color,
            verticalalignment="baseline",
        )

    for height, row in rows:
        if row.bullet:
            text(_LEFT, height, "•", row.style)
        text(_LEFT + row.style.indent, height, row.text, row.style)
    text(_LEFT, _BOTTOM / 2, foot, _Style(7.5, color=_QUIET))
