"""Public text to pre-train on: the sentences of documentation (HTML, Mallard, plain text), one line of JSON a file.

    apt-get download debian-handbook libreoffice-help-es gnome-user-docs fortunes-es
    for package in *.deb; do dpkg-deb -x "$package" public; done
    python experiments/public_text.py es public > spanish_text.jsonl

A file whose path names another language than the one that is asked for is left out, and so is a sentence of fewer than three
words. A file stands for a user: it has a name and a list of sentences, as the corpora of people have.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path

MARKED_UP = {".html", ".xhtml", ".page"}
# Files of Debian's fortune cookies have the last two; those with the suffixes .dat and .u8 are other forms of the same ones.
PLAIN = {".txt", ".fortunes", ""}
# Folders of a package that hold no prose.
NO_PROSE = {"bug", "lintian", "doc-base"}
SILENT = {"script", "style", "pre", "code", "title", "head", "screen"}
BLOCKS = {"p", "li", "td", "th", "div", "dt", "dd", "h1", "h2", "h3", "h4", "item", "br", "section"}
# A folder that names a language: es, es-ES, es_ES, sr@latin. "C" is English where software names its languages.
LANGUAGE = re.compile(r"[a-z]{2}([-_][A-Z]{2})?(@[a-z]+)?|C")
END = re.compile(r"(?<=[.!?])\s+(?=[\w¿¡\"'(])")
LEAST_WORDS = 3


class Paragraphs(HTMLParser):
    """The text between tags, a paragraph for each block; what readers do not read as prose is left out."""

    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.found: list[str] = [""]
        self._silent = 0

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self._silent += tag in SILENT
        if tag in BLOCKS:
            self.found.append("")

    def handle_endtag(self, tag: str) -> None:
        self._silent -= tag in SILENT and self._silent > 0
        if tag in BLOCKS:
            self.found.append("")

    def handle_data(self, data: str) -> None:
        if not self._silent:
            self.found[-1] += data


def language_of(path: Path) -> str | None:
    """The language that a folder of the path names, the last one if there are several."""
    named = [part for part in path.parts if LANGUAGE.fullmatch(part)]
    return None if not named else "en" if named[-1] == "C" else named[-1][:2]


def paragraphs(path: Path) -> list[str]:
    text = path.read_text(encoding="utf-8", errors="replace")
    if path.suffix in MARKED_UP:
        parser = Paragraphs()
        parser.feed(text)
        return parser.found
    return re.split(r"\n\s*\n|\n%\n", text)


def sentences(path: Path) -> list[str]:
    """The sentences of a file, without repetitions: menus and notices stand on every page."""
    found = (
        " ".join(sentence.split())
        for paragraph in paragraphs(path)
        for sentence in END.split(" ".join(paragraph.split()))
    )
    return list(dict.fromkeys(each for each in found if len(each.split()) >= LEAST_WORDS))


def texts(language: str, folders: list[Path]) -> Iterator[dict[str, object]]:
    """A record for each file in this language; a sentence that an earlier file had is left out."""
    seen: set[str] = set()
    for folder in folders:
        for path in sorted(folder.rglob("*")):
            inside = path.relative_to(folder)
            if path.is_symlink() or not path.is_file() or path.suffix not in MARKED_UP | PLAIN:
                continue
            if language_of(inside) not in (None, language) or NO_PROSE & set(inside.parts) or path.name == "copyright":
                continue
            new = [sentence for sentence in sentences(path) if sentence not in seen]
            seen.update(new)
            if new:
                yield {"user": str(inside), "sentences": new}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("language", help="two letters, such as es")
    parser.add_argument("folders", type=Path, nargs="+", help="where the documentation lies")
    options = parser.parse_args()
    for record in texts(options.language, options.folders):
        print(json.dumps(record, ensure_ascii=False), file=sys.stdout)


if __name__ == "__main__":
    main()
