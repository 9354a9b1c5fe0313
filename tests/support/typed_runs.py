"""Small runs for the keyboard's page: they know enough of a made-up world to suggest its words."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from tacit.export.architecture import architecture_of
from tacit.export.model_files import Exportable, safetensors_of
from tacit.recipe.training import Recipe, parse_recipe
from tacit.runs.callbacks import Callback
from tacit.simulation.training import start_run
from tests.support.tiny_recipe import tiny

# A pre-training of a second: after it "see you" goes on with words that follow it.
PRETRAIN = {"world": "keyboard", "users": 200, "steps": 120, "batch_size": 32, "learning_rate": 0.02}


def typed_recipe(**sections: dict[str, Any]) -> Recipe:
    """A recipe with pre-training, so that one run offers all kinds of models."""
    tree = tiny(model={"embedding": 16, "units": 24, "projection": 16}).model_dump(mode="json", exclude_none=True)
    return parse_recipe({**tree, "pretrain": PRETRAIN, "run": {**tree["run"], "rounds": 2}, **sections})


def typed_run(out: Path, **sections: dict[str, Any]) -> Path:
    """A run of two rounds after a pre-training."""
    start_run(typed_recipe(**sections), out, Callback())
    return out


def file_of(model: Any, words: list[str], *, longest: int | None = None) -> bytes:
    """A model as `tacit export` writes it, with a card that claims nothing."""
    card = {"checkpoint": "0" * 64, "guarantee": {"headline": "Nothing is claimed: a test made this model."}}
    assert architecture_of(model) is not None
    return safetensors_of(Exportable(model, words, {}, card, longest))


def shaken(model: Any, seed: int) -> Any:
    """The model with every array moved, so that biases and gains count and suggestions differ from word to word."""
    leaves, tree = jax.tree.flatten(model)
    generator = np.random.default_rng(seed)
    moved = [
        leaf + jnp.asarray(generator.normal(0, 0.4, leaf.shape), jnp.float32) if hasattr(leaf, "shape") else leaf
        for leaf in leaves
    ]
    return jax.tree.unflatten(tree, moved)


def offer_of(files: dict[str, bytes], rules: dict[str, Any]) -> str:
    """What the server would say of these files, by their names."""
    about = {"run": "made", "kind": "trained", "badge": "a test's", "is_private": False, "statement": "", "meaning": ""}
    models = [{**about, "key": name, "name": name, "problem": None} for name in files]
    return json.dumps({"rules": rules, "models": models})
