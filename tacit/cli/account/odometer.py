"""`tacit account odometer`: every run on a store's users, and what all of them have cost together."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import typer

from tacit.cli.account.answer import Answer, headline, require_delta, tell
from tacit.cli.account.evidence import Evidence, evidence_of
from tacit.cli.account.ledgers import DeltaOfAll, answer_of, compose_evidence, figures_of, releases_in_words, tell_basis
from tacit.cli.options import Json
from tacit.cli.results import emit
from tacit.cli.results.account import OdometerResult
from tacit.data.store import INFO, open_store
from tacit.errors import PrivacyError, RunError, TacitError
from tacit.privacy.record.reasons import Reason, Why, in_words, reasons_as_json
from tacit.runs.checkpoints import rounds_kept
from tacit.runs.cost import HAPPENED
from tacit.runs.folder import RunFolder
from tacit.runs.odometer import NAME, Entry, heads_of, objection_to, runs_of


@dataclass(frozen=True)
class _Listed:
    """A run of the list: its evidence, or why it cannot be counted; neither if it was never begun."""

    entry: Entry
    evidence: Evidence | None = None
    problem: str | None = None

    def facts(self) -> dict[str, Any]:
        if self.evidence is not None:
            state = releases_in_words(len(self.evidence.ledger.intents))
        else:
            state = "released nothing" if self.problem is None else f"unknown: {self.problem}"
        names = ("run_id", "registered", "claims_privacy")
        return {"run": self.entry.path} | {name: getattr(self.entry, name) for name in names} | {"state": state}


def odometer(
    store: Annotated[Path, typer.Argument(help="The folder of a store, or of a fleet's server.")],
    delta: DeltaOfAll = None,
    as_json: Json = False,
) -> None:
    """List every run on a store's users, tuning included, and compute what all of them have cost together.

    The bound holds for runs that were chosen by looking at what earlier ones released.

    Example: tacit account odometer data/forum
    """
    if delta is not None:
        require_delta(delta)
    # Devices are in no store: their server's folder has the list and nothing else of one.
    store_id = None if (store / NAME).exists() and not (store / INFO).exists() else open_store(store).store_id
    listed = [look_up(store, entries) for entries in runs_of(store).values()]
    runs = [each.facts() for each in listed]
    if not as_json:
        for facts in runs:
            typer.echo(f"{facts['registered']}  {facts['run']}: {facts['state']}")
    found = [each.evidence for each in listed if each.evidence is not None]
    reasons = [
        Reason(Why.UNKNOWN_COST, f"{each.entry.path}: {each.problem}") for each in listed if each.problem is not None
    ]
    answer: Answer | None = Answer(
        0.0, delta or 0.0, "any", "nothing was released", ("no other run read these users",), rho=0.0
    )
    happened = None
    if found:
        try:
            total, happened = compose_evidence(found, delta, adaptive=True)
            answer = answer_of(total)
        except PrivacyError as error:
            answer = None
            reasons.append(Reason(Why.NOT_COMPARABLE, error.sentence.rstrip(".")))
    more = {"store": store_id, "runs": runs, HAPPENED: figures_of(happened)}
    if answer is not None and not reasons:
        tell(answer, OdometerResult if as_json else None, more)
        if found and not as_json:
            tell_basis(happened)
    else:
        _tell_unknown(reasons, answer, as_json, more)


def look_up(store: Path, entries: Sequence[Entry]) -> _Listed:
    """The run, where it was last. Copies of it that are still there must be earlier states of it, or it went on twice.

    The ledger must extend every head that the store's list has of it: otherwise rounds are missing from it that were released.
    """
    latest, heads = entries[-1], heads_of(store).get(entries[-1].run_id, [])
    places = list(dict.fromkeys(entry.path for entry in reversed(entries)))
    folders = {path: folder for path in places if (folder := _folder_of(Path(path), latest.run_id)) is not None}
    if latest.path not in folders:
        return _Listed(latest, problem="the run's folder is not there")
    try:
        found = [evidence_of(folder.path, as_listed=False) for folder in folders.values() if _asked_users(folder)]
    except TacitError as error:
        return _Listed(latest, problem=error.sentence.rstrip("."))
    if not found:
        return _Listed(latest, problem="its ledger is gone" if heads else None)
    longest = max(found, key=lambda each: len(each.ledger.records))
    for each in found:
        if longest.ledger.records[: len(each.ledger.records)] != each.ledger.records:
            return _Listed(latest, problem=f"it was copied, and the copy in {each.folder.path} went on by itself")
    if (objection := objection_to(longest.ledger, heads, store / NAME)) is not None:
        return _Listed(latest, problem=objection)
    return _Listed(latest, evidence=longest)


def _folder_of(path: Path, run_id: str) -> RunFolder | None:
    """The folder in this place, if it is this run's."""
    try:
        folder = RunFolder.open(path)
    except RunError:
        return None
    return folder if folder.run_id == run_id else None


def _asked_users(folder: RunFolder) -> bool:
    """Whether anything shows that the run got as far as its ledger, the ledger itself or what comes after it."""
    return folder.begun or folder.participation_path.exists() or bool(rounds_kept(folder.checkpoints_path))


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
