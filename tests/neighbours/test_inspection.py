"""Inspections on D and D′: what a made-up word or image shows does not depend on somebody who contributes nothing."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from tacit.recipe.image_inspection import parse_image_inspection
from tests.support.neighbour_runs import EVERYBODY, PRIVACY, write
from tests.support.neighbours import World, compared, write_image_store
from tests.support.tiny_images import tiny_images
from tests.support.tiny_text import tiny_text

pytestmark = pytest.mark.usefixtures("small_networks")

SILENT = 31


@pytest.mark.slow
def test_an_inspection_of_text(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    made = tiny_text(
        data={"world": None, "store": "store", "users": 1, "held_out": 9},
        privacy=PRIVACY,
        fault={"kind": "concatenated", "share": 0.3},
    )

    def commands(world: World) -> None:
        (world.folder / "recipe.toml").write_text(made.to_toml())
        world.run("inspect", "text", "recipe.toml", "--out", "runs/one")
        world.run("guarantee", "runs/one", "--json")
        world.run("report", "runs/one", "--share")

    found = compared(tmp_path, capfd, write, list(EVERYBODY), commands)
    assert not found, "\n".join(found)


@pytest.mark.slow
def test_an_inspection_of_images(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    tree = tiny_images().model_dump(mode="json", exclude_none=True)
    del tree["data"]["world"]
    made = parse_image_inspection({**tree, "data": {**tree["data"], "store": "store"}})

    def commands(world: World) -> None:
        (world.folder / "recipe.toml").write_text(made.to_toml())
        world.run("inspect", "images", "recipe.toml", "--out", "runs/one")
        for stage in ("classifier", "accuracy", "high", "low"):
            world.run("guarantee", f"runs/one/{stage}", "--json")
            world.run("report", f"runs/one/{stage}", "--share")

    def store(folder: Path, who: Sequence[int]) -> None:
        write_image_store(folder, who, SILENT)

    found = compared(tmp_path, capfd, store, list(range(60)), commands, gone=SILENT)
    assert not found, "\n".join(found)
