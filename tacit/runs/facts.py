"""A run's facts: state, rounds, what was measured and what it costs, for every list and table of runs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from tacit.privacy.record.ledger import Ledger
from tacit.runs.accuracy import SHARES
from tacit.runs.cost import HAPPENED, cohorts_for_owner, cost_of
from tacit.runs.folder import RunFolder
from tacit.runs.metrics import last_metrics
from tacit.runs.report.reading import state_of

# What a summary says of the cost; one of an older version lacks some of it, and the cost is then computed again.
STATED = frozenset(
    ("epsilon", "delta", "rho", "adjacency", "accountant", "assumptions", "unit", "releases", "rounds_planned")
    + ("rounds_run", "participation", "computed_from", "rounds", "reasons_not_private", "reason_codes")
)


def facts_of(folder: RunFolder, *, recount: bool = False, cost: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """The facts in the folder: those of the summary; until there is one, the last metrics and the cost of the whole ledger.

    `recount`: compute the cost from the ledger also where the summary states it, with the owner's second figure. `cost`: where
    the summary does not state it, state this one, which was computed before, or nothing if it is empty.
    """
    summary = folder.summary() or {}
    last = last_metrics(folder.metrics_path) or {}
    ledger = folder.accountable_ledger() if folder.begun else None
    privacy = None
    if ledger is not None:
        privacy = _privacy(folder, ledger, summary.get("privacy"), recount, cost)
    metrics = summary.get("metrics") or {name: last[name] for name in (*SHARES, "perplexity") if name in last}
    return {
        "run": str(folder.path),
        "run_id": folder.run_id,
        "created": folder.created,
        "state": state_of(folder, ledger),
        "rounds": ledger.next_round if ledger else 0,
        "releases": len(ledger.releases()) if ledger else 0,
        "metrics": metrics,
        "baselines": summary.get("baselines") or {},
        "privacy": privacy,
        **({} if "found" not in summary else {"discovery": {name: summary[name] for name in ("words", "found")}}),
    }


def _privacy(
    folder: RunFolder, ledger: Ledger, stated: dict[str, Any] | None, recount: bool, known: Mapping[str, Any] | None
) -> dict[str, Any]:
    """What the summary states, if it is complete and covers all releases; if not, or to `recount`, the ledger's cost."""
    complete = stated is not None and stated.keys() >= STATED
    if stated and complete and not recount and stated["releases"] == len(ledger.intents):
        return stated
    if known is not None:
        return dict(known)
    cost = cost_of(folder, ledger, cohorts=cohorts_for_owner(folder, ledger) if recount else None)
    return cost.stated.as_dict() | ({HAPPENED: cost.owners_figures()} if recount else {})


def settings_by_name(value: Mapping[str, Any], name: str = "") -> Iterator[tuple[str, Any]]:
    """Nested settings as pairs of dotted name and value.

    >>> list(settings_by_name({"run": {"rounds": 4}, "name": "mine"}))
    [('run.rounds', 4), ('name', 'mine')]
    """
    for key, inner in value.items():
        full = f"{name}.{key}" if name else str(key)
        if isinstance(inner, Mapping):
            yield from settings_by_name(inner, full)
        else:
            yield full, inner


def recipe_differences(recipes: list[dict[str, Any]]) -> dict[str, list[Any]]:
    """The settings in which these recipes differ, by dotted name, with the value of each recipe.

    What a recipe says of a paper is no setting: it changes nothing.
    """
    flat = [dict(settings_by_name({name: recipe[name] for name in recipe if name != "paper"})) for recipe in recipes]
    columns = {name: [each.get(name) for each in flat] for name in sorted({name for each in flat for name in each})}
    return {name: values for name, values in columns.items() if any(value != values[0] for value in values)}
