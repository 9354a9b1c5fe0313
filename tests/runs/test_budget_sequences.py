"""Random sequences of jobs with crashes at every durable step: never over the budget, never a charge lost, always readable.

Jobs go on side by side, one step of one of them at a time, as processes do whose account is locked for each step.
A crash is simulated by an exception at a write: before it, in the middle of the line, after it but before anybody learns of it.
What was released is kept beside the account, as a ledger would keep it; the account must cover it at all times.
"""

from __future__ import annotations

import os
import random
from collections import Counter
from collections.abc import Iterator
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
        self.going: dict[str, Iterator[None]] = {}

    def charge_of(self, run: str) -> Charge | None:
        ledger = self.ledgers.get(run)
        return None if ledger is None else Charge("user", ADD, rho=max(ledger))

    def unknown_to(self, history: History) -> list[ChargedRun]:
        """The runs that began and that the account does not know, as `listed.charged_runs` finds them."""
        found = [(run, self.charge_of(run)) for run in self.ledgers if run not in history.charges]
        return [ChargedRun(run, "runs", charge, run not in self.going) for run, charge in found if charge is not None]

    def settle_open(self) -> None:
        """Settle what no process has begun to write, as `listed.settle_open` does."""
        for run, job in account_of(self.store).history().jobs.items():
            if job.open and not (run in self.going and run in self.ledgers):
                account_of(self.store).settle(run, lambda run=run: self.charge_of(run))  # type: ignore[misc]

    def job(self, run: str, cost: float, dice: random.Random) -> Iterator[None]:
        """A run from its reservation to its settlement, other processes coming in between; it may add an attempt on the way."""
        account = account_of(self.store)
        account.reserve(run, "runs", lambda: Charge("user", ADD, rho=cost))
        yield
        ledger = self.ledgers.setdefault(run, [cost, 0.0])
        ledger[0] = max(ledger[0], cost)  # a run that goes on may have been extended
        yield
        account.reserve(run, "runs", lambda: Charge("user", ADD, rho=max(cost, *ledger)))
        yield
        ledger[1] = max(ledger[1], cost * dice.random())
        yield
        if dice.random() < 0.3:  # a round that runs again
            more = max(*ledger) + cost / 4
            account.reserve(run, "runs", lambda: Charge("user", ADD, rho=more))
            yield
            ledger[0] = more  # its intent, or the record that the run goes on
            yield
            account.reserve(run, "runs", lambda: Charge("user", ADD, rho=more))
            yield
            ledger[1] = more
            yield
        account.settle(run, lambda: self.charge_of(run))

    def verify(self) -> None:
        """The account can be read, is within the budget, and covers what was released."""
        history = account_of(self.store).history()
        released = {run: ledger[1] for run, ledger in self.ledgers.items() if ledger[1] > 0}
        if history.limit is None:
            return  # the first command that set one crashed
        assert spending(history.charges, history.limit).value <= history.limit.value
        assert sum(released.values()) <= history.limit.value * (1 + 1e-12)
        for run, cost in released.items():
            assert history.charges[run].rho >= cost, run


def one_sequence(store: Path, seed: int, disk: Disk) -> Counter[str]:
    """Jobs side by side, changes of the budget and settlements, with crashes at writes and between them; what happened."""
    dice, people, seen = random.Random(seed), People(store), Counter[str]()
    for step in range(dice.randint(8, 24)):
        disk.at = dice.randrange(3) if dice.random() < 0.3 else None
        disk.how = dice.choice(["before", "torn", "zeros", "after"])
        what, run = dice.random(), None
        try:
            if step == 0 or what < 0.07:
                account_of(store).set_limit(Limit(None, None, dice.choice([0.5, 1.0, 1.0, 2.0])), people.unknown_to)
            elif what < 0.15:
                people.settle_open()
            elif what < 0.2 and people.going:
                del people.going[dice.choice(list(people.going))]  # a process is killed between two writes
                seen["crashed"] += 1
            else:
                if what < 0.45 or not people.going:
                    left = [run for run, (planned, released) in people.ledgers.items() if released < planned]
                    again = [run for run in left if run not in people.going]
                    run = dice.choice(again) if again and dice.random() < 0.3 else f"run{step}"
                    people.going[run] = people.job(run, dice.choice(CHOICES), dice)
                    seen["began"] += 1
                    seen["side by side"] += len(people.going) > 1
                else:
                    run = dice.choice(list(people.going))
                next(people.going[run])
        except StopIteration:
            del people.going[run or ""]
            seen["ended"] += 1
        except BudgetError:
            people.going.pop(run or "", None)
            seen["refused"] += 1
        except Crash:
            people.going.pop(run or "", None)
            seen["crashed"] += 1
        disk.at = None
        people.verify()
    return seen


@pytest.fixture
def disk(monkeypatch: pytest.MonkeyPatch) -> Disk:
    """A disk that crashes on request, and does not wait otherwise."""
    found = Disk()
    monkeypatch.setattr(of_store, "append_synced", found.append)
    monkeypatch.setattr("tacit.runs.odometer.append_synced", found.append)
    monkeypatch.setattr("tacit.files.os.fsync", lambda descriptor: None)
    return found


def run_sequences(folder: Path, seeds: range, disk: Disk) -> None:
    total = Counter[str]()
    for seed in seeds:
        for name in (NAME, ODOMETER):
            (folder / name).unlink(missing_ok=True)
        try:
            found = one_sequence(folder, seed, disk)
        except BaseException:
            print(f"sequence {seed}")
            raise
        total += found
    for name in ("began", "side by side", "ended", "refused", "crashed"):
        assert total[name] > len(seeds) / 4, total


def test_some_random_sequences(tmp_path: Path, disk: Disk) -> None:
    run_sequences(tmp_path, range(200), disk)


def test_a_refused_run_whose_ledger_plans_more_is_not_charged_more_when_it_is_settled(tmp_path: Path) -> None:
    account, limit = account_of(tmp_path), Limit(None, None, 1.0)
    charges = [Charge("user", ADD, rho=rho) for rho in (0.3, 0.8)]
    account.set_limit(limit, lambda history: [ChargedRun("old", "runs", Charge("user", ADD, rho=0.5), True)])
    account.reserve("extended", "runs", lambda: charges[0])
    with pytest.raises(BudgetError):
        account.reserve("extended", "runs", lambda: charges[1])
    account.settle("extended", lambda: charges[1])  # its ledger says already that it was extended
    assert account.history().charges["extended"] == charges[0]
    with pytest.raises(BudgetError):
        account.reserve("extended", "runs", lambda: charges[1])
    account.reserve("extended", "runs", lambda: charges[0])
    unknown = Charge("user", ADD, unknown="its ledger departs from its plan")
    account.settle("extended", lambda: unknown)
    assert account.history().charges["extended"] == unknown


@pytest.mark.slow
@pytest.mark.parametrize("thousand", range(1, 11))
def test_ten_thousand_random_sequences(tmp_path: Path, disk: Disk, thousand: int) -> None:
    run_sequences(tmp_path, range(1_000 * thousand, 1_000 * (thousand + 1)), disk)
