"""The model of a run that has trained one."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import jax

from tacit.errors import RunError
from tacit.learning.state import load_model
from tacit.models.word_lm import build
from tacit.recipe.training import parse_recipe
from tacit.runs.folder import RunFolder
from tacit.training.recipes import model_config


def load_trained(path: Path) -> tuple[Any, list[str]]:
    """The model of a run's last checkpoint, and its words; RunError if the ledger names another checkpoint for its round."""
    folder = RunFolder.open(path)
    recipe = parse_recipe(folder.recipe())
    words = folder.vocabulary()
    checkpoint = folder.last_checkpoint()
    if words is None or checkpoint is None:
        raise RunError(
            f"Expected a run with a checkpoint, got {path}, which has none yet.",
            hint=f"Train it further: tacit train --resume {path}",
        )
    template = build(model_config(recipe, len(words)), key=jax.random.key(0))
    return load_model(template, checkpoint.arrays), words
