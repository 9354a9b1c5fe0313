"""Random sequences of jobs with crashes at every durable step: never over the budget, never a charge lost, always readable.

A crash is simulated by an exception at a write: before it, in the middle of the line, after it but before anybody learns of it.
What was released is kept beside the account, as a ledger would keep it; the account must cover it at all times.
"""

from __future__ import annotations

import os
import random
from pathlib import Path

import pytest

from tacit.errors import BudgetError
from tacit.privacy.accounting.budget_filter import Limit, spending
from tacit.privacy.accounting.charges import Charge
from tacit.runs.budget import of_store
from tacit.runs.budget.of_store import NAME, account_of
from tacit.runs.budget.records import ChargedRun, History
from tacit.runs.odometer import NAME as ODOMETER

ADD = "add or remove one user"
LIMIT = Limit(None, None, 1.0)
CHOICES = (0.01, 0.11, 0.3, 0.45, 0.8)


class Crash(BaseException):
    """The process is gone."""


class Disk:
    """Writes lines, and crashes when it is told to: `at` counts down over writes."""

    def __init__(self) -> None:
        self.at: int | None = None
        self.how = ""

    def append(self, descriptor: int, data: bytes) -> None:
        if self.at is not None:
            self.at -= 1
            if self.at < 0:
                self.at = None
                keep = {"before": b"", "torn": data[: len(data) // 2], "zeros": b"\0" * len(data), "after": data}
                os.write(descriptor, keep[self.how])
                raise Crash
        os.write(descriptor, data)


class People:
    """A store whose jobs are made up: what each has planned, and what it has released so far, in its ledger."""

    def __init__(self, store: Path) -> None:
        self.store = store
        self.ledgers: dict[str, list[float]] = {}  # the planned cost and the released cost, of runs that began
        self.begun = 0

    def charge_of(self, run: str) -> Charge | None:
        ledger = self.ledgers.get(run)
        return None if ledger is None else Charge("user", ADD, rho=max(ledger))

    def unknown_to(self, history: History) -> list[ChargedRun]:
        """The runs that began and that the account does not know, as `listed.charged_runs` finds them."""
        found = [(run, self.charge_of(run)) for run in self.ledgers if run not in history.charges]
        return [ChargedRun(run, "runs", charge, ended=True) for run, charge in found if charge is not None]

    def job(self, run: str, cost: float, dice: random.Random) -> None:
        """A run from its reservation to its settlement; it may add an attempt on the way."""
        account = account_of(self.store)
        account.reserve(run, "runs", lambda: Charge("user", ADD, rho=cost))
        if dice.random() < 0.1:
            raise Crash  # between the reservation and the ledger
        ledger = self.ledgers.setdefault(run, [cost, 0.0])
        account.reserve(run, "runs", lambda: Charge("user", ADD, rho=max(cost, *ledger)))
        ledger[1] = max(ledger[1], cost * dice.random())
        if dice.random() < 0.3:  # a round that runs again
            more = max(*ledger) + cost / 4
            account.reserve(run, "runs", lambda: Charge("user", ADD, rho=more))
            if dice.random() < 0.2:
                raise Crash  # reserved, and nothing of it released
            ledger[:] = [more, more]
        if dice.random() < 0.2:
            raise Crash
        account.settle(run, lambda: self.charge_of(run))

    def verify(self) -> None:
        """The account can be read, is within the budget, and covers what was released."""
        history = account_of(self.store).history()
        if history.limit is None:
            return  # the first command that set one crashed
        assert spending(history.charges, history.limit).value <= history.limit.value
        assert sum(released for _, released in self.ledgers.values()) <= history.limit.value * (1 + 1e-12)
        for run in self.ledgers:
            charge = self.charge_of(run)
            assert charge is not None
            assert history.charges[run].covers(charge), run


def one_sequence(store: Path, seed: int, disk: Disk) -> tuple[int, int, int]:
    """Jobs, changes of the budget and settlements with crashes at writes; how many were refused, crashed and began."""
    dice, people = random.Random(seed), People(store)
    refused = crashed = began = 0
    for step in range(dice.randint(4, 9)):
        disk.at = dice.randrange(5) if dice.random() < 0.5 else None
        disk.how = dice.choice(["before", "torn", "zeros", "after"])
        try:
            what = dice.random()
            if step == 0 or what < 0.1:
                account_of(store).set_limit(Limit(None, None, dice.choice([0.5, 1.0, 1.0, 2.0])), people.unknown_to)
            elif what < 0.25:
                for run, job in list(account_of(store).history().jobs.items()):
                    if job.open:
                        account_of(store).settle(run, lambda run=run: people.charge_of(run))  # type: ignore[misc]
            else:
                known = [run for run, (planned, released) in people.ledgers.items() if released < planned]
                run = dice.choice(known) if known and dice.random() < 0.3 else f"run{step}"
                people.job(run, dice.choice(CHOICES), dice)
                began += 1
        except BudgetError:
            refused += 1
        except Crash:
            crashed += 1
        disk.at = None
        people.verify()
    return refused, crashed, began


@pytest.fixture
def disk(monkeypatch: pytest.MonkeyPatch) -> Disk:
    """A disk that crashes on request, and does not wait otherwise."""
    found = Disk()
    monkeypatch.setattr(of_store, "append_synced", found.append)
    monkeypatch.setattr("tacit.runs.odometer.append_synced", found.append)
    monkeypatch.setattr("tacit.files.os.fsync", lambda descriptor: None)
    return found


def run_sequences(folder: Path, seeds: range, disk: Disk) -> None:
    total = [0, 0, 0]
    for seed in seeds:
        for name in (NAME, ODOMETER):
            (folder / name).unlink(missing_ok=True)
        try:
            found = one_sequence(folder, seed, disk)
        except BaseException:
            print(f"sequence {seed}")
            raise
        total = [before + more for before, more in zip(total, found, strict=True)]
    assert min(total) > len(seeds) / 4, total  # jobs were refused, jobs crashed, and jobs ran


def test_some_random_sequences(tmp_path: Path, disk: Disk) -> None:
    run_sequences(tmp_path, range(200), disk)


@pytest.mark.slow
@pytest.mark.parametrize("thousand", range(1, 11))
def test_ten_thousand_random_sequences(tmp_path: Path, disk: Disk, thousand: int) -> None:
    run_sequences(tmp_path, range(1_000 * thousand, 1_000 * (thousand + 1)), disk)
