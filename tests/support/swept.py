"""Small sweeps on stores of made-up sentences."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tacit.api.sweep import prepared
from tacit.data.build import save_users
from tacit.data.vocabulary import Vocabulary, word_list
from tacit.recipe.sweep import SweepCase
from tacit.recipe.training import Recipe
from tacit.simulation.sweep.folder import SweepFolder
from tests.support.list_users import ListUsers
from tests.support.store_keys import KEY
from tests.support.tiny_recipe import tiny


def small_store(path: Path) -> Path:
    """Sixty-four users who repeat a sentence of their own."""
    words = Vocabulary(tuple(f"w{i}" for i in range(50)), word_list("test"))
    sentences = [[[4 + (user + word) % 50 for word in range(5)]] * 4 for user in range(64)]
    save_users(ListUsers(sentences), path, source="test", vocabulary=words, key=KEY)
    return path


def on_store(store: Path, **sections: dict[str, Any]) -> Recipe:
    """Two rounds on the users of this store."""
    privacy = {"population": 60, "cohort": 20, "delta": 1e-5, "noise_multiplier": 2.0}
    changes: dict[str, dict[str, Any]] = {
        "data": {"world": None, "store": str(store), "held_out": 4},
        "privacy": privacy,
        "run": {"rounds": 2, "evaluate_every": 1},
    }
    for section, more in sections.items():
        changes[section] = {**changes.get(section, {}), **more}
    return tiny(**changes)


def cases_with_noise(store: Path, noise: Sequence[float], **sections: dict[str, Any]) -> list[SweepCase]:
    """A case for each noise multiplier; z2 for 2.0."""
    found = []
    for each in noise:
        changed = sections | {"privacy": {**sections.get("privacy", {}), "noise_multiplier": each}}
        found.append(SweepCase(f"z{each:g}", on_store(store, **changed), settings={"privacy.noise_multiplier": each}))
    return found


def begun(path: Path, cases: Sequence[SweepCase]) -> SweepFolder:
    """A sweep of which no case has run."""
    return SweepFolder.create(path, prepared(path, cases).cases)
