"""A run's ledger, checked as far as the person who asks may see.

The ledger's chain is always checked. For a person who may open the run's private folder, the participation record is compared
with the ledger, cohort by cohort, and the cohorts with the sampling that the ledger names (`accounting.sampler_check`). Where
users are not sampled, the cohorts show how often and how closely each of them took part.

An audited run draws made-up users as well, numbered after the real ones. They are drawn with everybody else, or each of them
independently at a rate of their own; then the two kinds are compared with two laws, each with its own chance of a false alarm.
"""

from __future__ import annotations

import math
import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from tacit.data.remote import place_of
from tacit.data.store import Store, open_store
from tacit.data.users import Names, names_of_numbers
from tacit.errors import LedgerError, RunError, TacitError
from tacit.files import is_being_written
from tacit.privacy.accounting.sampler_check import check_sampler
from tacit.privacy.participation import log as participation_record
from tacit.privacy.participation.cyclic import CYCLIC
from tacit.privacy.participation.log import RecordedCohort
from tacit.privacy.record.ledger import Ledger
from tacit.privacy.record.records import Intent, Opened
from tacit.runs.finding import by_name
from tacit.runs.folder import RunFolder
from tacit.runs.odometer import NAME, heads_of, objection_to

_WHO_IS_REAL = (
    "they could not be compared with the sampling, because made-up users have a rate of their own, and the data that show "
    "who is real are not where the recipe says"
)


@dataclass(frozen=True)
class Evidence:
    """A run, its ledger, and in words how far its cohorts were compared with the sampling they were meant to have."""

    folder: RunFolder
    ledger: Ledger
    cohorts: str
    users: list[NDArray[np.int64]] | None = None  # of each intent, where the cost depends on who it was

    @property
    def data(self) -> dict[str, str | int]:
        """What the ledger says about the data: a store's id, or a world with its seed and number of users."""
        data = self.ledger.opened.data
        return data.name if data.users is None else {**data.name, "users": data.users}


def evidence_of(run: Path, *, as_listed: bool = True) -> Evidence:
    """The run of this path or name.

    RunError if there is none; LedgerError if its ledger is damaged or contradicts the run's recipe or checkpoints, if the
    cohorts cannot be what the ledger says, or, with `as_listed`, if the store's odometer is at hand and knows another ledger.
    """
    folder = RunFolder.open(by_name(run))
    if not folder.begun:
        raise RunError(f"{folder.path} has no ledger yet, because the run has not begun.")
    ledger = folder.accountable_ledger()
    if as_listed:
        _require_as_listed(folder, ledger)
    unseen = _why_unseen(folder, ledger)
    if unseen is not None:
        return Evidence(folder, ledger, unseen)
    cohorts = participation_record.verified(folder.participation_path, ledger)
    if ledger.opened.plan["sampling"] == "check_in":
        users = people_alone(folder, ledger, [cohort.users for cohort, _ in zip(cohorts, ledger.intents, strict=False)])
        _require_no_more(cohorts, folder, ledger)
        if users is None:
            return Evidence(folder, ledger, f"the cohorts are as the ledger says; {_WHO_IS_REAL}")
        return Evidence(folder, ledger, "the cohorts are those of the ledger", users)
    said = _compared(folder, ledger, cohorts)
    _require_no_more(cohorts, folder, ledger)
    return Evidence(folder, ledger, said)


def _compared(folder: RunFolder, ledger: Ledger, cohorts: Iterator[RecordedCohort]) -> str:
    """Compare the cohorts with the sampling, and say how far that went; LedgerError if they cannot be its."""
    real, made_up, rate = training_users(folder, ledger.opened), *_made_up_users(ledger.opened)
    pairs = zip(ledger.intents, cohorts, strict=False)
    if rate is None:
        # The names of made-up users are in the canary plan, which is not at hand: groups are then compared without names.
        names = training_names(folder, ledger.opened) if made_up == 0 and _has_groups(ledger.opened) else None
        check_sampler(pairs, None if real is None else real + made_up, names=names)
        if real is None:
            return (
                "the cohorts agree with the stated sampling; their sizes could not be checked, because the data are not where "
                "the recipe says"
            )
        return "the cohorts agree with the stated sampling"
    if real is None:
        for _ in pairs:  # each is compared with the ledger
            pass
        return f"the cohorts are as the ledger says; {_WHO_IS_REAL}"
    check_sampler(_between(pairs, 0, real), real, whose="The cohorts of the real users")
    law = {"kind": "poisson", "probability": rate}
    again = participation_record.verified(folder.participation_path, ledger)
    others = ((replace(intent, sampling=law), cohort) for intent, cohort in zip(ledger.intents, again, strict=False))
    check_sampler(_between(others, real, None), made_up, whose="The cohorts of the made-up users")
    return "the cohorts of real users agree with the stated sampling, and those of made-up users with their own rate"


def people_alone(
    folder: RunFolder, ledger: Ledger, cohorts: Sequence[NDArray[np.int64]]
) -> list[NDArray[np.int64]] | None:
    """These cohorts without made-up users at a rate of their own, whom no limit on participation concerns.

    None if the data that show who is real are not where the recipe says.
    """
    if _made_up_users(ledger.opened)[1] is None:
        return list(cohorts)
    real = training_users(folder, ledger.opened)
    return None if real is None else [users[users < real] for users in cohorts]


def _between(
    pairs: Iterable[tuple[Intent, RecordedCohort]], first: int, stop: int | None
) -> Iterator[tuple[Intent, RecordedCohort]]:
    """The same cohorts with the users from number `first` to `stop` alone, numbered from 0."""
    for intent, cohort in pairs:
        start, end = np.searchsorted(cohort.users, [first, math.inf if stop is None else stop])
        yield intent, replace(cohort, users=cohort.users[start:end] - first)


def _require_as_listed(folder: RunFolder, ledger: Ledger) -> None:
    """LedgerError if the list in the store that the recipe names may be read and knows another ledger of this run."""
    store = folder.recipe().get("data", {}).get("store")
    if store is None:
        return
    place = place_of(store)
    if not os.access(place / NAME, os.R_OK):
        return
    heads = heads_of(place).get(ledger.opened.run_id, [])
    if (objection := objection_to(ledger, heads, place / NAME)) is not None:
        raise LedgerError(f"{objection}.")


def _why_unseen(folder: RunFolder, ledger: Ledger) -> str | None:
    """Why the participation record is left alone; None if it is not."""
    if ledger.opened.reasons_not_private:
        return "the cohorts were not compared with the sampling, because no privacy is claimed"
    if not os.access(folder.private_path, os.R_OK | os.X_OK):
        return "the cohorts were not compared with the sampling: only the run's owner can do that"
    if is_being_written(folder.ledger_path):
        return "the cohorts were not compared with the sampling, because the run is being written"
    return None if ledger.intents else "there are no cohorts yet"


def _require_no_more(cohorts: Iterator[RecordedCohort], folder: RunFolder, ledger: Ledger) -> None:
    """LedgerError if more follows the last intent's cohort than a crash leaves."""
    try:
        for _ in cohorts:
            pass
    except LedgerError:
        if ledger.closed is not None or not _ends_torn(folder.participation_path):
            raise


def training_users(folder: RunFolder, opened: Opened) -> int | None:
    """How many real users there are to draw from, by the world or the store that the recipe names; None if it is not there."""
    if opened.data.users is not None:
        return opened.data.users
    store = _store(folder, opened)
    return None if store is None else len(store) - len(store.held_out_users())


def training_names(folder: RunFolder, opened: Opened) -> Names | None:
    """The names of these users, in the order of their numbers; None if the data are not where the recipe says."""
    if opened.data.users is not None:
        return names_of_numbers(np.arange(opened.data.users))
    store = _store(folder, opened)
    if store is None:
        return None
    return store.names(np.delete(np.arange(len(store), dtype=np.int64), store.held_out_users()))


def _store(folder: RunFolder, opened: Opened) -> Store | None:
    data = folder.recipe().get("data", {})
    try:
        store = open_store(place_of(str(data["store"])))
    except (TacitError, KeyError):
        return None
    return store if store.store_id == opened.data.store else None


def _has_groups(opened: Opened) -> bool:
    return bool(opened.plan["sampling"] == CYCLIC)


def _made_up_users(opened: Opened) -> tuple[int, float | None]:
    """How many users an audit added to the real ones, and at which rate they were drawn; None: as everybody else."""
    planted = opened.planted
    return (0, None) if planted is None else (planted.made_up_users, planted.device_rate)


def _ends_torn(path: Path) -> bool:
    """Whether the record breaks off, as a crash leaves it."""
    try:
        for _ in participation_record.read(path):
            pass
    except LedgerError:
        return True
    return False
