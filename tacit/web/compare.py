"""Route of several runs side by side: where their recipes differ, and what they cost together."""

from __future__ import annotations

import math
from typing import Annotated, Any

from fastapi import APIRouter, Query
from pydantic import BaseModel

from tacit.errors import RunError, TacitError
from tacit.runs.cost import total_cost
from tacit.runs.facts import recipe_differences
from tacit.runs.folder import RunFolder
from tacit.web.reading import in_one_sentence, path_of
from tacit.web.rows import RunRow
from tacit.web.watcher import RunWatcher

MOST_RUNS = 20


class CostTogether(BaseModel):
    """What several runs cost a person who was in all of them, or why it cannot be said."""

    epsilon: float | None
    delta: float | None
    rho: float | None
    accountant: str | None
    adjacency: str | None
    reasons_not_private: list[str]
    assumptions: list[str]
    problem: str | None = None


class Comparison(BaseModel):
    runs: list[RunRow]
    differences: dict[str, list[Any]]
    planned_together: CostTogether
    one_after_another: CostTogether


def compare_routes(watcher: RunWatcher) -> APIRouter:
    """The route of a comparison."""
    router = APIRouter(prefix="/api")

    @router.get("/compare")
    def compare(key: Annotated[list[str], Query(min_length=1, max_length=MOST_RUNS)]) -> Comparison:
        """The differences of these runs' recipes, and what the runs cost together."""
        folders = [RunFolder.open(path_of(watcher, each)) for each in dict.fromkeys(key)]
        rows = [row for each in dict.fromkeys(key) if (row := watcher.row(each)) is not None]
        recipes = []
        for folder in folders:
            with in_one_sentence(folder.path):
                recipes.append(folder.recipe())
        return Comparison(
            runs=rows,
            differences=recipe_differences(recipes),
            planned_together=_together(folders, rows, adaptive=False),
            one_after_another=_together(folders, rows, adaptive=True),
        )

    return router


def _together(folders: list[RunFolder], rows: list[RunRow], *, adaptive: bool) -> CostTogether:
    try:
        if waiting := [folder for folder in folders if not folder.begun]:
            raise RunError(f"The run {waiting[0].path} has not begun, so its cost is not known.")
        ledgers = [folder.accountable_ledger() for folder in folders]
        total, _ = total_cost([(ledger, None) for ledger in ledgers], None, adaptive=adaptive)
    except TacitError as error:
        return CostTogether(
            epsilon=None,
            delta=None,
            rho=None,
            accountant=None,
            adjacency=None,
            reasons_not_private=[],
            assumptions=[],
            problem=error.sentence,
        )
    return CostTogether(
        epsilon=total.epsilon if math.isfinite(total.epsilon) else None,
        delta=total.delta,
        rho=total.rho if total.rho is not None and math.isfinite(total.rho) else None,
        accountant=total.accountant,
        adjacency=total.adjacency,
        reasons_not_private=[_by_name(reason.sentence, folders, rows) for reason in total.reasons_not_private],
        assumptions=list(total.assumptions),
    )


def _by_name(sentence: str, folders: list[RunFolder], rows: list[RunRow]) -> str:
    """The sentence with the runs' names in place of their ids, which the table does not show."""
    names = {row.folder: row.name for row in rows}
    for folder in folders:
        sentence = sentence.replace(f"run {folder.run_id}", names.get(str(folder.path), str(folder.path)))
    return sentence
