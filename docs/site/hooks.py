"""Hooks of mkdocs: add the pages that are made from code and from files outside docs/, mend links to them, inline drawings.

Every page that repeats what code says (commands, recipes, tutorials, Python) is made here at build time, so it cannot drift.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

ROOT = Path(__file__).parents[2]
for folder in (ROOT, ROOT / "examples", Path(__file__).parent):
    sys.path.insert(0, str(folder))

import commands  # noqa: E402
import drawings  # noqa: E402
import experiment_pages  # noqa: E402
import links  # noqa: E402
import python_names  # noqa: E402
import recipe_pages  # noqa: E402
import tutorials  # noqa: E402

# Pages that lie elsewhere in the repository, for people who read it there.
ELSEWHERE = {
    "changelog.md": "CHANGELOG.md",
    "contributing.md": "CONTRIBUTING.md",
    "concepts/notation.md": "tacit/privacy/README.md",
    "tutorials/index.md": "examples/README.md",
}


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """Fill in the parts of the navigation that are made from code."""
    parts = {"commands": commands, "tutorials": tutorials, "python": python_names, "experiments": experiment_pages}
    config.nav = _filled(config.nav, {f"@{name}": module.nav() for name, module in parts.items()})
    return config


def on_files(files: Files, *, config: MkDocsConfig) -> Files:
    """Add every page that is made; then a page with the code of each file of the repository that some page links to."""
    made = {**commands.pages(), **recipe_pages.pages(), **tutorials.pages(), **python_names.pages()}
    made |= {uri: (ROOT / path).read_text(encoding="utf-8") for uri, path in ELSEWHERE.items()}
    written = {file.src_uri: file.content_string for file in files.documentation_pages()}
    for uri, text in {**written, **made}.items():
        for path in links.linked_files(text, _source(uri)):
            made.setdefault(links.page_of(path), links.code_page(path))
    for uri, text in made.items():
        files.append(File.generated(config, uri, content=text))
    return files


def on_page_markdown(markdown: str, *, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Links to files outside docs/ become links to their pages."""
    return links.mended(markdown, _source(page.file.src_uri), page.file.src_uri)


def on_page_content(html: str, *, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Drawings become part of the page, so that they follow its colours."""
    return drawings.inlined(html, ROOT / "docs" / "drawings")


def _source(uri: str) -> Path:
    """Where a page's text lies in the repository; its links are relative to that."""
    return Path(ELSEWHERE.get(uri, f"docs/{uri}"))


def _filled(nav: Any, made: dict[str, Any]) -> Any:
    if isinstance(nav, list):
        return [_filled(each, made) for each in nav]
    if isinstance(nav, dict):
        return {title: _filled(each, made) for title, each in nav.items()}
    return made.get(nav, nav)
