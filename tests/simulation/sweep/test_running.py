"""Running a sweep: finished runs are not repeated, unfinished ones go on, and one that fails does not stop the others."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

import tacit
from tacit.privacy.record.ledger import read_ledger
from tacit.recipe.sweep import SweepCase
from tacit.runs.journal import RunJournal
from tacit.simulation.sweep import one_run
from tacit.simulation.sweep.running import environment_for
from tests.support.ctrl_c import hearing_ctrl_c
from tests.support.run_arrays import assert_same_arrays
from tests.support.stopping import stop_after
from tests.support.swept import cases_with_noise, on_store, small_store


class Heard(tacit.SweepCallback):
    """What the callback was told, in order."""

    def __init__(self) -> None:
        self.ends: dict[str, str] = {}
        self.begun: list[str] = []
        self.evaluations: list[tuple[str, int]] = []

    def on_begin(self, case: str, number: int, cases: int) -> None:
        self.begun.append(case)

    def on_evaluation(self, case: str, round: int, metrics: Any) -> None:
        self.evaluations.append((case, round))

    def on_end(self, case: str, result: tacit.CaseResult) -> None:
        self.ends[case] = result.state


@pytest.fixture
def store(tmp_path: Path) -> Path:
    return small_store(tmp_path / "store")


def test_a_sweep_goes_on_where_it_was(tmp_path: Path, store: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cases, out, heard = cases_with_noise(store, [2.0, 3.0, 4.0], run={"rounds": 3}), tmp_path / "sweep", Heard()
    with monkeypatch.context() as patch:
        patch.setattr(RunJournal, "before", stop_after(RunJournal.before, 1))
        with pytest.raises(tacit.StopRequested):
            tacit.sweep(cases, out=out, callback=heard)
    assert heard.ends == {"z2": "stopped"}
    found = tacit.sweep(cases, out=out, only=["z2", "z3"], callback=heard)
    assert heard.ends == {"z2": "finished", "z3": "finished"}
    before = {name: found.run(name).ledger.head for name in ("z2", "z3")}
    last = Heard()
    found = tacit.sweep(cases, out=out, callback=last)
    assert last.begun == ["z4"]
    assert last.evaluations == [("z4", 1), ("z4", 2), ("z4", 3)]
    assert {name: found.run(name).ledger.head for name in before} == before
    assert [(each.name, each.state, each.rounds) for each in found.results()] == [
        ("z2", "finished", 3),
        ("z3", "finished", 3),
        ("z4", "finished", 3),
    ]
    assert set(found.epsilons()) == {"z2", "z3", "z4"}
    assert found.plot(tmp_path / "sweep.svg").stat().st_size > 1_000


def test_runs_that_diverge_or_fail_do_not_stop_the_others(
    tmp_path: Path, store: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    diverges = on_store(store, server={"optimizer": "sgd", "learning_rate": 1e30}, run={"rounds": 4})
    cases = [SweepCase("diverges", diverges), SweepCase("fails", on_store(store)), SweepCase("good", on_store(store))]
    train = one_run._train

    def failing(path: Path, *arguments: Any) -> None:
        if path.name == "fails":
            raise MemoryError
        train(path, *arguments)

    heard = Heard()
    with monkeypatch.context() as patch:
        patch.setattr(one_run, "_train", failing)
        found = tacit.sweep(cases, out=tmp_path / "sweep", callback=heard)
    assert heard.ends == {"diverges": "diverged", "fails": "failed", "good": "finished"}
    problem = found.results()[1].problem
    assert problem is not None
    assert problem.startswith("MemoryError; ")
    assert "MemoryError" in (tmp_path / "sweep/private/fails.log").read_text()
    again = Heard()
    tacit.sweep(cases, out=tmp_path / "sweep", callback=again)
    assert again.ends == {"fails": "finished"}  # what diverged would diverge again; what failed is tried again


def test_after_its_minutes_no_run_begins(tmp_path: Path, store: Path) -> None:
    found = tacit.sweep(cases_with_noise(store, [2.0]), out=tmp_path / "sweep", minutes=0)
    assert [each.state for each in found.results()] == ["waiting"]
    with pytest.raises(tacit.TacitError, match="has not begun"):
        found.run("z2")
    with pytest.raises(tacit.TacitError, match="has no case 'z9'"):
        found.run("z9")
    with pytest.raises(tacit.TacitError, match="No case of the sweep begins with 'y'"):
        tacit.sweep(cases_with_noise(store, [2.0]), out=tmp_path / "sweep", only=["y"])


def test_a_folder_that_was_half_made_is_made_again_and_one_with_more_is_not(tmp_path: Path, store: Path) -> None:
    cases, out = cases_with_noise(store, [2.0, 3.0]), tmp_path / "sweep"
    tacit.sweep(cases, out=out, minutes=0)
    (out / "z2/private").mkdir(parents=True)
    (out / "z2/recipe.toml").touch()
    (out / "z3/private").mkdir(parents=True)
    (out / "z3/private/participation.bin").write_bytes(b"x")
    found = {each.name: each for each in tacit.sweep(cases, out=out).results()}
    assert found["z2"].state == "finished"
    assert found["z3"].state == "failed"
    assert "is not empty and holds no run" in str(found["z3"].problem)
    assert (out / "z3/private/participation.bin").exists()


def test_a_store_at_another_place_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for place in ("here", "there"):
        (tmp_path / place).mkdir()
        small_store(tmp_path / place / "store")
    cases = [SweepCase("one", on_store(Path("store")))]
    monkeypatch.chdir(tmp_path / "here")
    tacit.sweep(cases, out=tmp_path / "sweep", minutes=0)
    monkeypatch.chdir(tmp_path / "there")
    [found] = tacit.sweep(cases, out=tmp_path / "sweep").results()
    assert found.state == "failed"
    assert "start it from the same folder as before" in str(found.problem)
    assert not (tmp_path / "there/store/odometer.jsonl").exists()


def test_processes_share_cores_and_memory_unless_the_person_chose() -> None:
    shared = environment_for(4, {})
    assert shared["XLA_PYTHON_CLIENT_MEM_FRACTION"] == "0.200"
    assert int(shared["JAX_NUM_CPU_DEVICES"]) >= 1
    assert shared["NPROC"] == shared["JAX_NUM_CPU_DEVICES"]
    chosen = {"XLA_PYTHON_CLIENT_MEM_FRACTION": "0.5", "JAX_NUM_CPU_DEVICES": "3"}
    assert environment_for(4, chosen) == chosen
    assert "JAX_NUM_CPU_DEVICES" not in environment_for(2, {"XLA_FLAGS": "--xla_force_host_platform_device_count=2"})


@pytest.mark.process
def test_runs_in_processes_are_those_of_one_process(tmp_path: Path, store: Path) -> None:
    cases = cases_with_noise(store, [2.0, 3.0], run={"rounds": 3, "seed": 1})
    heard = Heard()
    alone = tacit.sweep(cases, out=tmp_path / "alone")
    together = tacit.sweep(cases, out=tmp_path / "together", at_once=2, callback=heard)
    assert heard.ends == {"z2": "finished", "z3": "finished"}
    assert sorted(heard.evaluations) == [(name, round) for name in ("z2", "z3") for round in (1, 2, 3)]
    for name in alone.names:
        assert_same_arrays(alone.path / name, together.path / name)


SWEEPING = """
import sys, tacit
from tests.support.swept import cases_with_noise
from pathlib import Path
tacit.sweep(cases_with_noise(Path(sys.argv[1]), [2.0, 3.0], run={"rounds": 120, "checkpoint_every": 5, "evaluate_every": 100}),
    out=sys.argv[2], at_once=2)
"""


def until_free(sweep: tacit.Sweep) -> None:
    while True:
        with suppress(tacit.TacitError), sweep._folder.locked():
            return
        time.sleep(0.05)


@pytest.mark.process
@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGINT])
def test_a_sweep_that_is_killed_leaves_no_process_and_goes_on(tmp_path: Path, store: Path, number: int) -> None:
    out = tmp_path / "sweep"
    with hearing_ctrl_c():
        process = subprocess.Popen([sys.executable, "-c", SWEEPING, str(store), str(out)], stderr=subprocess.DEVNULL)
    ledgers = [out / name / "ledger.jsonl" for name in ("z2", "z3")]
    while not all(path.exists() and len(path.read_bytes().splitlines()) > 20 for path in ledgers):
        assert process.poll() is None
        time.sleep(0.05)
    os.kill(process.pid, number)
    process.wait()
    sweep = tacit.open_sweep(out)
    cases = cases_with_noise(store, [2.0, 3.0], run={"rounds": 120, "checkpoint_every": 5, "evaluate_every": 100})
    planned = [each.epsilon for each in sweep.cost()]
    until_free(sweep)  # processes that are left over hold it, and stop by themselves
    done = tacit.sweep(cases, out=out)
    assert [each.state for each in done.results()] == ["finished", "finished"]
    for path in ledgers:
        ledger = read_ledger(path)
        assert {intent.round for intent in ledger.intents} == set(range(120))
        kinds = [json.loads(line)["kind"] for line in path.read_text().splitlines()]
        assert kinds.count("resumed") == 1
    assert [each.epsilon for each in done.cost()] >= planned
