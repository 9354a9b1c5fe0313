"""What runs on one store have cost its users together: every run that the store's odometer lists, or some of them.

A run counts as its ledger says, wherever its folder is now. One that is listed and not found, was copied and went on twice, or
has a ledger that lacks what the odometer recorded, makes the total unknown: there is then a reason instead of a figure.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from tacit.errors import PrivacyError, RunError, TacitError
from tacit.privacy.accounting.several_runs import Together
from tacit.privacy.record.ledger import Ledger
from tacit.privacy.record.reasons import Reason, Why
from tacit.runs.checkpoints import rounds_kept
from tacit.runs.cost import total_cost
from tacit.runs.evidence import Evidence, evidence_of
from tacit.runs.folder import RunFolder
from tacit.runs.odometer import NAME, Entry, heads_of, objection_to, runs_of


@dataclass(frozen=True)
class Listed:
    """A run of the list: its evidence, or why it cannot be counted; neither if it was never begun."""

    entry: Entry
    evidence: Evidence | None = None
    problem: str | None = None


@dataclass(frozen=True)
class Added:
    """What runs cost together. Without a total nothing was released, or the runs cannot be added up; `reasons` say why.

    With reasons the total, if there is one, is that of a part of the runs, and nothing can be claimed for all of them.
    `happened` is the owner's second figure.
    """

    total: Together | None = None
    happened: Together | None = None
    reasons: tuple[Reason, ...] = ()


def listed_runs(store: Path) -> list[Listed]:
    """Every run that the odometer of this store lists, looked up where it is."""
    return [look_up(store, entries) for entries in runs_of(store).values()]


def added_up(
    listed: Iterable[Listed], delta: float | None = None, *, planned: Sequence[Ledger] = (), adaptive: bool
) -> Added:
    """What these runs have cost together, and the runs that are planned with them and have not begun.

    `adaptive`: runs, their settings and their number may have been chosen by looking at what earlier ones released.
    """
    listed = list(listed)
    reasons = [
        Reason(Why.UNKNOWN_COST, f"{each.entry.path}: {each.problem}") for each in listed if each.problem is not None
    ]
    found = [(each.evidence.ledger, each.evidence.users) for each in listed if each.evidence is not None]
    runs = [*found, *((ledger, None) for ledger in planned)]
    if not runs:
        return Added(reasons=tuple(reasons))
    try:
        total, happened = total_cost(runs, delta, adaptive=adaptive)
    except PrivacyError as error:
        reasons.append(Reason(Why.NOT_COMPARABLE, error.sentence.rstrip(".")))
        return Added(reasons=tuple(reasons))
    return Added(total, happened, tuple(reasons))


def look_up(store: Path, entries: Sequence[Entry]) -> Listed:
    """The run, where it was last. Copies of it that are still there must be earlier states of it, or it went on twice.

    The ledger must extend every head that the store's list has of it: otherwise rounds are missing from it that were released.
    """
    latest, heads = entries[-1], heads_of(store).get(entries[-1].run_id, [])
    places = list(dict.fromkeys(entry.path for entry in reversed(entries)))
    folders = {path: folder for path in places if (folder := _folder_of(Path(path), latest.run_id)) is not None}
    if latest.path not in folders:
        return Listed(latest, problem="the run's folder is not there")
    try:
        found = [evidence_of(folder.path, as_listed=False) for folder in folders.values() if _asked_users(folder)]
    except TacitError as error:
        return Listed(latest, problem=error.sentence.rstrip("."))
    if not found:
        return Listed(latest, problem="its ledger is gone" if heads else None)
    longest = max(found, key=lambda each: len(each.ledger.records))
    for each in found:
        if longest.ledger.records[: len(each.ledger.records)] != each.ledger.records:
            return Listed(latest, problem=f"it was copied, and the copy in {each.folder.path} went on by itself")
    if (objection := objection_to(longest.ledger, heads, store / NAME)) is not None:
        return Listed(latest, problem=objection)
    return Listed(latest, evidence=longest)


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
