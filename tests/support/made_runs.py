"""A run on disk with everything a report reads, made by hand: no training, no JAX."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tacit.privacy.participation.log import ParticipationWriter
from tacit.privacy.plan import PrivacyPlan
from tacit.privacy.record.facts import DataRecord
from tacit.privacy.record.records import Closed
from tacit.recipe.reading import toml_of
from tacit.runs.folder import RunFolder
from tacit.runs.metrics import EPSILON_SO_FAR, MetricsWriter
from tests.support.first_record import NO_NOISE, WORLD
from tests.support.planned_ledgers import NONE, POISSON, intent_of, opened_with

RECIPE = 'name = "small"\n'

SUMMARY: dict[str, Any] = {
    "metrics": {
        "top1": 0.2461,
        "papers_top1": 0.2217,
        "papers_top3": 0.3355,
        "perplexity": 88.1,
        "out_of_vocabulary": 0.0551,
    },
    "baselines": {"unigram_top1": 0.06, "best_possible": {"top1": 0.5}},
    "examples": {"see you": [["soon", 0.31], ["later", 0.2]]},
}

MakeRun = Callable[..., RunFolder]


def made_run(
    path: Path,
    *,
    outcome: str | None = "finished",
    private: bool = True,
    rounds: int = 4,
    recipe: str = RECIPE,
    planned: int | None = None,
    store: str | None = None,
) -> RunFolder:
    """A run of so many rounds; user 7 takes part in each, somebody else beside. The recipe is completed with its plan."""
    plan = PrivacyPlan(**(POISSON if private else NONE))
    recipe += toml_of(
        {"privacy": plan.model_dump(mode="json", exclude_none=True), "run": {"rounds": planned or rounds}}
    )
    reasons = () if private else (NO_NOISE,)
    run = RunFolder.create(path, recipe)
    data = WORLD if store is None else DataRecord(store=store)
    facts = {"reasons_not_private": reasons, "data": data, "recipe": hashlib.sha256(recipe.encode()).hexdigest()}
    with (
        run.create_ledger(opened_with(plan, run_id=run.run_id, rounds=planned or rounds, **facts)) as ledger,
        ParticipationWriter(run.participation_path) as participation,
        MetricsWriter(run.metrics_path) as metrics,
        MetricsWriter(run.diagnostics_path) as diagnostics,
    ):
        for round in range(rounds):
            digest = participation.append(round, 0, [7, 100 + round])
            ledger.append(intent_of(plan, round, participation=digest))
            gone = outcome == "diverged" and round == rounds - 1
            measured = {
                "top1": 0.1 * round,
                "papers_top1": 0.05 * round,
                "perplexity": None if gone else 90.0 - round / 10,
            }
            metrics.append({"round": round + 1, **measured, EPSILON_SO_FAR: 1.0 + round if private else None})
            quantiles = {"0.1": 0.71317, "0.5": 0.81317, "0.9": 0.91317}
            diagnostics.append({"round": round + 1, "users": 2, "clipped": 0.5, "norm_quantiles": quantiles})
        if outcome is not None:
            ledger.append(Closed(rounds, outcome))
    if outcome == "finished":
        run.summary_path.write_text(json.dumps(SUMMARY))
    return run
