"""A run on devices, with and without a device that is enrolled and never comes: nothing public may tell which it was."""

from __future__ import annotations

from pathlib import Path

import jax
import pytest

from tacit.fleet.database.migrations import migrate
from tacit.fleet.database.transactions import open_database
from tacit.fleet.rounds import coordinator, round_attempt
from tests.support.fleet.crowd import Crowd, Server, fleet_recipe
from tests.support.fleet.people import enrolled_many
from tests.support.fleet.soundness import built
from tests.support.neighbours import World, fix_randomness

COMING = 4


def served(folder: Path, capture: pytest.CaptureFixture[str], devices: int) -> World:
    """Three rounds of four devices, out of so many that are enrolled; the first four come to every round."""
    folder.mkdir()
    (folder / "runs").mkdir()
    engine = open_database(f"sqlite:///{folder}/fleet.db")
    migrate(engine)
    coming = enrolled_many(engine, devices)[:COMING]
    privacy = {"mechanism": "gaussian", "noise_multiplier": 1.5, "min_separation": 0, "cohort": COMING, "delta": 1e-3}
    recipe = fleet_recipe(privacy=privacy, fleet={"over_selection": 1.0})
    size = sum(leaf.size for leaf in jax.tree.leaves(built(recipe.to_toml()).start.model))
    with pytest.MonkeyPatch.context() as patch:
        fix_randomness(patch)
        patch.setattr(round_attempt, "POLL_S", 0.02)
        patch.setattr(coordinator, "_FIRST_PAUSE_S", 0.05)
        with (
            Server(engine, recipe, folder / "runs" / "one") as server,
            Crowd(engine, server.aggregators, coming, size),
        ):
            server.coordinator.run()
        world = World(folder, capture)
        world.run("guarantee", "runs/one", "--json")
        world.run("report", "runs/one", "--share")
    engine.dispose()
    return world


@pytest.mark.slow
def test_a_device_that_never_comes(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    with_, without = (served(tmp_path / str(devices), capfd, devices).public() for devices in (13, 12))
    assert "runs/one/summary.json" in with_.parts
    found = with_.differences(without)
    assert not found, "\n".join(found)
