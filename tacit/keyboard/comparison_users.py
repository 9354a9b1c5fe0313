"""The users on whom models are compared: held out from every run that is compared, the same for all.

A store holds out the same people for every run. Of a world, the users beyond those that any of the runs was trained on are
fresh.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import numpy as np

from tacit.data.store import Store, open_store
from tacit.data.users import Users
from tacit.data.views import Subset, split_users
from tacit.data.worlds.keyboard import KeyboardWorld
from tacit.errors import DataError
from tacit.recipe.sections import DataSection
from tacit.recipe.training import parse_recipe
from tacit.runs.folder import RunFolder

WORLD: Final = "keyboard"
WORLD_HELD_OUT = 1_000
# An n-gram model that is trained on a world reads so many of its users.
WORLD_READ = 20_000


@dataclass(frozen=True)
class ComparisonUsers:
    """Held-out users, the others, and the words behind their ids (the reserved entries included); of a store, its name."""

    name: str
    held_out: Users
    others: Users
    words: tuple[str, ...]
    store_id: str | None = None


def open_comparison_users(
    on: str, runs: Sequence[Path], *, held_out: int | None = None, wanted: int = 1
) -> ComparisonUsers:
    """The users of a store's folder or of the built-in world, split so that none of `runs` was trained on the held-out ones.

    At most `held_out` users are replayed, where that is given; at least `wanted` must be held out.
    """
    if held_out is not None and held_out < wanted:
        raise DataError(f"Expected --held-out of at least {wanted}, one user a bucket, got {held_out}.")
    sections = {run: parse_recipe(RunFolder.open(run).recipe()).data for run in runs}
    if on == WORLD:
        return _world(list(sections.values()), WORLD_HELD_OUT if held_out is None else held_out)
    context = _store(open_store(on), on, held_out)
    if len(context.held_out) < wanted:
        raise DataError(
            f"Expected at least {wanted} held-out users, one a bucket, got {len(context.held_out)} of {on}."
        )
    return context


def _world(sections: Sequence[DataSection], held_out: int) -> ComparisonUsers:
    trained = [section for section in sections if section.world == WORLD]
    told = trained[0] if trained else DataSection(world=WORLD)
    for section in trained:
        if section.world_seed != told.world_seed:
            raise DataError(
                f"Expected runs on one world, got the keyboard worlds with the seeds {told.world_seed} and "
                f"{section.world_seed}."
            )
    first = max([section.users for section in trained], default=told.users)
    world = KeyboardWorld(told.world_seed, first + held_out, vocabulary_size=told.vocabulary)
    return ComparisonUsers(
        f"the keyboard world with seed {told.world_seed}",
        Subset(world, np.arange(first, first + held_out)),
        Subset(world, np.arange(min(first, WORLD_READ))),
        world.words,
    )


def _store(store: Store, on: str, held_out: int | None) -> ComparisonUsers:
    if store.vocabulary is None:
        raise DataError(f"Expected a store of text with a vocabulary, got {on}, which has none.")
    if len(store) == 0:
        raise DataError(f"Expected held-out users to replay, got {on}, which has no users.")
    others, aside = split_users(store, held_out)
    words = tuple(store.vocabulary.decode(np.arange(len(store.vocabulary))))
    return ComparisonUsers(f"the store {on}", aside, others, words, store.store_id)
