"""An audited run on D and D′: planted phrases are the same others' whoever else is there, and nobody is counted in public."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.support.neighbour_runs import EVERYBODY, recipe, stating, write
from tests.support.neighbours import World, compared


@pytest.mark.slow
@pytest.mark.parametrize("rate", [(), ("--device-rate", 0.4)])
def test_an_audited_run(rate: tuple[object, ...], tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    def commands(world: World) -> None:
        (world.folder / "recipe.toml").write_text(recipe())
        plant = ("audit", "plant", "recipe.toml", "--devices", 0, "--sharers", 1, "--coins", 6, "--copies", 2)
        world.run(*plant, *rate, "--expected-sharers", "5,10,20", "--seed", 7, "--out", "plan.json")
        # The recipe keeps the plan's whole path, so both worlds train with the plan in one place. It is the same plan.
        common = tmp_path / "plan.json"
        if not common.exists():
            shutil.copy(world.folder / "plan.json", common)
        assert common.read_bytes() == (world.folder / "plan.json").read_bytes()
        world.run("train", "recipe.toml", "--set", f"audit.plan={common}", "--out", "runs/one")
        stating(world, "runs/one")
        shared = (world.folder / "runs" / "one" / "report.html").read_text()
        assert str(tmp_path) not in shared, "the shared report names a place on the owner's machine"

    found = compared(tmp_path, capfd, write, list(EVERYBODY), commands)
    assert not found, "\n".join(found)
