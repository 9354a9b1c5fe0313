"""What a run costs its users. Everything that states an epsilon asks here.

**One headline.** It is computed from the participation that the plan promises: how users are sampled, or how often and how far
apart a user may take part. These are public constants, so `train`, `account`, `guarantee`, both kinds of `report`, the card of
an export, `runs` and the audit show every reader the same number.

**A second figure for the owner.** Where users are not sampled, the participation record says how often and how far apart they
really took part. The bound from that is usually smaller. It is shown beside the headline, under its own name, to whoever may
open the record, once all planned rounds have run: nothing is known about who will take part in the others.

A record that breaks the plan's promise makes the headline infinite, because its assumption is then known to be false. So does
a ledger that departs from its own plan (`tacit.privacy.statement.assumptions.objections`).
"""

from __future__ import annotations

import math
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tacit.errors import RunError
from tacit.files import is_being_written
from tacit.privacy.accounting.several_runs import Together, together
from tacit.privacy.accounting.spent import Spent, broken_promise, spent_by
from tacit.privacy.participation.log import verified
from tacit.privacy.record.ledger import Ledger
from tacit.privacy.record.planned import charged_for
from tacit.privacy.record.reasons import Reason, Why, distinct
from tacit.privacy.statement.assumptions import Observed, departures, objections
from tacit.privacy.statement.guarantee import Guarantee, ListedRuns
from tacit.runs.accuracy import measured_sentences
from tacit.runs.evidence import people_alone
from tacit.runs.folder import RunFolder
from tacit.runs.public import released_files

# What the owner's second figure is called in JSON.
HAPPENED = "from_the_participation_that_happened"

WhoTookPart = Sequence[NDArray[np.int64]]


@dataclass(frozen=True)
class RunCost:
    """`stated` is the headline, from the participation that the plan promises; `happened` is the owner's second figure."""

    ledger: Ledger
    stated: Spent
    happened: Spent | None = None

    def guarantee(
        self,
        *,
        observed: Observed | None = None,
        listed: ListedRuns | None = None,
        metrics: Mapping[str, Any] | None = None,
    ) -> Guarantee:
        """The statement. With `observed`, or a figure from the participation that happened, it is for the owner alone.

        `metrics` are the last that were measured on held-out users.
        """
        return Guarantee.of(
            self.ledger,
            self.stated,
            observed=observed,
            happened=self.happened,
            released=released_files(self.ledger.opened),
            listed=listed,
            accuracy=measured_sentences(metrics or {}),
        )

    def owners_figures(self) -> dict[str, Any] | None:
        """The second figure for JSON, None where there is none: an infinite epsilon is null."""
        return None if self.happened is None else _figures(self.happened)


def cost_of(folder: RunFolder, ledger: Ledger | None = None, *, cohorts: WhoTookPart | None = None) -> RunCost:
    """What the run in this folder costs. `ledger`: as it was read before. `cohorts`: who took part in each release.

    RunError if the run has not begun; LedgerError if its ledger contradicts its recipe or its checkpoints.
    """
    if ledger is None:
        if not folder.begun:
            raise RunError(f"The run {folder.path} has not begun, so it has no ledger.")
        ledger = folder.accountable_ledger()
    stated = spent_by(ledger.opened, ledger.intents, start=ledger.next_round)
    against = reasons_against(ledger, cohorts=cohorts)
    reasons = distinct((*stated.reasons_not_private, *objections(ledger, stated), *against))
    if reasons:
        stated = replace(stated, epsilon=math.inf, rho=None, reasons_not_private=reasons)
    return RunCost(ledger, stated, _happened(ledger, cohorts))


def reasons_against(ledger: Ledger, *, cohorts: WhoTookPart | None = None) -> list[Reason]:
    """Why a run with this ledger can claim nothing, beyond the reasons it names itself; `cohorts` as in `cost_of`."""
    found = departures(ledger)
    if not found and not ledger.opened.reasons_not_private and cohorts is not None and _unsampled(ledger):
        broken = broken_promise(ledger.opened, ledger.intents, cohorts)
        found += [] if broken is None else [Reason(Why.BROKEN_PROMISE, broken)]
    return found


def _unsampled(ledger: Ledger) -> bool:
    return ledger.opened.plan.get("sampling") == "check_in"


def _happened(ledger: Ledger, cohorts: WhoTookPart | None) -> Spent | None:
    if cohorts is None or not _unsampled(ledger):
        return None
    found = spent_by(ledger.opened, ledger.intents, start=ledger.next_round, cohorts=cohorts)
    return found if found.participation is not None and found.participation.observed else None


def total_cost(
    runs: Sequence[tuple[Ledger, WhoTookPart | None]], delta: float | None, *, adaptive: bool = False
) -> tuple[Together, Together | None]:
    """What several runs cost together: the headline, and the owner's second figure where cohorts are given.

    `adaptive`: runs may have been chosen by looking at what earlier ones released.
    """
    ledgers = [ledger for ledger, _ in runs]
    adaptive = adaptive or any(ledger.opened.extended_from for ledger in ledgers)
    stated = together(ledgers, delta, adaptive=adaptive)
    against = [
        reason.in_run(ledger.opened.run_id)
        for ledger, cohorts in runs
        for reason in reasons_against(ledger, cohorts=cohorts)
    ]
    if against:
        reasons = distinct((*stated.reasons_not_private, *against))
        stated = replace(stated, epsilon=math.inf, rho=None, reasons_not_private=reasons)
    known = {
        ledger.opened.run_id: cohorts
        for ledger, cohorts in runs
        if cohorts is not None and not charged_for(ledger.opened, ledger.intents, start=ledger.next_round).to_come
    }
    # An odometer may only add up costs that were fixed when each run began. The realised participation was not.
    return stated, together(ledgers, delta, cohorts=known) if known and not adaptive else None


def cohorts_for_owner(folder: RunFolder, ledger: Ledger) -> list[NDArray[np.int64]] | None:
    """Which people took part in each release of a run without sampling; None if the reader has no access to it, or there is
    sampling.

    None, too, while a process is writing to the run, whose participation record may then be ahead of its ledger, and where
    made-up users have a rate of their own and the data that show who is real are gone.
    """
    path = folder.participation_path
    if not _unsampled(ledger) or not ledger.intents or is_being_written(folder.ledger_path):
        return None
    if not (os.access(folder.private_path, os.R_OK | os.X_OK) and path.exists()):
        return None
    return people_alone(folder, ledger, [cohort.users for cohort in verified(path, ledger)])


def owners_figures(folder: RunFolder) -> dict[str, Any] | None:
    """The owner's second figure for JSON; None if the reader has no access to it."""
    if not folder.begun:
        return None
    ledger = folder.accountable_ledger()
    cohorts = cohorts_for_owner(folder, ledger)
    return None if cohorts is None else cost_of(folder, ledger, cohorts=cohorts).owners_figures()


_FIGURES = ("epsilon", "delta", "rho", "computed_from", "reasons_not_private", "reason_codes")


def _figures(happened: Spent) -> dict[str, Any]:
    found = happened.as_dict()
    return {name: found[name] for name in _FIGURES}
