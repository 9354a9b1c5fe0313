"""Inspections run on Ray unchanged: of text, and of images with their classifier, their selection and their GAN."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import tacit
from tacit.inspection.images.run import start_images
from tacit.inspection.text.run import start_inspection
from tacit.recipe.engine import Ray
from tacit.simulation.ray import users as ray_users
from tests.support.inline_pool import InlinePool
from tests.support.run_arrays import final_arrays
from tests.support.tiny_images import tiny_images
from tests.support.tiny_text import tiny_text

STAGES = ("classifier", "accuracy", "high", "low")

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("small_networks")]


@pytest.fixture
def pools(monkeypatch: pytest.MonkeyPatch) -> list[InlinePool]:
    """The pools of the engines that are made: two workers in this process."""
    made: list[InlinePool] = []

    def pool(settings: Ray) -> InlinePool:
        made.append(InlinePool(2, lambda done: done[::-1]))
        return made[-1]

    monkeypatch.setattr(ray_users, "RayPool", pool)
    return made


def same_model(one: Path, other: Path) -> None:
    here, there = final_arrays(one), final_arrays(other)
    assert here.keys() == there.keys()
    for name in here:
        np.testing.assert_allclose(there[name], here[name], atol=1e-5, rtol=1e-4)


def test_text(pools: list[InlinePool], tmp_path: Path) -> None:
    start_inspection(tiny_text(run={"seed": 3}), tmp_path / "here", tacit.Callback())
    assert not pools
    start_inspection(
        tiny_text(run={"seed": 3}, engine={"kind": "ray", "pieces": 3}), tmp_path / "ray", tacit.Callback()
    )
    assert len(pools) == 1
    assert pools[0].results
    same_model(tmp_path / "here", tmp_path / "ray")


def test_the_stages_of_images(pools: list[InlinePool], tmp_path: Path) -> None:
    seeds = ("classifier.run.seed=1", "gan.run.seed=1")
    start_images(tiny_images(*seeds), tmp_path / "here", tacit.Callback())
    assert not pools
    start_images(tiny_images(*seeds, 'engine.kind="ray"', "engine.pieces=3"), tmp_path / "ray", tacit.Callback())
    assert [bool(pool.results) for pool in pools] == [True] * len(STAGES)
    for stage in STAGES:
        same_model(tmp_path / "here" / stage, tmp_path / "ray" / stage)
