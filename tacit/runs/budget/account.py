"""The account of a group of people: jobs reserve what they will cost before they begin, and are refused if it does not fit.

The lines of an account lie in a file beside a store's odometer (`of_store`) or in the database of a fleet. Both promise a
`Lines`: one process at a time has them, and a line that was added is on disk.

**Order.** A run reserves before its ledger is begun, and again, for the same charge, when the ledger's record is on disk and
before its first intent (`reservation`). So whoever looks at the account while no process writes the ledger knows: a run
without a ledger has released nothing, and what it reserved may be given back. If its process is alive all the same, it finds
its reservation gone, and reserves again or stops.

**A killed process** leaves its reservation. It stays charged until it is settled from its ledger: by the run itself when it is
resumed and ends, or by `settle`. A settled run stays charged for its planned rounds (`tacit.privacy.record.planned`).

**A ledger may plan more than is reserved**: a budget was set while a run was about to go on, and the run, whose ledger said by
then that there would be more rounds, was refused. It has read nobody since, because it reserves again after such a record and
before anybody is read. So settling never makes a charge larger; if the run goes on, it asks for the rest again.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import Protocol

from tacit.errors import BudgetError
from tacit.privacy.accounting.budget_filter import Limit, Spending, spending
from tacit.privacy.accounting.charges import Charge
from tacit.privacy.statement.wording import round_up
from tacit.runs.budget.advice import what_fits
from tacit.runs.budget.records import ChargedRun, History, Line, Reserved, SetBudget, Settled, now

# Digits of what is printed: spending is rounded up, what is left down.
_DIGITS = 4
# A float from here on is a whole number, and may be too large for more digits.
_WHOLE = 2.0**53


class Held(Protocol):
    """The lines of an account, held by this process alone."""

    lines: Sequence[bytes]

    def append(self, line: bytes) -> None:
        """Add a line; when this returns, it is durable."""


class Lines(Protocol):
    """Where an account's lines are kept.

    `where` names the account in sentences. `from_the_first`: whether runs are entered before there is a budget. `remedy` says
    how a run gets into the account that is missing there.
    """

    where: str
    remedy: str
    from_the_first: bool

    def held(self, *, make: bool = False) -> AbstractContextManager[Held | None]:
        """The lines, for this process alone; None where there is no account, unless one is to be made."""

    def read(self) -> Sequence[bytes]:
        """The lines as they are now, without keeping anybody from adding to them."""

    def check(self, history: History) -> None:
        """BudgetError if lines that were there before are missing."""

    def begun_runs(self) -> Collection[str]:
        """The runs that are known to have begun to read these people."""

    def budget_was_set(self, history: History) -> None:
        """Note elsewhere that the account has got so far, so that it is missed if it is gone."""


class Account:
    """An account. It keeps nothing in memory: every call reads the lines."""

    def __init__(self, lines: Lines) -> None:
        self._lines = lines

    @property
    def where(self) -> str:
        """What the account is called in sentences."""
        return self._lines.where

    def history(self) -> History:
        """What the account's lines come to; BudgetError if they are damaged."""
        while True:
            lines = self._lines.read()
            found = History.of(lines, self.where)
            try:
                self._lines.check(found)
            except BudgetError:
                if self._lines.read() == lines:
                    raise
            else:
                return found

    def set_limit(self, limit: Limit, runs: Callable[[History], Sequence[ChargedRun]] = lambda history: ()) -> History:
        """Set the budget, lower it or raise it; what changed stays in the account forever.

        `runs` gives what runs that the account does not know are charged for; it is called while no other process can reserve.
        BudgetError, and nothing is changed, if more than this is spent or reserved, or if δ is not the one that was set first.
        """
        with self._held(make=True) as (held, history):
            assert held is not None
            if history.limit is not None and not history.limit.same_kind(limit):
                raise BudgetError(
                    f"The budget of {self.where} is {in_words(history.limit)}, and only its {history.limit.symbol} can be "
                    "changed: what was spent until now was admitted for this kind of budget and this delta.",
                )
            found = tuple(runs(history))
            self._require_known(history, {each.run for each in found})
            line = SetBudget(limit, now(), found)
            charges = history.charges | {each.run: each.charge for each in found}
            spent = spending(charges, limit)
            if spent.unknown is not None:
                raise BudgetError(f"No budget can be set for {self.where}: {spent.unknown}.")
            if spent.value > limit.value:
                raise BudgetError(
                    f"Expected a budget of at least {limit.symbol} = {round_up(spent.value, _DIGITS)} for {self.where}, which "
                    f"is spent or reserved, got {limit.symbol} = {limit.value:g}."
                )
            self._append(held, history, line)
            self._lines.budget_was_set(history)
            return history

    def reserve(self, run: str, place: str, charge: Callable[[], Charge]) -> None:
        """Charge a run for all that it plans, before it begins; nothing happens if it is charged for that already.

        What it is charged for already stays: a charge only grows until it is settled. BudgetError, and nothing is charged, if
        the rest of the budget does not suffice.
        """
        with self._held() as (held, history):
            if held is None or (history.limit is None and not self._lines.from_the_first):
                return
            known = history.jobs.get(run)
            before = None if known is None else known.charge
            wanted = charge() if before is None else before.at_least(charge())
            if known is not None and known.open and wanted == before:
                return
            if history.limit is not None:
                self._require_known(history, {run})
                self._require_room(history, history.limit, run, wanted, grows=wanted != before)
            self._append(held, history, Reserved(run, place, wanted, now()))

    def settle(self, run: str, charge: Callable[[], Charge | None]) -> None:
        """Charge a run for what its ledger says, now that it has ended; None: it never began.

        `charge` is called while no other process can reserve; if it raises, nothing is settled. Nothing happens if the account
        does not know the run, or if it is settled. A bound does not grow here: see the top of the file.
        """
        with self._held() as (held, history):
            known = history.jobs.get(run)
            if held is not None and known is not None and known.open:
                self._append(held, history, Settled(run, _no_more_than(known.charge, charge()), now()))

    def require_room(self, charges: dict[str, Charge]) -> None:
        """BudgetError if these jobs, which are about to begin one after the other, do not fit together. Nothing is charged."""
        history = self.history()
        if history.limit is None:
            return
        after = spending(history.charges | charges, history.limit)
        if after.unknown is not None or after.value > history.limit.value:
            what = "this run" if len(charges) == 1 else f"these {len(charges):,} runs"
            raise BudgetError(_refusal(self.where, history, history.limit, after, what))

    def _require_room(self, history: History, limit: Limit, run: str, charge: Charge, *, grows: bool) -> None:
        if charge.unknown is not None:
            raise BudgetError(
                f"The budget of {self.where} is {in_words(limit)}, and what this run costs is unknown or infinite: "
                f"{charge.unknown}."
            )
        after = spending({**history.charges, run: charge}, limit)
        if after.unknown is None and (after.value <= limit.value or not grows):
            return
        others = {name: each for name, each in history.charges.items() if name != run}
        hint = what_fits(others, charge, limit) if run not in history.charges else None
        raise BudgetError(_refusal(self.where, history, limit, after, "this run"), hint=hint)

    def _require_known(self, history: History, also: Collection[str]) -> None:
        """BudgetError if a run has read these people and is charged nothing."""
        for run in self._lines.begun_runs():
            job = history.jobs.get(run)
            if run not in also and (job is None or job.charge is None):
                raise BudgetError(
                    f"The account of {self.where} lacks the run {run}, which has read these people.",
                    hint=self._lines.remedy,
                )

    @contextmanager
    def _held(self, *, make: bool = False) -> Iterator[tuple[Held | None, History]]:
        with self._lines.held(make=make) as held:
            history = History.of([] if held is None else held.lines, self.where)
            self._lines.check(history)
            yield held, history

    def _append(self, held: Held, history: History, line: Line) -> None:
        content, digest = history.write(line)
        held.append(content)
        history.take(line, digest)


def _no_more_than(reserved: Charge | None, found: Charge | None) -> Charge | None:
    """What a run is charged whose ledger says `found`: a cost that is unknown stays so."""
    if reserved is None or found is None or found.unknown is not None:
        return found
    return found if reserved.covers(found) else reserved


def in_words(limit: Limit) -> str:
    """The budget, as sentences have it."""
    return f"{limit.symbol} = {limit.value:g}" + ("" if limit.delta is None else f" at δ = {limit.delta:g}")


def spent_of(history: History) -> Spending | None:
    """What is spent or reserved of the budget; None if there is none."""
    return None if history.limit is None else spending(history.charges, history.limit)


def _refusal(where: str, history: History, limit: Limit, after: Spending, what: str) -> str:
    begins = f"The budget of {where} is {in_words(limit)}"
    if after.unknown is not None:
        return f"{begins}, and it cannot be told what {what} would leave of it: {after.unknown}."
    symbol, would = limit.symbol, round_up(after.value, _DIGITS)
    left = round_down(limit.value - spending(history.charges, limit).value)
    return f"{begins}, and {symbol} = {left} of it is left: with {what} {symbol} = {would} would be spent or reserved."


def round_down(value: float) -> str:
    """The number with four decimals, rounded down: nobody is promised more than is there."""
    value = max(0.0, value)
    if value < _WHOLE:
        value = float(int(value * 10**_DIGITS)) / 10**_DIGITS
    return f"{value:.{_DIGITS}f}"
