"""A run's ledger, with as much of it checked as the person at the keyboard may see.

The ledger's chain is always checked. Whoever may open the run's private folder also has the participation record compared with
it, cohort by cohort, and the cohorts with the sampling that the ledger names (`accounting.sampler_check`). Where
users are not sampled, the cohorts say how often and how closely each of them really came.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tacit.data.store import open_store
from tacit.errors import LedgerError, RunError, TacitError
from tacit.privacy import participation_record
from tacit.privacy.accounting.sampler_check import check_sampler
from tacit.privacy.ledger import Ledger, is_being_written
from tacit.privacy.participation_record import Cohort
from tacit.privacy.records import Opened
from tacit.runs.folder import RunFolder, by_name


@dataclass(frozen=True)
class Evidence:
    """A run, its ledger, and in words how far its cohorts were compared with the sampling they were meant to have."""

    folder: RunFolder
    ledger: Ledger
    cohorts: str
    users: list[NDArray[np.int64]] | None = None  # of each intent, where the cost depends on who it was

    @property
    def data(self) -> dict[str, Any]:
        """What the ledger says about the data: a store's id, or a world."""
        return {name: self.ledger.opened.data[name] for name in _NAMES_OF_DATA if name in self.ledger.opened.data}


_NAMES_OF_DATA = ("store", "world", "seed", "users")


def evidence_of(run: Path) -> Evidence:
    """The run of this path or name.

    RunError if there is none; LedgerError if its ledger is damaged, or if the cohorts cannot be what the ledger says.
    """
    folder = RunFolder.open(by_name(run))
    if not folder.begun:
        raise RunError(f"{folder.path} has not begun: expected a run with a ledger.")
    ledger = folder.ledger()
    unseen = _why_unseen(folder, ledger)
    if unseen is not None:
        return Evidence(folder, ledger, unseen)
    cohorts = participation_record.verified(folder.participation_path, ledger)
    if ledger.opened.plan["sampling"] == "check_in":
        users = [cohort.users for cohort, _ in zip(cohorts, ledger.intents, strict=False)]
        _require_no_more(cohorts, folder, ledger)
        return Evidence(folder, ledger, "the cohorts are those of the ledger", users)
    drawn_from = _users_drawn_from(folder, ledger.opened)
    check_sampler(zip(ledger.intents, cohorts, strict=False), drawn_from)
    _require_no_more(cohorts, folder, ledger)
    if drawn_from is None:
        said = (
            "the cohorts were compared with the sampling, but for their sizes: the data are not where the recipe says"
        )
        return Evidence(folder, ledger, said)
    return Evidence(folder, ledger, "the cohorts were compared with the sampling, and can be its")


def _why_unseen(folder: RunFolder, ledger: Ledger) -> str | None:
    """Why the participation record is left alone; None if it is not."""
    if ledger.opened.reasons_not_private:
        return "the cohorts were not compared with the sampling, as nothing is claimed"
    if not os.access(folder.private_path, os.R_OK | os.X_OK):
        return "the cohorts are as the ledger says: only the run's owner can compare them"
    if is_being_written(folder.ledger_path):
        return "the cohorts are as the ledger says: they are compared when the run is at rest"
    return None if ledger.intents else "there are no cohorts yet"


def _require_no_more(cohorts: Iterator[Cohort], folder: RunFolder, ledger: Ledger) -> None:
    """LedgerError if more follows the last intent's cohort than a crash leaves."""
    try:
        for _ in cohorts:
            pass
    except LedgerError:
        if ledger.closed is not None or not _ends_torn(folder.participation_path):
            raise


def _users_drawn_from(folder: RunFolder, opened: Opened) -> int | None:
    """How many users the sampler drew from, by the world or the store that the recipe names; None if it is not there."""
    if "users" in opened.data:
        return int(opened.data["users"])
    data = folder.recipe().get("data", {})
    try:
        store = open_store(str(data["store"]))
    except (TacitError, KeyError):
        return None
    return len(store) - int(data.get("held_out", 0)) if store.store_id == opened.data.get("store") else None


def _ends_torn(path: Path) -> bool:
    """Whether the record breaks off, as a crash leaves it."""
    try:
        for _ in participation_record.read(path):
            pass
    except LedgerError:
        return True
    return False
