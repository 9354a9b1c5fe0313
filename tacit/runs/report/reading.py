"""What a report is made from: a run folder, read once. A shared copy never opens anything in private/."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tacit.errors import LedgerError, RunError
from tacit.files import is_being_written
from tacit.privacy.participation import log as participation_record
from tacit.privacy.record.ledger import Ledger
from tacit.privacy.statement.assumptions import Observed
from tacit.privacy.statement.guarantee import Guarantee
from tacit.runs.cost import cost_of
from tacit.runs.evidence import people_alone
from tacit.runs.folder import RunFolder
from tacit.runs.metrics import read_metrics
from tacit.runs.other_runs import runs_listed_with

_OPEN_ENDS = ("running", "interrupted")


@dataclass(frozen=True)
class Reading:
    """A run as its folder shows it. `share`: the last three fields are empty, and private/ was not opened."""

    folder: RunFolder
    share: bool
    state: str
    recipe: dict[str, Any]
    recipe_text: str
    summary: dict[str, Any]
    metrics: list[dict[str, Any]]
    ledger: Ledger | None
    guarantee: Guarantee | None
    diagnostics: list[dict[str, Any]]
    participations: NDArray[np.int64] | None
    participation_problem: str | None

    @property
    def name(self) -> str:
        """The title: the recipe's name and the folder's."""
        recipe, folder = str(self.recipe.get("name", "")), self.folder.path.resolve().name
        return folder if not recipe or folder.startswith(recipe) else f"{recipe} ({folder})"

    @property
    def rounds_planned(self) -> int | None:
        """How many rounds are planned by the ledger, or else by the recipe; None if neither says."""
        if self.ledger is not None:
            return self.ledger.opened.rounds
        section = self.recipe.get("run")
        rounds = section.get("rounds") if isinstance(section, dict) else None
        return rounds if isinstance(rounds, int) else None


def state_of(folder: RunFolder, ledger: Ledger | None) -> str:
    """not begun, running, interrupted, or how it ended: finished, diverged, stopped."""
    if ledger is None:
        return "not begun"
    if is_being_written(folder.ledger_path):
        return "running"
    return ledger.closed.outcome if ledger.closed else "interrupted"


def read_run(folder: RunFolder, *, share: bool) -> Reading:
    """Everything a report needs. RunError, in one sentence, if the run is damaged."""
    ledger = folder.accountable_ledger() if folder.begun else None
    state = state_of(folder, ledger)
    diagnostics: list[dict[str, Any]] = []
    cohorts, problem = None, None
    if not share:
        try:
            diagnostics = list(read_metrics(folder.diagnostics_path))
            cohorts, problem = _cohorts(folder, ledger, state)
        except PermissionError:
            raise RunError(
                f"The private folder of {folder.path} can be read by the run's owner alone.",
                hint="--share writes the copy for everybody else.",
            ) from None
    people = None if cohorts is None or ledger is None else people_alone(folder, ledger, cohorts)
    participations = None if people is None else _counted(people)
    guarantee, metrics = None, list(read_metrics(folder.metrics_path))
    if ledger is not None:
        seen = None if participations is None else Observed(int(participations.max(initial=0)))
        listed = None if share else runs_listed_with(folder)
        guarantee = cost_of(folder, ledger, cohorts=people).guarantee(
            observed=seen, listed=listed, metrics=metrics[-1] if metrics else None
        )
    return Reading(
        folder,
        share,
        state,
        folder.recipe(),
        folder.recipe_path.read_text(encoding="utf-8"),
        folder.summary() or {},
        metrics,
        ledger,
        guarantee,
        diagnostics,
        participations,
        problem,
    )


def _cohorts(folder: RunFolder, ledger: Ledger | None, state: str) -> tuple[list[NDArray[np.int64]] | None, str | None]:
    """Who took part in each release, or why this cannot be shown."""
    if ledger is None or not ledger.intents or not folder.participation_path.exists():
        return None, None
    try:
        return [each.users for each in participation_record.verified(folder.participation_path, ledger)], None
    except LedgerError as error:
        # Of a run that goes on, or was cut off, the record may be ahead of the ledger, or end in the middle of a record;
        # of a run that was closed, it may not.
        if state not in _OPEN_ENDS:
            raise
        return None, error.sentence


def _counted(cohorts: Sequence[NDArray[np.int64]]) -> NDArray[np.int64]:
    """How often each user took part, by number."""
    counts = np.zeros(1 + max((int(users.max(initial=-1)) for users in cohorts), default=-1), dtype=np.int64)
    for users in cohorts:
        counts[users] += 1
    return counts


def finite(value: Any) -> float | None:
    """The number, None if there is none: metrics of a run that diverged have gaps."""
    usable = isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
    return float(value) if usable else None
