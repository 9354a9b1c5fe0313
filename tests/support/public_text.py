"""A tiny store of public text, and a recipe that pre-trains on it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from tacit.data.build import save_users
from tacit.data.vocabulary import Vocabulary, word_list
from tacit.data.worlds.keyboard import KeyboardWorld
from tests.support.list_users import ListUsers
from tests.support.store_keys import KEY
from tests.support.tiny_recipe import tiny

PEOPLE = 90


def write_public(path: Path, people: int = PEOPLE) -> Path:
    """A store of so many people, who write sentences of the keyboard's words."""
    words = KeyboardWorld(1, 1, vocabulary_size=60).words[4:]
    sentences = np.random.default_rng(0).integers(4, 60, (people, 3, 8)).tolist()
    vocabulary = Vocabulary(tuple(words), word_list("listed"))
    save_users(ListUsers(sentences), path, source="letters", vocabulary=vocabulary, key=KEY)
    return path


def tree_with(public: Path | str, private: Path | str, **sections: dict[str, Any]) -> dict[str, Any]:
    """The TOML tree of a recipe that trains on the private store, and pre-trains on the public one."""
    small = tiny(
        data={"world": None, "store": str(private)},
        privacy={"population": 2_000, "cohort": 500, "noise_multiplier": 1.0},
        run={"rounds": 3, "evaluate_every": 3},
    )
    tree = small.model_dump(mode="json", exclude_unset=True, exclude_none=True)
    tree["pretrain"] = {"store": str(public), "public": True, "steps": 3, "batch_size": 4}
    for section, changes in sections.items():
        tree[section] = {**tree.get(section, {}), **changes}
    return tree
