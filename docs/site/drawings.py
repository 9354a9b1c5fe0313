"""Drawings as part of a page: an inlined SVG follows the colours of the page, light or dark, which a picture cannot."""

from __future__ import annotations

import html as escaping
import re
from pathlib import Path

_IMAGE = re.compile(r'<p>\s*<img alt="([^"]*)" src="[^"]*drawings/([\w-]+\.svg)"\s*/?>\s*</p>')


def inlined(html: str, folder: Path) -> str:
    """The page with its drawings written out; the style that a drawing has as a file of its own is left to the page's."""

    def inline(match: re.Match[str]) -> str:
        svg = (folder / match[2]).read_text(encoding="utf-8")
        svg = re.sub(r"<\?xml.*?\?>|<style>.*?</style>", "", svg, flags=re.DOTALL)
        label = escaping.escape(escaping.unescape(match[1]), quote=True)
        svg = svg.replace("<svg ", f'<svg role="img" aria-label="{label}" ', 1)
        return f'<div class="drawing">{" ".join(svg.split())}</div>'

    return _IMAGE.sub(inline, html)
