"""A database that is away for a moment, at any step of a run, ends no process and wedges no run."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest
from sqlalchemy import Engine

from tacit.fleet.rounds import coordinator, round_attempt
from tacit.privacy.record.ledger import read_ledger
from tests.support.fleet.crowd import Crowd, Server, fleet_recipe
from tests.support.fleet.outages import When, failing_once_everywhere
from tests.support.fleet.people import enrolled_many
from tests.support.fleet.soundness import built, flat, require_sound

# What a run asks the database, and where its transactions end. Fewer would mean that the test has stopped to reach them.
LEAST = {"statement": 30, "before commit": 12, "after commit": 12}


@pytest.mark.slow
@pytest.mark.parametrize("when", ["statement", "before commit", "after commit"])
def test_a_run_goes_on_after_each_of_its_steps_has_failed_once(
    sqlite_engine: Engine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, when: When
) -> None:
    for module, name in ((round_attempt, "POLL_S"), (round_attempt, "_RETRY_S"), (coordinator, "_FIRST_PAUSE_S")):
        monkeypatch.setattr(module, name, 0.02)
    monkeypatch.setattr(coordinator, "_LONGEST_PAUSE_S", 0.02)
    monkeypatch.setattr(coordinator, "setup_of", lambda folder, callback: built(folder.recipe_path.read_text()))
    recipe = fleet_recipe(fleet={"most_lost": 500})
    devices, run = enrolled_many(sqlite_engine, 12), tmp_path / "run"
    server = Server(sqlite_engine, recipe, run)
    size = len(flat(built(recipe.to_toml()).start.model))
    crowd = Crowd(sqlite_engine, server.aggregators, devices, size)
    # Devices are served by other processes, which answer 503 and are asked again.
    with (
        failing_once_everywhere(
            sqlite_engine, when, spares=lambda: threading.current_thread() is crowd.thread
        ) as failed,
        server,
        crowd,
    ):
        summary = server.coordinator.run()
    assert summary is not None
    assert len({step[-1] for step in failed}) >= LEAST[when], failed
    ledger = read_ledger(run / "ledger.jsonl")
    assert ledger.closed is not None
    assert ledger.closed.outcome == "finished"
    require_sound(sqlite_engine, recipe, run)
