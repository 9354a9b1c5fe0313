"""The model of a run, and the one that it was pre-trained as, as files for the page: what `tacit export` writes.

A page gets a model only if its words may be seen. A run whose words were counted on private users is refused: its words are
users' text.
"""

from __future__ import annotations

from dataclasses import replace

from tacit.api.run import Run
from tacit.errors import RunError
from tacit.export.architecture import architecture_of
from tacit.export.model_files import Exportable, safetensors_of
from tacit.learning.state import load_model
from tacit.models.lora import Adapted, merge
from tacit.privacy.record.facts import PretrainingRecord
from tacit.runs import checkpoints
from tacit.web import words


def model_for_page(run: Run) -> Exportable:
    """The run's model, with adapters merged; RunError, in one sentence, if the page cannot run it."""
    require_words_to_show(run)
    found = run.exportable()
    if isinstance(found.model, Adapted):
        found = replace(found, model=merge(found.model))
    if architecture_of(found.model) is None:
        raise RunError(
            f"Expected a recurrent word model or a transformer of Tacit's, got {type(found.model).__name__} in {run.path}: the "
            "page can run no other.",
            hint=f"tacit predict {run.path} runs any model.",
        )
    if not run.predicts_as_tacit:
        raise RunError(
            f"Expected a run whose task is NextWord, got {run.path}, whose task computes scores in a way of its own.",
            hint=f"tacit predict {run.path} runs any task.",
        )
    if len(found.words) != len(found.model.embedding):
        raise RunError(
            f"Expected a word for each of the {len(found.model.embedding):,} entries of the model, got {run.path} with "
            f"{len(found.words):,}."
        )
    return found


def require_words_to_show(run: Run) -> None:
    """RunError if the run has no words; PrivacyError if they were counted on private users: they are text of these users."""
    if not run.words:
        raise RunError(f"Expected a run that trains a next-word model, got {run.path}, which has no words to suggest.")
    words.require_words_to_show(run.folder)


def pretrained_for_page(trained: Exportable, run: Run) -> bytes | None:
    """The file of the model that the run's users began with; None if the run was not pre-trained.

    RunError if that model is not the one that the ledger names.
    """
    record = pretraining_of(run)
    if record is None:
        return None
    kept = checkpoints.load(checkpoints.path_of(run.folder.pretrained_path, 0))
    if kept.digest != record.digest:
        raise RunError(f"The pre-trained model of {run.path} is not the one that its ledger names.")
    card = {
        "exported_by": trained.card["exported_by"],
        "parameters": trained.card["parameters"],
        "checkpoint": kept.digest,
        "guarantee": {"headline": f"This model has read public text alone: {record.public}."},
        "accuracy": None,
        "rounds": 0,
    }
    return safetensors_of(replace(trained, model=load_model(trained.model, kept.arrays), card=card))


def pretraining_of(run: Run) -> PretrainingRecord | None:
    """What the ledger says about the run's pre-training."""
    return run.ledger.opened.pretraining
