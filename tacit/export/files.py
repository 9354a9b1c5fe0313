"""A trained run as one file that others can use, its model card inside: safetensors to build on, ONNX to deploy.

The card's headline is in the file's metadata under "guarantee", the whole of it as JSON under "card". Nothing private is
read: an export says no more about users than the releases it is made of.
"""

from __future__ import annotations

import importlib.util
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import jax
from safetensors.numpy import save

from tacit import __version__
from tacit.data.users import BOS, EOS, FIRST_WORD, OOV, PAD
from tacit.errors import RunError
from tacit.export.card import model_card
from tacit.export.onnx_check import Agreement, require_agreement
from tacit.export.onnx_step import onnx_step
from tacit.files import write_atomic
from tacit.learning.state import load_model, model_arrays
from tacit.models.word_lm import WordLM, build, parameter_count
from tacit.recipe.training import parse_recipe
from tacit.runs import checkpoints
from tacit.runs.folder import RunFolder
from tacit.training.recipes import model_config

SHOWN = 3
_NEEDED = ("onnx", "onnxruntime")


@dataclass(frozen=True)
class Trained:
    """A run's last model, its words and its card."""

    model: WordLM
    words: list[str]
    shape: Mapping[str, Any]
    card: Mapping[str, Any]

    @property
    def metadata(self) -> dict[str, str]:
        """What both kinds of file carry, as text by name."""
        return {
            "guarantee": self.card["guarantee"]["headline"],
            "card": json.dumps(self.card, allow_nan=False, ensure_ascii=False),
            "model": json.dumps(self.shape),
        }


def open_trained(path: Path) -> Trained:
    """The model of a run's last checkpoint, checked against its ledger."""
    folder = RunFolder.open(path)
    recipe, words = parse_recipe(folder.recipe()), folder.vocabulary()
    checkpoint = checkpoints.latest(folder.checkpoints_path)
    if words is None or checkpoint is None:
        raise RunError(
            f"Expected a run with a checkpoint, got {path}, which has none yet.",
            hint=f"Train it further: tacit train --resume {path}",
        )
    if len(words) < FIRST_WORD + SHOWN:
        raise RunError(
            f"Expected a run that knows at least {SHOWN} words, got {path}, which knows {len(words) - FIRST_WORD}."
        )
    config = model_config(recipe, len(words))
    model = load_model(build(config, key=jax.random.key(0)), checkpoint.arrays)
    about = {"exported_by": f"Tacit {__version__}", "recipe": recipe.name, "parameters": parameter_count(model)}
    return Trained(model, words, asdict(config), {**about, **model_card(folder, checkpoint)})


def export_safetensors(trained: Trained, out: Path) -> None:
    """The parameters by name, with the words and what each reserved id means in the metadata."""
    reserved = {"pad": PAD, "bos": BOS, "eos": EOS, "oov": OOV, "first_word": FIRST_WORD}
    words = {
        "words": json.dumps(trained.words, ensure_ascii=False),
        "reserved": json.dumps(reserved),
    }
    write_atomic(out, save(model_arrays(trained.model), {**trained.metadata, **words}), kept="nothing was left behind")


def require_onnx() -> None:
    """RunError where the packages of the extra are not installed."""
    if missing := [name for name in _NEEDED if importlib.util.find_spec(name) is None]:
        raise RunError(
            f"Expected the packages {' and '.join(_NEEDED)} for --onnx, but {missing[0]} is not installed.",
            hint='pip install "tacit[onnx]"',
        )


def export_onnx(trained: Trained, out: Path, *, contexts: int = 1_000, seed: int = 0) -> Agreement:
    """The model as one step of a keyboard (`tacit.export.onnx_step` says how to call it).

    Before it is written, ONNX Runtime has to agree with the model on so many made-up contexts: RunError leaves no file.
    """
    require_onnx()
    content = onnx_step(
        trained.model, trained.words, begin=BOS, first_word=FIRST_WORD, shown=SHOWN, metadata=trained.metadata
    )
    agreement = require_agreement(content, trained.model, trained.words, contexts=contexts, seed=seed)
    write_atomic(out, content, kept="nothing was left behind")
    return agreement
