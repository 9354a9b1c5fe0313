"""The picture is drawn for private and for other runs, and refused where there is nothing to draw."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from matplotlib import pyplot

from tacit.errors import RunError
from tacit.runs.folder import RunFolder
from tacit.runs.metrics import EPSILON_SO_FAR, MetricsWriter
from tacit.runs.plots import plot_training


def folder_with(tmp_path: Path, epsilons: list[float]) -> RunFolder:
    folder = RunFolder.create(tmp_path / "run", "name = 'x'\n")
    with MetricsWriter(folder.metrics_path) as metrics:
        for number, epsilon in enumerate(epsilons):
            metrics.append({"round": number, "top1": 0.1, EPSILON_SO_FAR: epsilon})
    reasons = ["the seed is known"] if float("inf") in epsilons else []
    folder.summary_path.write_text(
        json.dumps({"baselines": {"unigram_top1": 0.05}, "privacy": {"delta": 1e-6, "reasons_not_private": reasons}})
    )
    return folder


@pytest.mark.parametrize("epsilons", [[1.0, 2.0], [float("inf")] * 2], ids=["private", "not private"])
def test_draws(tmp_path, epsilons):
    out = tmp_path / "picture.svg"
    plot_training(folder_with(tmp_path, epsilons), out)
    text = out.read_text()
    assert text.startswith("<?xml")
    assert len(text) > 5_000


@pytest.mark.parametrize(
    ("name", "words"), [("x.xyz", "ends in .png or .svg"), ("no/such/folder.png", "in a folder that exists")]
)
def test_names_that_cannot_be_written(tmp_path, name, words):
    with pytest.raises(RunError, match=words):
        plot_training(folder_with(tmp_path, [1.0]), tmp_path / name)


def test_nothing_to_draw(tmp_path):
    with pytest.raises(RunError, match="has no evaluation to plot"):
        plot_training(folder_with(tmp_path, []), tmp_path / "x.png")


@pytest.mark.parametrize(
    ("measure", "words"),
    [("accuracy", "guessed right"), ("inverted", "bright background")],
)
def test_a_run_is_drawn_by_what_it_is_judged_by(tmp_path, measure, words):
    folder = RunFolder.create(tmp_path / "run", "name = 'x'\n")
    with MetricsWriter(folder.metrics_path) as metrics:
        metrics.append({"round": 1, measure: 0.0, EPSILON_SO_FAR: 1.0})
    with pyplot.rc_context({"svg.fonttype": "none"}):
        plot_training(folder, tmp_path / "picture.svg")
    assert words in (tmp_path / "picture.svg").read_text()


def test_a_run_without_any_measure_is_refused(tmp_path):
    folder = RunFolder.create(tmp_path / "run", "name = 'x'\n")
    with MetricsWriter(folder.metrics_path) as metrics:
        metrics.append({"round": 1, EPSILON_SO_FAR: 1.0})
    with pytest.raises(RunError, match="top1, accuracy, inverted, loss in its metrics"):
        plot_training(folder, tmp_path / "picture.svg")
