"""Write a trained model to one file, with its model card inside: safetensors to build on, ONNX to deploy.

docs/export.md describes both formats for those who read them. The file's metadata has the card's headline under "guarantee"
and the whole card as JSON under "card". No private file is read: an export is a function of the run's releases.
"""

from __future__ import annotations

import importlib.util
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from safetensors.numpy import save

from tacit import __version__
from tacit.data.users import BOS, EOS, FIRST_WORD, OOV, PAD
from tacit.errors import RunError
from tacit.export.architecture import architecture_of
from tacit.export.card import model_card
from tacit.export.onnx_check import Agreement, require_agreement
from tacit.export.onnx_step import onnx_step
from tacit.files import write_atomic
from tacit.learning.state import model_arrays
from tacit.models.lora import Adapted, merge
from tacit.models.word_lm import WordLM, parameter_count
from tacit.runs.checkpoints import Checkpoint
from tacit.runs.folder import RunFolder
from tacit.training.trained import load_trained

SHOWN = 3  # words that a keyboard suggests
# Rises whenever a reader written for an earlier file would misread a later one (docs/export.md).
FORMAT_VERSION = 1
_NEEDED = ("onnx", "onnxruntime")


@dataclass(frozen=True)
class Exportable:
    """A trained model with its words, what is known of its shape, and its card."""

    model: Any
    words: list[str]
    shape: Mapping[str, Any]
    card: Mapping[str, Any]
    longest: int | None = None  # how many tokens `predict` gives the model at most, None: all

    @property
    def metadata(self) -> dict[str, str]:
        """The metadata that both kinds of file carry."""
        return {
            **words_metadata(self.words),
            "architecture": json.dumps(architecture_of(self.model, longest=self.longest)),
            "model_digest": self.card["checkpoint"],
            "guarantee": self.card["guarantee"]["headline"],
            "card": json.dumps(self.card, allow_nan=False, ensure_ascii=False),
            "model": json.dumps(self.shape),
        }


def words_metadata(words: Sequence[str]) -> dict[str, str]:
    """The metadata of every file that a keyboard reads: its version, its words, and which ids are no words."""
    reserved = {"pad": PAD, "bos": BOS, "eos": EOS, "oov": OOV, "first_word": FIRST_WORD}
    return {
        "format_version": str(FORMAT_VERSION),
        "vocabulary": json.dumps(list(words), ensure_ascii=False),
        "reserved": json.dumps(reserved),
    }


def open_for_export(path: Path) -> Exportable:
    """The model of a run's last checkpoint with its card, which is checked against the ledger."""
    trained = load_trained(path)
    return exportable(trained.model, trained.folder, trained.checkpoint, asdict(trained.config))


def exportable(
    model: Any, folder: RunFolder, checkpoint: Checkpoint, shape: Mapping[str, Any], *, longest: int | None = None
) -> Exportable:
    """The model of this checkpoint of a run, with its card."""
    about = {
        "exported_by": f"Tacit {__version__}",
        "recipe": folder.recipe().get("name"),
        "parameters": parameter_count(model),
    }
    card = {**about, **model_card(folder, checkpoint)}
    return Exportable(model, folder.vocabulary() or [], shape, card, longest)


def safetensors_of(exportable: Exportable) -> bytes:
    """The parameters by name, with the metadata."""
    return bytes(save(model_arrays(exportable.model), exportable.metadata))


def export_safetensors(exportable: Exportable, out: Path) -> None:
    """Write what `safetensors_of` returns."""
    write_atomic(out, safetensors_of(exportable), kept="nothing was left behind")


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
    words = exportable.words
    model = merge(exportable.model) if isinstance(exportable.model, Adapted) else exportable.model
    if not isinstance(model, WordLM):
        raise RunError(
            f"Expected a recurrent word model to write as ONNX, got {type(model).__name__}: the file is one step of a "
            "keyboard, whose state has a fixed size.",
            hint="Export it as .safetensors, which holds any model.",
        )
    if len(words) != len(model.embedding):
        raise RunError(
            f"Expected a word for each of the {len(model.embedding)} entries of the model, got a run with {len(words)}: the "
            "file shows words.",
            hint="Train on a store or a world, which brings its vocabulary, or export as .safetensors.",
        )
    if (known := len(words) - FIRST_WORD) < SHOWN:
        raise RunError(f"Expected a vocabulary of at least {SHOWN} words besides the reserved entries, got {known}.")
    widths = {"c": model.cell.units, "r": model.cell.fed_back_width}
    metadata = {**exportable.metadata, "state": json.dumps(widths)}
    content = onnx_step(model, words, begin=BOS, first_word=FIRST_WORD, shown=SHOWN, metadata=metadata)
    agreement = require_agreement(content, model, words, contexts=contexts, seed=seed)
    write_atomic(out, content, kept="nothing was left behind")
    return agreement
