"""Links from a page to files of the repository: which page of the site each leads to."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[2]
_LINK = re.compile(r"\]\((?!\w+:|#)([^)#\s]+)(#[^)\s]*)?\)")
_PAGES = {
    "README.md": "index.md",
    "CHANGELOG.md": "changelog.md",
    "CONTRIBUTING.md": "contributing.md",
    "examples/README.md": "tutorials/index.md",
    "tacit/privacy/README.md": "concepts/notation.md",
}


def page_of(path: Path) -> str:
    """The page of the site that shows this file of the repository; a picture or a page of docs/ is itself."""
    match path.parts:
        case ("docs", *rest):
            return "/".join(rest)
        case ("examples", name) if name.endswith(".py") and name != "make_notebooks.py":
            return f"tutorials/{path.stem}.md"
        case ("recipes", name) if name.endswith(".toml"):
            return f"reference/recipe_files.md#{path.stem}"
    return _PAGES.get(path.as_posix(), f"source/{path.as_posix()}.md")


def linked_files(markdown: str, source: Path) -> Iterator[Path]:
    """The files outside docs/ that a page links to and that need a page of their own."""
    for match in _LINK.finditer(markdown):
        path = _resolved(match[1], source)
        if path is not None and page_of(path).startswith("source/"):
            yield path


def mended(markdown: str, source: Path, uri: str) -> str:
    """The page with each link to a file of the repository leading to a page of the site."""

    def mend(match: re.Match[str]) -> str:
        path = _resolved(match[1], source)
        if path is None:
            return match[0]
        page, hash_, anchor = page_of(path).partition("#")
        link = os.path.relpath(page, os.path.dirname(uri) or ".")
        return f"]({link}{match[2] or hash_ + anchor})"

    return _LINK.sub(mend, markdown)


def code_page(path: Path) -> str:
    """A page that shows a file."""
    language = {".py": "python", ".toml": "toml"}.get(path.suffix, "text")
    text = (ROOT / path).read_text(encoding="utf-8").rstrip()
    return f"# {path.as_posix()}\n\n````{language}\n{text}\n````\n"


def _resolved(link: str, source: Path) -> Path | None:
    """The file that a link from `source` leads to, seen from the root of the repository; None if there is no such file."""
    path = Path(os.path.normpath(source.parent / link))
    return path if not path.parts[0].startswith("..") and (ROOT / path).is_file() else None
