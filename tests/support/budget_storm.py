"""Random sequences of jobs on one account, by several processes at once that are killed with kill -9 at any moment.

    python -m tests.support.budget_storm --sequences 10000

In each sequence two waves of processes reserve, run, run again and settle made-up jobs on the same people, and a part of them
is killed. A job's ledger is a file, in which it writes what it has planned before it goes on, and what it has released after
it has reserved that. After each wave the account must be readable, within the budget, and cover all that was released; then
what the dead left open is settled from the ledgers, and the next wave goes on with their jobs.

A kill loses nothing that was written, so nothing waits for a disk here: what a power cut loses is the subject of
`tests/runs/test_budget_sequences.py`.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import signal
import tempfile
import time
from collections import Counter
from pathlib import Path

from tacit.errors import BudgetError
from tacit.files import write_atomic
from tacit.privacy.accounting.budget_filter import Limit, spending
from tacit.privacy.accounting.charges import Charge
from tacit.runs.budget.of_store import account_of

ADD = "add or remove one user"
LIMIT = Limit(None, None, 1.0)
COSTS = (0.01, 0.02, 0.05, 0.11, 0.3, 0.45)


def _ledger(ledgers: Path, run: str) -> tuple[float, float]:
    """What the job has planned, and what it has released."""
    planned, released = json.loads((ledgers / run).read_text())
    return float(planned), float(released)


def charge_of(ledgers: Path, run: str) -> Charge | None:
    """What the job's ledger says that it costs; None if it never began one."""
    return Charge("user", ADD, rho=max(_ledger(ledgers, run))) if (ledgers / run).exists() else None


def _job(store: Path, ledgers: Path, run: str, dice: random.Random) -> None:
    """A job from its reservation to its settlement; it goes on if it has begun before. BudgetError if it is refused."""
    account, cost, released = account_of(store), dice.choice(COSTS), 0.0
    if (ledgers / run).exists():
        cost, released = _ledger(ledgers, run)
    account.reserve(run, "runs", lambda: Charge("user", ADD, rho=cost))
    write_atomic(ledgers / run, json.dumps([cost, released]))
    account.reserve(run, "runs", lambda: Charge("user", ADD, rho=cost))
    write_atomic(ledgers / run, json.dumps([cost, max(released, cost * dice.random())]))
    if dice.random() < 0.4:  # a round that runs again
        more = cost * 1.25
        account.reserve(run, "runs", lambda: Charge("user", ADD, rho=more))
        write_atomic(ledgers / run, json.dumps([more, _ledger(ledgers, run)[1]]))
        account.reserve(run, "runs", lambda: Charge("user", ADD, rho=more))
        write_atomic(ledgers / run, json.dumps([more, more]))
    account.settle(run, lambda: charge_of(ledgers, run))


def _process(store: Path, ledgers: Path, runs: list[str], seed: str) -> None:
    """Does jobs until it is killed; ends without cleaning up, as its parent has the rest."""
    code, dice = 0, random.Random(seed)
    try:
        for run in runs:
            try:
                _job(store, ledgers, run, dice)
            except BudgetError:
                code = 3
    except BaseException:
        code = 1
    finally:
        os._exit(code)


def _verify(store: Path, ledgers: Path) -> float:
    """What is charged; AssertionError if the account is over the budget, or does not cover what was released."""
    charges = account_of(store).history().charges
    spent = spending(charges, LIMIT)
    assert spent.unknown is None, spent.unknown
    assert spent.value <= LIMIT.value, spent.value
    released = {path.name: _ledger(ledgers, path.name)[1] for path in ledgers.iterdir() if path.suffix != ".tmp"}
    assert sum(released.values()) <= LIMIT.value * (1 + 1e-12)
    for run, cost in released.items():
        assert cost == 0 or charges[run].rho >= cost, run
    return spent.value


def one_sequence(folder: Path, seed: int) -> Counter[str]:
    """Two waves of processes in this empty folder; what happened."""
    store, ledgers, dice, seen = folder / "store", folder / "ledgers", random.Random(seed), Counter[str]()
    store.mkdir()
    ledgers.mkdir()
    account = account_of(store)
    account.set_limit(LIMIT)
    for wave in range(2):
        left = [run for run, job in account.history().jobs.items() if job.charge is not None]
        dice.shuffle(left)
        going: dict[int, bool] = {}
        for number in range(dice.randint(2, 4)):
            fresh = [f"{wave}-{number}-{each}" for each in range(dice.randint(1, 3))]
            runs = [left.pop() for _ in range(min(len(left), dice.randint(0, 2)))] + fresh
            child = os.fork()
            if child == 0:
                _process(store, ledgers, runs, f"{seed} {wave} {number}")
            going[child] = dice.random() < 0.6
        for child, killed in going.items():
            if killed:
                time.sleep(dice.random() * 0.01)
                os.kill(child, signal.SIGKILL)
        for child in going:
            _, status = os.waitpid(child, 0)
            code = os.waitstatus_to_exitcode(status)
            assert code in (0, 3, -signal.SIGKILL), code
            seen[{0: "ended", 3: "refused"}.get(code, "killed")] += 1
        _verify(store, ledgers)
        for run, job in account.history().jobs.items():
            if job.open:
                account.settle(run, lambda run=run: charge_of(ledgers, run))  # type: ignore[misc]
                seen["settled for the dead"] += 1
        seen["full"] += _verify(store, ledgers) > 0.9
    return seen


def storm(seeds: range) -> Counter[str]:
    """All these sequences; what happened."""
    total, fsync = Counter[str](), os.fsync
    os.fsync = lambda descriptor: None  # type: ignore[assignment]
    try:
        for seed in seeds:
            with tempfile.TemporaryDirectory(dir="/dev/shm" if Path("/dev/shm").is_dir() else None) as folder:
                try:
                    total += one_sequence(Path(folder), seed)
                except BaseException:
                    print(f"sequence {seed}")
                    raise
    finally:
        os.fsync = fsync
    return total


def main() -> None:
    """Run them, and say what happened; fails at the first that goes wrong."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--sequences", type=int, default=10_000)
    parser.add_argument("--first", type=int, default=0)
    given = parser.parse_args()
    total = storm(range(given.first, given.first + given.sequences))
    what = ", ".join(f"{name} {count:,}" for name, count in sorted(total.items()))
    print(f"{given.sequences:,} sequences: {what}. Never over the budget, and no charge was lost.")


if __name__ == "__main__":
    main()
