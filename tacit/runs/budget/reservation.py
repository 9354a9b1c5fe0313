"""What one run has reserved, from before its first intent until it has ended.

    reserve         before the ledger is begun or goes on: the run's whole plan, and every attempt that is about to run again
    reserve again   when the ledger shows that, and before the next intent: nothing happens unless it was given back
    admit           before each intent: an attempt that was not reserved for is reserved for first
    confirm         after the intent, before anybody is read: the same again, for such an attempt
    settle          when the run has ended, while its ledger is still locked

A refusal is a BudgetError, and the run stops before anybody is read.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path

from tacit.errors import TacitError
from tacit.privacy.accounting.charges import Charge, charge_of
from tacit.privacy.record.ledger import LedgerWriter
from tacit.privacy.record.records import Intent, Opened
from tacit.runs.budget.account import Account
from tacit.runs.budget.listed import charge_of_ledger
from tacit.runs.budget.of_store import account_of
from tacit.runs.folder import RunFolder


class Reservation:
    """The reservation of the run in a folder, in the account of its store's people and in `account`, where there is one."""

    def __init__(self, folder: RunFolder, store: Path | None, account: Account | None = None) -> None:
        self._run, self._place = folder.run_id, str(folder.path.resolve())
        self._accounts = [] if store is None else [account_of(store)]
        if account is not None:
            self._accounts.append(account)
        self._opened: Opened | None = None
        self._releases = 0
        self._charge: Callable[[], Charge] | None = None
        self._unplanned = self._settled = False

    def reserve(self, opened: Opened, intents: Sequence[Intent] = (), *, start: int = 0) -> None:
        """Reserve what a run with these releases costs that goes on with round `start` and runs to its planned end."""
        known: list[Charge] = []

        def charge() -> Charge:
            if not known:
                known.append(charge_of(opened, intents, start=start))
            return known[0]

        self._opened, self._charge = opened, charge
        self._releases = len(intents) + opened.rounds - start
        self.again()

    def again(self) -> None:
        """Reserve the same again, if it is reserved no more."""
        assert self._charge is not None
        for account in self._accounts:
            account.reserve(self._run, self._place, self._charge)

    def admit(self, intents: Sequence[Intent], round: int) -> None:
        """Reserve for one more intent, if it was not planned for; `intents` are those in the ledger."""
        assert self._opened is not None
        self._unplanned = len(intents) + self._opened.rounds - round > self._releases
        if self._unplanned:
            self.reserve(self._opened, intents, start=round)

    def confirm(self) -> None:
        """The intent that was admitted is on disk. A budget that was set since then was told of it by nobody."""
        if self._unplanned:
            self.again()

    def settle(self, ledger: LedgerWriter) -> None:
        """The run has ended. Nothing happens if its ledger is no longer locked: another process may go on with it.

        If the account cannot be written, the run stays charged for what it reserved.
        """
        if self._settled or not ledger.is_open:
            return
        for account in self._accounts:
            with suppress(TacitError, OSError):
                account.settle(self._run, lambda: charge_of_ledger(ledger.ledger))
        self._settled = True
