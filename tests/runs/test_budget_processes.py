"""The account under real processes: several at once, killed with kill -9 at any moment."""

from __future__ import annotations

import random
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tacit.fleet.database.migrations import migrate
from tacit.privacy.accounting.budget_filter import Limit, spending
from tacit.privacy.accounting.charges import Charge
from tests.support.budget_worker import engine_of, opened
from tests.support.fleet.postgres import KINDS, postgres_server, postgres_url

__all__ = ["postgres_server", "postgres_url"]
pytestmark = pytest.mark.process


@pytest.fixture(params=["file", *KINDS])
def people(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    """The folder of a store, or the URL of a fleet's database."""
    if request.param == "file":
        (tmp_path / "store").mkdir()
        yield str(tmp_path / "store")
        return
    url = f"sqlite:///{tmp_path}/fleet.db" if request.param == "sqlite" else request.getfixturevalue("postgres_url")
    migrate(engine_of(url))
    yield str(url)
    engine_of(url).dispose()


@pytest.fixture
def ledgers(tmp_path: Path) -> Path:
    (tmp_path / "ledgers").mkdir()
    return tmp_path / "ledgers"


def start(people: str, ledgers: Path, name: str, rho: float, jobs: int) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", "tests.support.budget_worker", people, ledgers, name, rho, jobs]
    return subprocess.Popen([str(each) for each in command])


def wait_until_ready(ledgers: Path, names: list[str]) -> None:
    while not all((ledgers / f"{name}.ready").exists() for name in names):
        time.sleep(0.01)


def charge_of(ledgers: Path, run: str) -> Charge | None:
    ledger = ledgers / run
    return Charge("user", "add or remove one user", rho=float(ledger.read_text())) if ledger.exists() else None


def test_of_two_processes_that_race_for_the_last_of_the_budget_one_is_refused(people: str, ledgers: Path) -> None:
    opened(people).set_limit(Limit(None, None, 1.0))
    racing = [start(people, ledgers, name, 0.6, 1) for name in "ab"]
    wait_until_ready(ledgers, ["a", "b"])
    (ledgers / "go").touch()
    assert sorted(process.wait() for process in racing) == [0, 1]
    assert sum((ledgers / f"{name}-0").exists() for name in "ab") == 1


def test_processes_that_are_killed_lose_no_charge_and_spend_nothing_twice(people: str, ledgers: Path) -> None:
    dice = random.Random(3)
    limit = Limit(None, None, 1.0)
    opened(people).set_limit(limit)
    running = {name: start(people, ledgers, name, 0.002, 1_000) for name in "abcd"}
    wait_until_ready(ledgers, list(running))
    (ledgers / "go").touch()
    while len(list(ledgers.iterdir())) < 40:
        time.sleep(0.01)
    for process in running.values():
        time.sleep(dice.random() / 5)
        process.send_signal(signal.SIGKILL)
        process.wait()
    began = [path.name for path in ledgers.iterdir() if path.name != "go" and "." not in path.name]
    history = opened(people).history()
    assert began
    assert spending(history.charges, limit).value <= 1.0
    assert set(began) <= history.charges.keys()
    for job in history.jobs.values():
        if job.open:
            opened(people).settle(job.run, lambda run=job.run: charge_of(ledgers, run))  # type: ignore[misc]
    settled = opened(people).history()
    assert settled.charges.keys() == set(began)
    assert not any(job.open for job in settled.jobs.values())
    # What is left can be spent, to the last of it.
    last = start(people, ledgers, "last", 0.05, 100)
    left = 1.0 - 0.002 * len(began)
    assert last.wait() == int(left / 0.05 + 1e-9)


def test_random_sequences_of_processes_that_are_killed() -> None:
    """`python -m tests.support.budget_storm --sequences 10000` runs as many as one likes."""
    command = [sys.executable, "-m", "tests.support.budget_storm", "--sequences", "12"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "Never over the budget" in done.stdout
