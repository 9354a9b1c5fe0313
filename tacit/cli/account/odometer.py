"""`tacit account odometer`: every run on a store's users, and what all of them have cost together."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from tacit.cli.account.answer import Answer, headline, require_delta, tell
from tacit.cli.account.ledgers import DeltaOfAll, answer_of, figures_of, releases_in_words, tell_basis
from tacit.cli.options import Json
from tacit.cli.results import emit
from tacit.cli.results.account import OdometerResult
from tacit.data.remote import INFO, place_of
from tacit.data.store import open_store
from tacit.privacy.record.reasons import Reason, in_words, reasons_as_json
from tacit.runs.budget.of_store import account_of
from tacit.runs.budget.status import BudgetStatus, status_of
from tacit.runs.cost import HAPPENED
from tacit.runs.odometer import NAME
from tacit.runs.store_cost import Listed, added_up, listed_runs

# The database of a server that was given no other (`tacit.fleet.server.serving`).
DATABASE = "fleet.db"


def odometer(
    named: Annotated[
        str,
        typer.Argument(metavar="STORE", help="The folder of a store or of a fleet's server, or the URL of a store."),
    ],
    delta: DeltaOfAll = None,
    as_json: Json = False,
) -> None:
    """List every run on a store's users, tuning included, and compute what all of them have cost together.

    The bound holds for runs that were chosen by looking at what earlier ones released.

    Example: tacit account odometer data/forum
    """
    if delta is not None:
        require_delta(delta)
    store = place_of(named)
    # Devices are in no store: their server's folder has the list and nothing else of one.
    store_id = None if (store / NAME).exists() and not (store / INFO).exists() else open_store(store).store_id
    listed = listed_runs(store)
    runs = [_facts(each) for each in listed]
    if not as_json:
        for facts in runs:
            typer.echo(f"{facts['registered']}  {facts['run']}: {facts['state']}")
    added = added_up(listed, delta, adaptive=True)
    answer: Answer | None = None
    if added.total is not None:
        answer = answer_of(added.total)
    elif not any(each.evidence for each in listed):
        answer = Answer(0.0, delta or 0.0, "any", "nothing was released", ("no other run read these users",), rho=0.0)
    happened, reasons = added.happened, added.reasons
    budget = _budget_of_devices(store) if store_id is None else status_of(account_of(store))
    more = {"store": store_id, "runs": runs, HAPPENED: figures_of(happened)}
    more["budget"] = None if budget is None else budget.as_dict()
    if answer is not None and not reasons:
        tell(answer, OdometerResult if as_json else None, more)
        if added.total is not None and not as_json:
            tell_basis(happened)
    else:
        _tell_unknown(reasons, answer, as_json, more)
    if budget is not None and not as_json:
        typer.echo(budget.sentence)


def _budget_of_devices(folder: Path) -> BudgetStatus | None:
    """The budget in the database of a server's folder; None if there is none, or the database is elsewhere."""
    if not (folder / DATABASE).exists():
        return None
    try:
        from sqlalchemy.exc import SQLAlchemyError

        from tacit.fleet.database.budget_table import FleetAccount
        from tacit.fleet.database.transactions import open_database
    except ImportError:
        return None  # without the extra for fleets
    engine = open_database(f"sqlite:///{(folder / DATABASE).resolve()}")
    try:
        return status_of(FleetAccount(engine))
    except SQLAlchemyError:
        return None  # of an older version, without an account
    finally:
        engine.dispose()


def _facts(listed: Listed) -> dict[str, Any]:
    if listed.evidence is not None:
        state = releases_in_words(len(listed.evidence.ledger.intents))
    else:
        state = "released nothing" if listed.problem is None else f"unknown: {listed.problem}"
    names = ("run_id", "registered", "claims_privacy")
    return {"run": listed.entry.path} | {name: getattr(listed.entry, name) for name in names} | {"state": state}


def _tell_unknown(reasons: Sequence[Reason], part: Answer | None, as_json: bool, more: dict[str, Any]) -> None:
    """There is no total: epsilon is null, and what could be counted is told as the part it is."""
    if as_json:
        nothing: dict[str, Any] = dict.fromkeys(("epsilon", "delta", "rho", "adjacency", "accountant"))
        nothing |= {"assumptions": [], **reasons_as_json(reasons)}
        counted = None if part is None else part.as_dict()
        emit(OdometerResult, nothing | more | {"counted": counted})
        return
    typer.echo(f"The total is unknown, so nothing can be claimed: {in_words(reasons)}.")
    if part is not None:
        typer.echo(f"  what could be counted: {headline(part)}")
