"""Faults of the server, each against real processes over a real PostgreSQL: any of them is killed in any phase of a round, the
database crashes, the disk is full, clocks disagree.

After each, training goes on to its last round, the ledger is whole and names everybody who took part, and the model is made of
what those in the record sent, each once.
"""

from __future__ import annotations

import subprocess
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path

import pytest

from tacit.fleet.rounds.secure_aggregation import STAGES
from tacit.recipe.training import Recipe
from tests.support.fleet.crowd import fleet_recipe, wait_for
from tests.support.fleet.postgres import PostgresServer
from tests.support.fleet.processes import BEFORE_INTENT, PHASES, REPORTING, ROLES, Fleet
from tests.support.fleet.soundness import cohorts, require_sound, states

OFTEN = 9


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """Room for a run, and for little else."""
    folder = tmp_path / "coordinator"
    folder.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", "size=24m", "tmpfs", str(folder)]
    if subprocess.run(command, capture_output=True).returncode != 0:
        pytest.skip("a disk of a few megabytes cannot be mounted: that takes root")
    yield folder
    subprocess.run(["umount", "--lazy", str(folder)], check=True)


def kill_in_each(phases: Sequence[str], fleet: Fleet, role: str) -> None:
    """Kill this process in the first phase of the first round, in the second of the second, and so on, to the run's end."""
    for done, phase in enumerate(phases, start=1):
        with fleet.halted(phase):
            fleet.kill(role)
        fleet.replace(role)
        fleet.goes_on(to=done)
    assert fleet.ended() == 0


@pytest.mark.parametrize("role", ROLES)
def test_any_process_is_killed_in_every_phase(role: str, postgres_url: str, tmp_path: Path) -> None:
    recipe = fleet_recipe(run={"rounds": len(PHASES)}, privacy={"max_participation": OFTEN})
    with Fleet(tmp_path, postgres_url, recipe) as fleet:
        kill_in_each(PHASES, fleet, role)
        require_sound(fleet.engine, recipe, fleet.run, wanted=len(PHASES), often=OFTEN)
    assert "Traceback" not in fleet.logs()
    if role == "coordinator":
        # After the intent, too: the next coordinator goes on with the sum, which is released once.
        assert attempts(fleet) == [(round, 0) for round in range(len(PHASES))]


@pytest.mark.parametrize("role", ["aggregator", "coordinator"])
def test_any_process_is_killed_in_every_stage_of_secure_aggregation(
    role: str, postgres_url: str, tmp_path: Path
) -> None:
    phases = (*STAGES, BEFORE_INTENT)
    recipe = secure_recipe(rounds=len(phases))
    with Fleet(tmp_path, postgres_url, recipe) as fleet:
        kill_in_each(phases, fleet, role)
        require_sound(fleet.engine, recipe, fleet.run, wanted=len(phases), often=OFTEN, atol=1e-5)
    assert "Traceback" not in fleet.logs()
    # Masks come off after the intent: a round that is lost from then on is accounted for, and runs again. It is lost with the
    # process that holds the masked sum, and not with the coordinator.
    after = {"aggregator": ("agree", "reveal", BEFORE_INTENT), "coordinator": ()}[role]
    assert [round for round, attempt in attempts(fleet) if attempt == 1] == [phases.index(phase) for phase in after]


def test_a_round_of_secure_aggregation_outlives_a_selector_in_every_stage(postgres_url: str, tmp_path: Path) -> None:
    recipe = secure_recipe(rounds=1)
    with Fleet(tmp_path, postgres_url, recipe) as fleet:
        for phase in STAGES:
            with fleet.halted(phase):
                fleet.kill("selector")
            fleet.replace("selector")
        assert fleet.ended() == 0
        require_sound(fleet.engine, recipe, fleet.run, wanted=1, atol=1e-5)
        assert states(fleet.engine) == [(0, "committed")]  # it was never given up
    assert attempts(fleet) == [(0, 0)]


def test_the_database_crashes_in_every_phase(
    postgres_url: str, postgres_server: PostgresServer, tmp_path: Path
) -> None:
    recipe = fleet_recipe(run={"rounds": len(PHASES)}, privacy={"max_participation": OFTEN})
    with Fleet(tmp_path, postgres_url, recipe) as fleet:
        for done, phase in enumerate(PHASES, start=1):
            with fleet.halted(phase):
                postgres_server.stop("immediate")
                postgres_server.start()
            fleet.goes_on(to=done)
        assert fleet.ended() == 0
        require_sound(fleet.engine, recipe, fleet.run, wanted=len(PHASES), often=OFTEN)
    assert "Traceback" not in fleet.logs()


def test_a_full_disk_is_waited_for(postgres_url: str, small_disk: Path, tmp_path: Path) -> None:
    recipe = fleet_recipe()
    ballast = small_disk / "ballast"
    ballast.write_bytes(bytes(12 << 20))
    with Fleet(tmp_path, postgres_url, recipe) as fleet:
        wait_for(lambda: "waiting for disk space" in fleet.logs())
        assert fleet.latest() is None  # what could not be saved is not begun
        ballast.unlink()
        fleet.goes_on(to=1)
        with fleet.halted(REPORTING):
            with suppress(OSError), ballast.open("wb", buffering=0) as file:
                while file.write(bytes(1 << 16)):
                    pass
            fleet.phones.go(lambda: "continuing from the ledger" in fleet.logs())
            ballast.unlink()
        assert fleet.ended() == 0
        require_sound(fleet.engine, recipe, fleet.run)
    assert "Traceback" not in fleet.logs()


def test_clocks_that_disagree_change_nothing(postgres_url: str, tmp_path: Path) -> None:
    recipe = fleet_recipe()
    with Fleet(tmp_path, postgres_url, recipe, skews={"selector": -7200, "aggregator": 3600}) as fleet:
        fleet.goes_on(to=1)
        fleet.kill("selector")
        fleet.replace("selector", skew_s=7200)
        fleet.kill("aggregator")
        fleet.replace("aggregator", skew_s=-3600)
        fleet.goes_on(to=2)
        fleet.kill("coordinator")
        fleet.replace("coordinator", skew_s=-86_400)
        assert fleet.ended() == 0
        require_sound(fleet.engine, recipe, fleet.run)


def secure_recipe(*, rounds: int) -> Recipe:
    return fleet_recipe(
        run={"rounds": rounds},
        privacy={"max_participation": OFTEN, "secagg": {"bits": 24}},
        fleet={"deadline_s": 1200.0, "selection_s": 600.0, "stage_s": 120.0, "dropout": 0.4},
    )


def attempts(fleet: Fleet) -> list[tuple[int, int]]:
    return [(round, attempt) for round, attempt, _ in cohorts(fleet.run)]
