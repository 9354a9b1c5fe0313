"""The trained model of a run, loaded from its folder."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import jax

from tacit.errors import RunError
from tacit.learning.state import load_model
from tacit.models.word_lm import WordLM, WordLMConfig, build
from tacit.recipe.training import Recipe, parse_recipe
from tacit.runs.checkpoints import Checkpoint
from tacit.runs.folder import RunFolder
from tacit.training.calls import CALLED
from tacit.training.recipes import model_config


@dataclass(frozen=True)
class TrainedModel:
    """A model, the words behind its ids (`words[i]` has the id i), and the run that trained it."""

    model: WordLM
    words: list[str]
    config: WordLMConfig
    recipe: Recipe
    folder: RunFolder
    checkpoint: Checkpoint


def load_trained(path: Path) -> TrainedModel:
    """The model of the last checkpoint of the run in this folder.

    RunError for a run of `tacit.train` with a model of somebody's own, if there is no checkpoint yet, or if the ledger names
    another one for that round.
    """
    folder = RunFolder.open(path)
    settings = folder.recipe()
    if CALLED in settings:
        raise RunError(
            f"Expected a run that follows a recipe, got {path}, which was begun with a model of your own.",
            hint="predict, export, audit and train --resume take it: tacit --import MODULE ..., where MODULE calls "
            "tacit.register_objects.",
        )
    recipe = parse_recipe(settings)
    if recipe.letters is not None:
        raise RunError(f"Expected a run that trains a model, got {path}, which finds words.")
    words = folder.vocabulary()
    checkpoint = folder.last_checkpoint()
    if words is None or checkpoint is None:
        raise RunError(
            f"The run {path} has no checkpoint yet.",
            hint=f"Train it further: tacit train --resume {path}",
        )
    config = model_config(recipe, len(words))
    model = load_model(build(config, key=jax.random.key(0)), checkpoint.arrays)
    return TrainedModel(model, words, config, recipe, folder, checkpoint)
