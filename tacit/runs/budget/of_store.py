"""The account of a store's people: ``budget.jsonl`` beside the odometer, mode 0600, one process at a time.

There is no such file until a budget is set. A last line without its end was cut short by a crash while it was added, so nothing
depended on it: the next one cuts it off.

A store that was cut into shards has a link to the account of the one that it was made of: both draw from it. Any other copy
of the store has the odometer and no account, and admits nobody.

The odometer records how far the account had got when the budget was last set. So an account that is gone, or that lacks lines
from before that, is missed. A run whose ledger was begun, as the odometer shows, must be charged in the account.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from tacit.errors import BudgetError
from tacit.files import append_synced, disk_error, refuse_if_others_can_read, sync_folder
from tacit.runs import odometer
from tacit.runs.budget.account import Account, Held
from tacit.runs.budget.records import History

NAME = "budget.jsonl"


class StoreLines:
    """The lines of a store's account."""

    from_the_first = False
    remedy = "tacit budget set charges every run that the store's odometer lists."

    def __init__(self, store: Path) -> None:
        self.store, self.path, self.where = store, store / NAME, str(store)

    @contextmanager
    def held(self, *, make: bool = False) -> Iterator[Held | None]:
        """The lines, for this process alone; None where there are none, unless they are to be made."""
        new = make and not self.path.exists()
        try:
            descriptor = os.open(self.path, os.O_RDWR | os.O_APPEND | (os.O_CREAT if make else 0), 0o600)
        except FileNotFoundError:
            if make:
                raise BudgetError(f"Expected the folder of a store, got {self.store}, which does not exist.") from None
            yield None
            return
        except OSError as error:
            raise disk_error(error, self.path, "nothing was begun") from error
        try:
            refuse_if_others_can_read(self.path)
            fcntl.flock(descriptor, fcntl.LOCK_EX)
            if new:
                sync_folder(self.store)
            yield _HeldFile(descriptor, self.path)
        finally:
            os.close(descriptor)

    def read(self) -> Sequence[bytes]:
        """The lines as they are now."""
        try:
            return _whole_lines(self.path.read_bytes())
        except FileNotFoundError:
            return []
        except OSError as error:
            raise BudgetError(f"Cannot read {self.path} ({error.strerror}): its owner alone can.") from error

    def check(self, history: History) -> None:
        """BudgetError if the odometer knows of lines that are not there."""
        known = odometer.budget_head(self.store)
        if known is not None and history.digests[known.length - 1 : known.length] != [known.head]:
            raise BudgetError(
                f"The account {self.path} is not the one that the odometer beside it knows: lines are missing, or it "
                "was replaced.",
                hint="A copy of a store has no account: use the store that the budget was set for.",
            )

    def begun_runs(self) -> Collection[str]:
        """The runs whose ledgers were begun, as the odometer shows."""
        return odometer.heads_of(self.store)

    def budget_was_set(self, history: History) -> None:
        """Record in the odometer how far the account has got."""
        odometer.Odometer(self.store).record_budget(history.length, history.head)


class _HeldFile:
    """The file, open and locked."""

    lines: Sequence[bytes]

    def __init__(self, descriptor: int, path: Path) -> None:
        self._descriptor, self._path = descriptor, path
        self.lines = _whole_lines(path.read_bytes())
        self._size = sum(len(line) + 1 for line in self.lines)

    def append(self, line: bytes) -> None:
        """Add a line; when this returns, it is on disk. RunError if the disk fails: then the account is as before."""
        try:
            os.ftruncate(self._descriptor, self._size)
            append_synced(self._descriptor, line + b"\n")
        except OSError as error:
            with suppress(OSError):
                os.ftruncate(self._descriptor, self._size)
            raise disk_error(error, self._path, "the account is as it was, and nothing was begun") from error
        self._size += len(line) + 1


def _whole_lines(data: bytes) -> list[bytes]:
    """The lines that have their end. A last one with bytes of zero in it was never written, though the file has grown."""
    lines = data.split(b"\n")[:-1]
    return lines[:-1] if lines and b"\0" in lines[-1] and data.endswith(b"\n") else lines


def account_of(store: Path) -> Account:
    """The account of a store's people; without a budget it admits everything and records nothing."""
    return Account(StoreLines(store))
