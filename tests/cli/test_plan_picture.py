"""The picture of a plan: in every panel the dot of the recommended row is on a curve of its own mechanism."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from matplotlib import pyplot

from tests.support.commands import Tacit

ASKED = ("plan", "--population", 20_000, "--rounds", 60, "--delta", 1e-6, "--devices-per-round", 400, "--rho", 0.5)


@pytest.mark.parametrize(
    "mechanism", ["blt", *(pytest.param(name, marks=pytest.mark.slow) for name in ("tree", "gaussian"))]
)
def test_the_dot_is_on_its_own_curve(
    tacit: Tacit, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mechanism: str
) -> None:
    figures: list[Any] = []
    close = pyplot.close
    monkeypatch.setattr(pyplot, "close", figures.append)
    answer = tacit(*ASKED, "--mechanism", mechanism, "--plot", tmp_path / "a.png")
    assert answer.code == 0, answer.err
    panels = [axes for axes in figures[0].axes if axes.get_title()]
    assert len(panels) == 4
    for axes in panels:
        (dot,) = (line for line in axes.lines if line.get_marker() == "o")
        x, y = dot.get_xdata()[0], dot.get_ydata()[0]
        thick = [line for line in axes.lines if line.get_linewidth() > 2 and line is not dot]
        own = [line for line in thick if line.get_label().startswith(mechanism)] or thick
        if mechanism == "blt":
            assert own[0].get_color() == dot.get_color()
        heights = np.interp(np.log(x), np.log(own[0].get_xdata()), np.log(own[0].get_ydata()))
        assert np.exp(heights) == pytest.approx(y, rel=0.01), axes.get_title()
    close(figures[0])
