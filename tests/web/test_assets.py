"""The built pages: current, small, and without anything from elsewhere."""

from __future__ import annotations

import hashlib
import json
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from tacit.web.app import STATIC

WEB = Path(__file__).parents[2] / "web"
MOST_BYTES = 300_000


@pytest.mark.process
def test_the_built_pages_are_current(tmp_path: Path) -> None:
    node = shutil.which("node")
    if node is None:
        pytest.skip("Node is needed to build the pages: https://nodejs.org")
    if not (WEB / "node_modules").is_dir():
        pytest.skip("make web installs what builds the pages, from the lock file")
    subprocess.run([str(WEB / "node_modules" / ".bin" / "tsc"), "--noEmit"], cwd=WEB, check=True)
    subprocess.run([node, "build.mjs", str(tmp_path)], cwd=WEB, check=True)
    for built in tmp_path.iterdir():
        assert (STATIC / built.name).read_bytes() == built.read_bytes(), f"{built.name} is old: make web"


def test_the_built_pages_are_of_these_sources() -> None:
    """What the build wrote down of its sources and its pages still holds. This needs no Node."""
    built = json.loads((STATIC / "built.json").read_text(encoding="utf-8"))
    names = [path.relative_to(WEB).as_posix() for path in (WEB / "src").rglob("*") if path.is_file()]
    names += ["build.mjs", "package-lock.json", "package.json", "tsconfig.json"]
    assert {name: digest(WEB / name) for name in names} == built["sources"], "the pages are old: make web"
    pages = [path for path in STATIC.iterdir() if path.name != "built.json"]
    assert {path.name: digest(path) for path in pages} == built["pages"], "the pages were not built from web/: make web"


def digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def test_the_board_is_small() -> None:
    files = [
        path for path in STATIC.iterdir() if path.name.startswith("board.") or path.name in ("theme.js", "icon.svg")
    ]
    assert len(files) >= 5
    assert sum(path.stat().st_size for path in files) < MOST_BYTES


@pytest.mark.parametrize("path", sorted(STATIC.glob("*.html")), ids=lambda path: path.name)
def test_a_page_has_nothing_inline_and_nothing_from_elsewhere(path: Path) -> None:
    text = path.read_text()
    assert not re.search(r"\sstyle=|\son\w+=|<style|javascript:", text)
    assert all(
        re.match(r'<script src="/static/[\w.]+"( defer)?></script>', each) for each in re.findall(r"<script.*", text)
    )
    for address in re.findall(r'(?:href|src)="([^"]*)"', text):
        assert address.startswith("/static/")
        assert (STATIC / address.removeprefix("/static/")).is_file(), address


def test_the_board_loads_nothing_from_elsewhere() -> None:
    for name in ("board.js", "board.css", "theme.js"):
        text = (STATIC / name).read_text()
        found = set(re.findall(r"https?://[^\s\"'`)]+", text))
        # A name space, the address in a licence, and the example in a command that the page shows.
        shown = {"http://www.w3.org/2000/svg", "https://github.com/leeoniya/uPlot", "https://localhost:8443"}
        assert found <= shown, name
        assert "eval(" not in text
        assert "new Function" not in text
        assert "innerHTML" not in text
    assert "url(" not in (STATIC / "board.css").read_text()
