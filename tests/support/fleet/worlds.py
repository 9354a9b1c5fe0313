"""A recipe of a tiny model and a few made-up users, and what one of them would have typed."""

from __future__ import annotations

import itertools
import json
from functools import cache
from typing import Any

import numpy as np

from tacit.data.users import OOV
from tacit.recipe.training import parse_recipe
from tacit.training.recipes import RecipeSetup

USERS = 12
# A word that no vocabulary has.
UNKNOWN = "qqqq"


def recipe_tree(**changes: Any) -> dict[str, Any]:
    """Plain FedAvg without noise; `changes` replace whole sections, or add keys to them."""
    tree: dict[str, Any] = {
        "name": "small",
        "data": {
            "world": "keyboard",
            "users": USERS,
            "vocabulary": 120,
            "held_out": 5,
            "layout": "windows",
            "length": 4,
            "tokens_per_user": 24,
        },
        "model": {"preset": "tiny", "embedding": 4, "units": 5, "projection": 4},
        "work": {"kind": "fedavg", "epochs": 2, "batch_size": 2, "learning_rate": 0.5},
        "privacy": {
            "mechanism": "none",
            "population": USERS,
            "cohort": 4,
            "clip_norm": 0.3,
            "sampling": "check_in",
            "min_separation": 1,
            "max_participation": 3,
        },
        "run": {"rounds": 3},
    }
    for name, section in changes.items():
        tree[name] = {**tree.get(name, {}), **section}
    return tree


@cache
def _built(text: str) -> RecipeSetup:
    return RecipeSetup.build(parse_recipe(json.loads(text)))


def setup(**changes: Any) -> RecipeSetup:
    """Built once for each recipe."""
    return _built(json.dumps(recipe_tree(**changes)))


def sentences_of(setup: RecipeSetup, user: int) -> list[str]:
    """What this user of the world typed, as text."""
    found, words = setup.dataset.train.gather(np.array([user])), setup.dataset.words
    edges = found.example_offsets
    spelled = [UNKNOWN if item == OOV else words[item] for item in found.items]
    return [" ".join(spelled[start:end]) for start, end in itertools.pairwise(edges)]
