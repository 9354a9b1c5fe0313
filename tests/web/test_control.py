"""Stop and resume from a page: what the process of the run does, and what is refused."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import pytest

from tacit.privacy.plan import PrivacyPlan
from tacit.privacy.record.facts import FleetRecord
from tacit.runs.folder import RunFolder
from tacit.web.control import writer_of
from tests.support.boards import client_of, keys, until
from tests.support.made_runs import made_run
from tests.support.planned_ledgers import POISSON, opened_with
from tests.support.tiny_recipe import killable

TOKEN = "t" * 40
OWN = {"origin": "http://127.0.0.1:8080"}
FLEET = FleetRecord(
    transport="https",
    secure_aggregation=False,
    checks_norms=True,
    over_selection=1.3,
    timer_s=60.0,
    dropout=None,
    corruption=None,
)


def state(client, name: str) -> str:
    return next(row["state"] for row in client.get("/api/runs").json()["runs"] if row["name"] == name)


def test_what_cannot_be_stopped_or_resumed(tmp_path: Path) -> None:
    made_run(tmp_path / "done")
    kind = made_run(tmp_path / "words", recipe='name = "words"\ninspect = "text"\n', outcome="stopped")
    with client_of(tmp_path, control=True, token=TOKEN) as client:
        known = keys(client)
        told = client.post(f"/api/runs/{known['done']}/stop", headers=OWN)
        assert (told.status_code, told.json()["problem"]) == (409, "No process is training this run now.")
        told = client.post(f"/api/runs/{known['words']}/resume", headers=OWN)
        assert f"tacit inspect text --resume {kind.path}" in told.json()["problem"]
        assert client.post(f"/api/runs/{'0' * 16}/stop", headers=OWN).status_code == 404
        client.headers.pop("authorization")
        assert client.post(f"/api/runs/{known['done']}/stop", headers=OWN).status_code == 401


def test_a_run_of_devices_is_left_to_its_server(tmp_path: Path) -> None:
    plan = PrivacyPlan(**POISSON)
    run = RunFolder.create(tmp_path / "fleet", 'name = "fleet"\n')
    with (
        run.create_ledger(opened_with(plan, run_id=run.run_id, fleet=FLEET)),
        client_of(  # its process is this one
            tmp_path, control=True, token=TOKEN
        ) as client,
    ):
        for what in ("stop", "resume"):
            told = client.post(f"/api/runs/{keys(client)['fleet']}/{what}", headers=OWN)
            assert told.status_code == 409
            assert "its server is stopped where it runs" in told.json()["problem"]


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells which process holds a lock")
@pytest.mark.process
def test_the_process_that_writes_is_found(tmp_path: Path) -> None:
    run = made_run(tmp_path / "one", outcome=None)
    hold = "import fcntl, sys, time; f = open(sys.argv[1]); fcntl.flock(f, fcntl.LOCK_EX); print(1, flush=True); time.sleep(60)"
    holder = subprocess.Popen([sys.executable, "-c", hold, str(run.ledger_path)], stdout=subprocess.PIPE)
    try:
        assert holder.stdout is not None
        holder.stdout.readline()
        assert writer_of(run.ledger_path) == holder.pid
    finally:
        holder.kill()
        holder.communicate()


@pytest.mark.process
@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells which process holds a lock")
def test_a_run_is_stopped_and_goes_on(tmp_path: Path) -> None:
    (tmp_path / "tiny.toml").write_text(killable("").to_toml())
    path = tmp_path / "runs" / "one"
    command = [sys.executable, "-m", "tacit", "train", "tiny.toml", "--out", str(path), "--set", "run.rounds=400"]
    training = subprocess.Popen(command, cwd=tmp_path, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    resumed = None
    try:
        until(lambda: (path / "run.json").exists() and RunFolder.open(path).begun, "the run to begin")
        with client_of(tmp_path / "runs", control=True, token=TOKEN) as client:
            key = keys(client)["one"]
            until(lambda: state(client, "one") == "running", "the board to see it")
            assert client.post(f"/api/runs/{key}/resume", headers=OWN).status_code == 409  # it is being trained
            assert client.post(f"/api/runs/{key}/stop", headers=OWN).status_code == 200
            until(lambda: training.poll() is not None, "the process to end")
            until(lambda: state(client, "one") == "stopped", "the board to see that")
            before = RunFolder.open(path).ledger().next_round
            assert client.post(f"/api/runs/{key}/resume", headers=OWN).json()["said"].startswith("It goes on")
            resumed = until(
                lambda: state(client, "one") == "running" and writer_of(path / "ledger.jsonl"), "it to go on"
            )
            until(lambda: RunFolder.open(path).ledger().next_round > before, "another round")
            assert client.post(f"/api/runs/{key}/stop", headers=OWN).status_code == 200
            until(lambda: state(client, "one") in ("stopped", "finished"), "the second end")
            resumed = None
        ledger = RunFolder.open(path).accountable_ledger()
        assert len(ledger.intents) == ledger.next_round  # stopped after a round, so none ran twice
    finally:
        training.kill()
        training.wait()
        if resumed:
            with suppress(ProcessLookupError):
                os.kill(resumed, signal.SIGKILL)


@pytest.mark.process
def test_a_resume_that_is_refused_says_why(tmp_path: Path) -> None:
    made_run(tmp_path / "runs" / "made", outcome="stopped")  # its recipe is none that can be trained
    with client_of(tmp_path / "runs", control=True, token=TOKEN) as client:
        told = client.post(f"/api/runs/{keys(client)['made']}/resume", headers=OWN)
    assert told.status_code == 409
    assert told.json()["problem"].endswith(".")
    assert "Traceback" not in told.text
