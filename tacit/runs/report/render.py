"""Blocks as HTML. Every piece of text is escaped here, whoever wrote it."""

from __future__ import annotations

import html
import re

from tacit.privacy.statement.wording import escaped
from tacit.runs.report.blocks import Bars, Block, Code, Image, Lines, Paragraph, Table
from tacit.runs.report.svg import draw_bars, draw_lines

_NUMBER = re.compile(r"[-+−–—]?[\d.,]*\d[\d.,]*(e[-+]?\d+)?\s?%?|[∞–—-]|")


def render(blocks: list[Block]) -> str:
    """The blocks in order; charts and pictures that follow each other stand side by side where there is room."""
    pieces: list[str] = []
    row: list[str] = []
    for block in blocks:
        if isinstance(block, Lines | Bars | Image):
            row.append(_figure(block))
            continue
        pieces += _flushed(row)
        match block:
            case Paragraph():
                kind = ' class="note"' if block.note else ""
                pieces.append(f"<p{kind}>{escaped(block.text)}</p>")
            case Table():
                pieces.append(_folded(_table(block), block.caption, block.folded))
            case Code():
                # Line ends stay, so that what was written can be copied.
                text = "".join(each for each in block.text if each.isprintable() or each in "\n\t")
                pieces.append(_folded(f"<pre><code>{html.escape(text)}</code></pre>", block.caption, block.folded))
    return "\n".join(pieces + _flushed(row))


def _flushed(row: list[str]) -> list[str]:
    made = [f'<div class="figures">{"".join(row)}</div>'] if row else []
    row.clear()
    return made


def _figure(block: Lines | Bars | Image) -> str:
    match block:
        case Lines():
            drawn = draw_lines(block)
        case Bars():
            drawn = draw_bars(block)
        case Image():
            drawn = f'<img alt="{escaped(block.description)}" src="data:{block.media};base64,{block.data}">'
    caption = f"<figcaption>{escaped(block.caption)}</figcaption>" if block.caption else ""
    return f"<figure>{drawn}{caption}</figure>"


def _table(table: Table) -> str:
    flush = [
        ' class="number"' if table.rows and all(_NUMBER.fullmatch(row[column].strip()) for row in table.rows) else ""
        for column in range(len(table.columns))
    ]
    head = "".join(f"<th{kind}>{escaped(name)}</th>" for kind, name in zip(flush, table.columns, strict=True))
    rows = "".join(
        "<tr>" + "".join(f"<td{kind}>{escaped(cell)}</td>" for kind, cell in zip(flush, row, strict=True)) + "</tr>"
        for row in table.rows
    )
    return f'<div class="wide"><table><thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table></div>'


def _folded(content: str, caption: str, folded: bool) -> str:
    if folded:
        return f"<details><summary>{escaped(caption or 'Show')}</summary>{content}</details>"
    return f'<p class="caption">{escaped(caption)}</p>{content}' if caption else content
