"""A run as a line of the table: what a list shows before anybody opens the run."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pydantic import BaseModel, Field

from tacit.errors import TacitError
from tacit.runs.facts import facts_of
from tacit.runs.folder import RunFolder
from tacit.runs.metrics import EPSILON_SO_FAR, last_metrics
from tacit.web.plain import why_not_plain

READING, DAMAGED = "reading", "damaged"
# What a damaged file raises where a public function has no sentence for it. RecursionError: JSON that is nested too deeply.
DAMAGE = (OSError, UnicodeDecodeError, KeyError, TypeError, AttributeError, ValueError, RecursionError)


class RunRow(BaseModel):
    """A run in the table. `version` rises whenever the run's files have changed."""

    key: str = Field(description="names the run in addresses; the same as long as its folder stays where it is")
    name: str = Field(description="where the folder is below the board's folder")
    folder: str
    recipe: str = ""
    created: str = ""
    state: str = READING
    rounds: int = 0
    planned: int | None = None
    releases: int = 0
    metrics: dict[str, float] = Field(default_factory=dict, description="the last that was measured on held-out users")
    epsilon: float | None = Field(
        default=None, description="what the run costs by its ledger; null if infinite or not known yet"
    )
    cost_known: bool = Field(default=False, description="false while the cost is being computed from the ledger")
    delta: float | None = None
    infinite_because: list[str] = Field(default_factory=list)
    epsilon_so_far: float | None = Field(
        default=None, description="as if the run had been planned to end with the last round"
    )
    mechanism: str = ""
    problem: str | None = Field(default=None, description="of a damaged run: what is wrong with it")
    seconds_a_round: float | None = Field(
        default=None, description="of a run that the board has seen train for some rounds"
    )
    kind: str = Field(
        default="training",
        description="what the run is for: training, text, bias or images (an inspection), or part of an inspection",
    )
    version: int = 0


def key_of(path: Path) -> str:
    """The name of the run in this folder. An address can name only runs that the board has found itself."""
    return hashlib.sha256(str(path.resolve()).encode()).hexdigest()[:16]


def unread(path: Path, name: str | None = None) -> RunRow:
    """The row of a run that has not been read yet. `name` is what the table calls it: by default, its folder's name."""
    return RunRow(key=key_of(path), name=path.name if name is None else name, folder=str(path))


def read_row(path: Path, cost: Mapping[str, Any]) -> RunRow:
    """The row of a run; of a damaged run, its problem in one sentence.

    `cost` is what the run cost when that was computed last, for a run whose summary does not state it; empty if it never was.
    """
    row = unread(path)
    if (problem := why_not_plain(path)) is not None:
        return row.model_copy(update={"state": DAMAGED, "problem": problem})
    try:
        folder = RunFolder.open(path)
        facts, recipe = facts_of(folder, cost=cost), folder.recipe()
        last = last_metrics(folder.metrics_path) or {}
    except TacitError as error:
        return row.model_copy(update={"state": DAMAGED, "problem": error.sentence})
    except DAMAGE as error:
        sentence = f"The run {path} cannot be read ({type(error).__name__})."
        return row.model_copy(update={"state": DAMAGED, "problem": sentence})
    privacy = facts["privacy"] or {}
    update = {
        "recipe": str(recipe.get("name", "")),
        "created": folder.created,
        "state": facts["state"],
        "rounds": facts["rounds"],
        "releases": facts["releases"],
        "planned": privacy.get("rounds_planned") or _inside(recipe, "run", "rounds"),
        "metrics": _numbers(facts["metrics"]),
        "cost_known": facts["privacy"] is None or "epsilon" in privacy,
        "epsilon": _number(privacy.get("epsilon")),
        "delta": _number(privacy.get("delta")),
        "infinite_because": [str(each) for each in privacy.get("reasons_not_private") or []],
        "epsilon_so_far": _number(last.get(EPSILON_SO_FAR)),
        "kind": _kind(recipe),
        "mechanism": str(_inside(recipe, "privacy", "mechanism") or "gaussian"),
    }
    return RunRow.model_validate(row.model_dump() | update)


def _kind(recipe: Mapping[str, Any]) -> str:
    """An inspection of images has four runs, and the last of them has what it made up."""
    if recipe.get("inspect") == "images" and recipe.get("stage") not in (None, "low"):
        return "part of an inspection"
    return str(recipe.get("inspect", "training"))


def _inside(recipe: Mapping[str, Any], section: str, name: str) -> Any:
    found = recipe.get(section)
    return found.get(name) if isinstance(found, Mapping) else None


def _number(value: Any) -> float | None:
    usable = isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
    return float(value) if usable else None


def _numbers(values: Mapping[str, Any]) -> dict[str, float]:
    return {name: number for name, value in values.items() if (number := _number(value)) is not None}
