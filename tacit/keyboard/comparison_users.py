"""The users that models are compared on: the same for all models, and held out from every run that is compared.

A store holds out the same users for every run. In a world, users beyond those that any of the runs was trained on are used.

The words are those of the store, or those of the first run whose words were discovered (`tacit.privacy.discovery`): the texts
are then encoded with these.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import numpy as np

from tacit.data.encoding import Encoded
from tacit.data.store import Store, open_store
from tacit.data.users import Users
from tacit.data.views import Subset, split_users
from tacit.data.vocabulary import Vocabulary, load_vocabulary
from tacit.data.worlds.keyboard import KeyboardWorld
from tacit.errors import DataError
from tacit.recipe.sections import DataSection
from tacit.recipe.training import parse_recipe
from tacit.runs.folder import RunFolder

WORLD: Final = "keyboard"
WORLD_HELD_OUT = 1_000
# The number of users that an n-gram model reads when it is trained on a world.
WORLD_READ = 20_000


@dataclass(frozen=True)
class ComparisonUsers:
    """Held-out users, the other users, and the words behind their ids, reserved entries included; the id of their store."""

    name: str
    held_out: Users
    others: Users
    words: tuple[str, ...]
    store_id: str | None = None


def open_comparison_users(
    on: str, runs: Sequence[Path], *, held_out: int | None = None, wanted: int = 1
) -> ComparisonUsers:
    """The users of a store's folder or of the built-in world, split so that none of `runs` was trained on the held-out ones.

    At most `held_out` users are replayed, if it is given. DataError if fewer than `wanted` are held out.
    """
    if held_out is not None and held_out < wanted:
        raise DataError(f"Expected --users of at least {wanted}, one user a bucket, got {held_out}.")
    sections = {run: parse_recipe(RunFolder.open(run).recipe()).data for run in runs}
    if on == WORLD:
        return _world(list(sections.values()), WORLD_HELD_OUT if held_out is None else held_out)
    found = _store(open_store(on), on, held_out, _discovered_words(runs))
    if len(found.held_out) < wanted:
        raise DataError(f"Expected at least {wanted} held-out users, one a bucket, got {len(found.held_out)} of {on}.")
    return found


def _world(sections: Sequence[DataSection], held_out: int) -> ComparisonUsers:
    trained = [section for section in sections if section.world == WORLD]
    first_section = trained[0] if trained else DataSection(world=WORLD)
    for section in trained:
        if section.world_seed != first_section.world_seed:
            raise DataError(
                f"Expected runs on one world, got the keyboard worlds with the seeds {first_section.world_seed} and "
                f"{section.world_seed}."
            )
    first = max([section.users for section in trained], default=first_section.users)
    world = KeyboardWorld(first_section.world_seed, first + held_out, vocabulary_size=first_section.vocabulary)
    return ComparisonUsers(
        f"the keyboard world with seed {first_section.world_seed}",
        Subset(world, np.arange(first, first + held_out)),
        Subset(world, np.arange(min(first, WORLD_READ))),
        world.words,
    )


def _discovered_words(runs: Sequence[Path]) -> Vocabulary | None:
    """The words of the first of these runs whose words were discovered; None if there is none."""
    for folder in map(RunFolder.open, runs):
        if parse_recipe(folder.recipe()).vocabulary is not None:
            return load_vocabulary(folder.vocabulary_path)
    return None


def _store(store: Store, on: str, held_out: int | None, discovered: Vocabulary | None) -> ComparisonUsers:
    if store.vocabulary is None:
        raise DataError(f"Expected a store of text with a vocabulary, got {on}, which has none.")
    if len(store) == 0:
        raise DataError(f"Expected held-out users to replay, got {on}, which has no users.")
    others, aside = split_users(store if discovered is None else Encoded(store, discovered), held_out)
    vocabulary = discovered or store.vocabulary
    words = tuple(vocabulary.decode(np.arange(len(vocabulary))))
    return ComparisonUsers(f"the store {on}", aside, others, words, store.store_id)
