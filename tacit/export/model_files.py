"""Write a trained model to one file, with its model card inside: safetensors to build on, ONNX to deploy.

The file's metadata has the card's headline under "guarantee" and the whole card as JSON under "card". No private file is
read: an export is a function of the run's releases.
"""

from __future__ import annotations

import importlib.util
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from safetensors.numpy import save

from tacit import __version__
from tacit.data.users import BOS, EOS, FIRST_WORD, OOV, PAD
from tacit.errors import RunError
from tacit.export.card import model_card
from tacit.export.onnx_check import Agreement, require_agreement
from tacit.export.onnx_step import onnx_step
from tacit.files import write_atomic
from tacit.learning.state import model_arrays
from tacit.models.word_lm import WordLM, parameter_count
from tacit.runs.checkpoints import Checkpoint
from tacit.runs.folder import RunFolder
from tacit.training.trained import load_trained

SHOWN = 3  # words that a keyboard suggests
_NEEDED = ("onnx", "onnxruntime")


@dataclass(frozen=True)
class Exportable:
    """A trained model with its words, what is known of its shape, and its card."""

    model: Any
    words: list[str]
    shape: Mapping[str, Any]
    card: Mapping[str, Any]

    @property
    def metadata(self) -> dict[str, str]:
        """The metadata that both kinds of file carry."""
        return {
            "guarantee": self.card["guarantee"]["headline"],
            "card": json.dumps(self.card, allow_nan=False, ensure_ascii=False),
            "model": json.dumps(self.shape),
        }


def open_for_export(path: Path) -> Exportable:
    """The model of a run's last checkpoint with its card, which is checked against the ledger."""
    trained = load_trained(path)
    if (known := len(trained.words) - FIRST_WORD) < SHOWN:
        raise RunError(f"Expected a run with a vocabulary of at least {SHOWN} words, got {path}, which has {known}.")
    return exportable(trained.model, trained.folder, trained.checkpoint, asdict(trained.config))


def exportable(model: Any, folder: RunFolder, checkpoint: Checkpoint, shape: Mapping[str, Any]) -> Exportable:
    """The model of this checkpoint of a run, with its card."""
    about = {
        "exported_by": f"Tacit {__version__}",
        "recipe": folder.recipe().get("name"),
        "parameters": parameter_count(model),
    }
    return Exportable(model, folder.vocabulary() or [], shape, {**about, **model_card(folder, checkpoint)})


def export_safetensors(exportable: Exportable, out: Path) -> None:
    """Write the parameters by name, with the words and the meaning of each reserved id in the metadata."""
    reserved = {"pad": PAD, "bos": BOS, "eos": EOS, "oov": OOV, "first_word": FIRST_WORD}
    words = {
        "words": json.dumps(exportable.words, ensure_ascii=False),
        "reserved": json.dumps(reserved),
    }
    write_atomic(
        out, save(model_arrays(exportable.model), {**exportable.metadata, **words}), kept="nothing was left behind"
    )


def require_onnx() -> None:
    """RunError if a package of the extra `onnx` is not installed."""
    if missing := [name for name in _NEEDED if importlib.util.find_spec(name) is None]:
        raise RunError(
            f"--onnx needs the packages {' and '.join(_NEEDED)}, but {missing[0]} is not installed.",
            hint='pip install "tacit[onnx]"',
        )


def export_onnx(exportable: Exportable, out: Path, *, contexts: int = 1_000, seed: int = 0) -> Agreement:
    """Write the model as one step of a keyboard (`tacit.export.onnx_step` describes its inputs and outputs).

    The file is written only if ONNX Runtime agrees with the model on this many synthetic contexts; RunError if not.
    """
    require_onnx()
    model, words = exportable.model, exportable.words
    if not isinstance(model, WordLM):
        raise RunError(
            f"Expected a word model of Tacit's to write as ONNX, got {type(model).__name__}.",
            hint="Export it as .safetensors, which holds any model.",
        )
    content = onnx_step(model, words, begin=BOS, first_word=FIRST_WORD, shown=SHOWN, metadata=exportable.metadata)
    agreement = require_agreement(content, model, words, contexts=contexts, seed=seed)
    write_atomic(out, content, kept="nothing was left behind")
    return agreement
