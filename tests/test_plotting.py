"""Pictures: a path that cannot be written is refused in one sentence, and no figure stays open."""

from __future__ import annotations

from pathlib import Path

import pytest

from tacit.errors import RunError
from tacit.plotting import load_pyplot, require_picture, save_figure


def test_paths_are_checked_before_the_work(tmp_path: Path) -> None:
    require_picture(tmp_path / "x.png")
    require_picture(tmp_path / "x.svg")
    with pytest.raises(RunError, match=r"ends in \.png or \.svg, got .*x\.gif"):
        require_picture(tmp_path / "x.gif")
    with pytest.raises(RunError, match="in a folder that exists"):
        require_picture(tmp_path / "no" / "x.png")


def test_figures_are_closed_whether_or_not_they_can_be_written(tmp_path: Path) -> None:
    pyplot = load_pyplot()
    before = pyplot.get_fignums()
    save_figure(pyplot.figure(), tmp_path / "x.png")
    assert (tmp_path / "x.png").read_bytes().startswith(b"\x89PNG")
    (tmp_path / "folder.png").mkdir()
    with pytest.raises(RunError, match=r"Cannot write .*folder\.png"):
        save_figure(pyplot.figure(), tmp_path / "folder.png")
    assert pyplot.get_fignums() == before
