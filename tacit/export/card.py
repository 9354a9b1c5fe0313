"""The card of a trained model: what it is, how good it is and what is guaranteed about it, to travel inside its file.

Everything comes from what the run has published: its ledger, its recipe, its metrics. A card is refused where the guarantee
would be about another model: for a checkpoint that the ledger does not name, or a recipe that is not the ledger's.
"""

from __future__ import annotations

from typing import Any

from tacit.errors import RunError
from tacit.privacy.record.records import Committed
from tacit.runs.checkpoints import Checkpoint
from tacit.runs.cost import cost_of
from tacit.runs.folder import RunFolder
from tacit.runs.metrics import read_metrics

_SCORES = ("words", "top1", "top3", "in_vocabulary_top1", "perplexity", "out_of_vocabulary", "measured_on")


def model_card(folder: RunFolder, checkpoint: Checkpoint) -> dict[str, Any]:
    """The card of the model in this checkpoint, as plain data for JSON; epsilon is null where it is infinite.

    The guarantee is that of all planned rounds, so it covers at least the rounds in this model. Accuracy is null where
    it was not measured after this very round.
    """
    if not folder.begun:
        raise RunError(f"Expected a run with a ledger, got {folder.path}, which has not begun.")
    ledger = folder.accountable_ledger()
    named = {record.checkpoint for record in ledger.records if isinstance(record, Committed)}
    if checkpoint.digest not in named:
        raise RunError(
            f"The checkpoint after {checkpoint.round} rounds in {folder.path} is not one that the ledger names.",
            hint=f"If the run was cut off, go on with it: tacit train --resume {folder.path}",
        )
    stated = cost_of(folder, ledger).guarantee()
    measured = [record for record in read_metrics(folder.metrics_path) if record["round"] == checkpoint.round]
    return {
        "guarantee": stated.as_json(),
        "accuracy": {name: measured[-1][name] for name in _SCORES if name in measured[-1]} if measured else None,
        "rounds": checkpoint.round,
        "checkpoint": checkpoint.digest,
        "recipe_sha256": ledger.opened.recipe,
    }
