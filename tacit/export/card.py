"""The model card of a trained model: its guarantee, its accuracy and its origin, to be stored inside the model's file.

The card is made from the run's public files: ledger, recipe and metrics. It is refused if the guarantee would be about another
model: if the ledger does not name the checkpoint, or if the recipe is not the one in the ledger.
"""

from __future__ import annotations

from typing import Any

from tacit.errors import RunError
from tacit.learning.averaging import averaging_of
from tacit.privacy.record.records import Committed
from tacit.runs.checkpoints import Checkpoint
from tacit.runs.cost import cost_of
from tacit.runs.folder import RunFolder
from tacit.runs.metrics import read_metrics

_SCORES = (
    "words",
    "top1",
    "top3",
    "in_vocabulary_top1",
    "papers_top1",
    "papers_top3",
    "perplexity",
    "out_of_vocabulary",
    "measured_on",
)


def model_card(folder: RunFolder, checkpoint: Checkpoint) -> dict[str, Any]:
    """The card of the model in this checkpoint, as plain data for JSON; an infinite epsilon is null.

    The guarantee covers all planned rounds, so at least the rounds of this checkpoint. Accuracy is null if it was not
    measured after the checkpoint's round.
    """
    if not folder.begun:
        raise RunError(f"The run {folder.path} has not begun: it has no ledger yet.")
    ledger = folder.accountable_ledger()
    named = {record.checkpoint for record in ledger.records if isinstance(record, Committed)}
    if checkpoint.digest not in named:
        raise RunError(
            f"The checkpoint after {checkpoint.round} rounds in {folder.path} is not one that the ledger names.",
            hint=f"If the run was interrupted, continue it: tacit train --resume {folder.path}",
        )
    measured = [record for record in read_metrics(folder.metrics_path) if record["round"] == checkpoint.round]
    stated = cost_of(folder, ledger).guarantee(metrics=measured[-1] if measured else None)
    return {
        "guarantee": stated.as_json(),
        "accuracy": {name: measured[-1][name] for name in _SCORES if name in measured[-1]} if measured else None,
        "rounds": checkpoint.round,
        "average": None if (average := averaging_of(folder.recipe().get("server", {}))) is None else str(average),
        "checkpoint": checkpoint.digest,
        "recipe_sha256": ledger.opened.recipe,
    }
