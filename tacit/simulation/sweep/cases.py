"""Where each case of a sweep is: what its run's folder shows, and what it costs by itself."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from tacit.errors import RunError
from tacit.numbers import finite_or_none
from tacit.privacy.accounting.spent import Spent, spent_by
from tacit.privacy.record.records import to_json
from tacit.runs.accuracy import SHARES
from tacit.runs.cost import cost_of
from tacit.runs.finding import is_run
from tacit.runs.folder import RunFolder
from tacit.runs.metrics import last_metrics
from tacit.runs.report.reading import state_of
from tacit.simulation.sweep.folder import SettledCase, SweepFolder

# A case in one of these states is not run again.
DONE = ("finished", "diverged")
WAITING, FAILED = "waiting", "failed"


@dataclass(frozen=True)
class CaseResult:
    """A case of a sweep: its state, its last metrics, and `problem`, which says why it failed or diverged.

    `state` is waiting, running, stopped, interrupted, finished, diverged or failed.

    >>> import tacit
    >>> tacit.CaseResult("clip_norm=0.2", "finished", rounds=20, rounds_planned=20, metrics={"top1": 0.2}).metrics["top1"]
    0.2
    """

    name: str
    state: str
    rounds: int = 0
    rounds_planned: int = 0
    settings: Mapping[str, Any] = field(default_factory=dict)
    metrics: Mapping[str, Any] = field(default_factory=dict)
    problem: str | None = None


def result_of(sweep: SweepFolder, case: SettledCase) -> CaseResult:
    """Where this case is. A run whose folder is damaged has failed, and says why."""
    found = CaseResult(case.name, WAITING, 0, case.recipe.run.rounds, case.case.settings)
    problem = sweep.notes(case).get("problem")
    path = sweep.run_path(case)
    try:
        if is_run(path):
            folder = RunFolder.open(path)
            ledger = folder.accountable_ledger() if folder.begun else None
            state = state_of(folder, ledger)
            last = last_metrics(folder.metrics_path) or {}
            metrics = (folder.summary() or {}).get("metrics") or {
                name: last[name] for name in (*SHARES, "perplexity") if name in last
            }
            found = replace(
                found,
                state=WAITING if ledger is None else state,
                rounds=0 if ledger is None else ledger.next_round,
                metrics=metrics,
            )
    except RunError as error:
        return replace(found, state=FAILED, problem=error.sentence)
    if problem is None or found.state in ("finished", "running"):
        return found
    return replace(found, state=found.state if found.state in DONE else FAILED, problem=str(problem))


class Costs:
    """What cases cost by themselves, each kind computed once."""

    def __init__(self) -> None:
        self._planned: dict[str, Spent] = {}

    def of(self, sweep: SweepFolder, case: SettledCase) -> tuple[float | None, tuple[str, ...]]:
        """Epsilon of this case's planned rounds, None if it is infinite, and then why."""
        spent = self._spent(sweep, case)
        return finite_or_none(spent.epsilon), tuple(reason.sentence for reason in spent.reasons_not_private)

    def _spent(self, sweep: SweepFolder, case: SettledCase) -> Spent:
        path = sweep.run_path(case)
        if is_run(path):
            folder = RunFolder.open(path)
            if folder.begun:
                return cost_of(folder).stated
        vocabulary = case.opened.vocabulary
        if vocabulary is not None:
            vocabulary = replace(vocabulary, run="planned")
        key = json.dumps(to_json(replace(case.opened, run_id="planned", vocabulary=vocabulary)), sort_keys=True)
        if key not in self._planned:
            self._planned[key] = spent_by(case.opened, ())
        return self._planned[key]


def results_of(sweep: SweepFolder, cases: Iterable[SettledCase] | None = None) -> list[CaseResult]:
    """Where these cases are, or all of them."""
    return [result_of(sweep, case) for case in (sweep.cases if cases is None else cases)]
