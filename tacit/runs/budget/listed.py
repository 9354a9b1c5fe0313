"""What a store's runs are charged, read off their ledgers: when a budget is set, and when open reservations are settled."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from tacit.errors import BudgetError, TacitError
from tacit.files import is_being_written
from tacit.privacy.accounting.charges import Charge, charge_of
from tacit.privacy.record.ledger import Ledger
from tacit.privacy.record.reasons import in_words
from tacit.runs.budget.of_store import account_of
from tacit.runs.budget.records import ChargedRun, History
from tacit.runs.cost import reasons_against
from tacit.runs.odometer import runs_of
from tacit.runs.store_cost import listed_runs, look_up


def charge_of_ledger(ledger: Ledger) -> Charge:
    """What the run with this ledger is charged for: its releases, and the planned rounds that have not run."""
    charge = charge_of(ledger.opened, ledger.intents, start=ledger.next_round)
    against = reasons_against(ledger)
    return dataclasses.replace(charge, unknown=in_words(against)) if against and charge.unknown is None else charge


def charged_runs(store: Path, history: History) -> Sequence[ChargedRun]:
    """Every run of the store's odometer that has begun and that the account does not know.

    BudgetError if the cost of one is unknown, because its folder is not there, for example.
    """
    found = []
    for each in listed_runs(store):
        if each.entry.run_id in history.charges:
            continue
        if each.problem is not None:
            raise BudgetError(f"No budget can be set for {store}: {each.entry.path}: {each.problem}.")
        if each.evidence is not None:
            ledger = each.evidence.ledger
            ended = ledger.closed is not None
            found.append(ChargedRun(each.entry.run_id, each.entry.path, charge_of_ledger(ledger), ended))
    return found


@dataclass(frozen=True)
class Settling:
    """What became of an open reservation: "settled", "given back", or why it stays."""

    run: str
    place: str
    outcome: str


SETTLED, GIVEN_BACK = "settled", "given back"


class _Stays(Exception):
    """The reservation stays open, for this reason."""


def settle_open(store: Path) -> list[Settling]:
    """Settle every open reservation whose run no process is writing, from the run's ledger."""
    account, found = account_of(store), []
    for job in account.history().jobs.values():
        if not job.open:
            continue
        settled: list[Charge | None] = []

        def from_ledger(run: str = job.run, settled: list[Charge | None] = settled) -> Charge | None:
            settled.append(_charge_now(store, run))
            return settled[-1]

        try:
            account.settle(job.run, from_ledger)
            outcome = GIVEN_BACK if settled == [None] else SETTLED
        except _Stays as reason:
            outcome = str(reason)
        found.append(Settling(job.run, job.place, outcome))
    return found


def _charge_now(store: Path, run: str) -> Charge | None:
    entries = runs_of(store).get(run)
    if entries is None:
        raise _Stays("the odometer does not list it")
    if any(is_being_written(Path(entry.path) / "ledger.jsonl") for entry in entries):
        raise _Stays("the run is going on")
    try:
        found = look_up(store, entries)
    except TacitError as error:
        raise _Stays(error.sentence.rstrip(".")) from None
    if found.problem is not None:
        raise _Stays(found.problem)
    return None if found.evidence is None else charge_of_ledger(found.evidence.ledger)
