"""The users on whom models are compared: held out from every run that is compared, the same for all.

Of a store, users are held out as its runs' recipes say. Of a world, the users beyond those that any of the runs was trained
on are fresh.
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
from tacit.errors import DataError, RunError
from tacit.privacy.ledger import read_ledger
from tacit.recipe import DataSection, parse_recipe
from tacit.runs.folder import RunFolder

WORLD: Final = "keyboard"
WORLD_HELD_OUT = 1_000
# An n-gram model that is trained on a world reads so many of its users.
WORLD_READ = 20_000


@dataclass(frozen=True)
class Ground:
    """Held-out users, the others, and the words behind their ids (the reserved entries included); of a store, its name."""

    name: str
    held_out: Users
    others: Users
    words: tuple[str, ...]
    store_id: str | None = None


def open_ground(
    on: str, runs: Sequence[Path], *, held_out: int | None = None, split_seed: int | None = None, wanted: int = 1
) -> Ground:
    """The users of a store's folder or of the built-in world, split so that none of `runs` was trained on the held-out ones.

    `held_out` and `split_seed` are those of the runs where they are not given; at least `wanted` must be held out.
    """
    if held_out is not None and held_out < wanted:
        raise DataError(f"Expected --held-out of at least {wanted}, one user a bucket, got {held_out}.")
    sections = {run: parse_recipe(RunFolder.open(run).recipe()).data for run in runs}
    if on == WORLD:
        if split_seed is not None:
            raise DataError("Expected --split-seed with a store only: of a world, new users are made.")
        return _world(list(sections.values()), WORLD_HELD_OUT if held_out is None else held_out)
    ground = _store(open_store(on), on, sections, held_out, split_seed)
    if len(ground.held_out) < wanted:
        raise DataError(f"Expected at least {wanted} held-out users, one a bucket, got {len(ground.held_out)} of {on}.")
    return ground


def _world(sections: Sequence[DataSection], held_out: int) -> Ground:
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
    return Ground(
        f"the keyboard world with seed {told.world_seed}",
        Subset(world, np.arange(first, first + held_out)),
        Subset(world, np.arange(min(first, WORLD_READ))),
        world.words,
    )


def _store(
    store: Store, on: str, sections: dict[Path, DataSection], held_out: int | None, split_seed: int | None
) -> Ground:
    if store.vocabulary is None:
        raise DataError(f"Expected a store of text with a vocabulary, got {on}, which has none.")
    if len(store) == 0:
        raise DataError(f"Expected held-out users to replay, got {on}, which has no users.")
    # Every split that this one must lie within: permutations with one seed hold out the same users first.
    splits = {
        f"the run {run}": (section.held_out, section.split_seed)
        for run, section in sections.items()
        if _trained_on(run, store)
    }
    counted = store.info.vocabulary
    if counted is not None and counted.held_out and counted.seed is not None:
        splits["the vocabulary"] = (counted.held_out, counted.seed)
    most = min([count for count, _ in splits.values()], default=max(1, len(store) // 10))
    chosen = most if held_out is None else held_out
    seed = next((seed for _, seed in splits.values()), 1) if split_seed is None else split_seed
    for what, (count, own) in splits.items():
        if seed != own or chosen > count:
            raise RunError(
                f"Expected at most {count} users held out with the seed {own}, as for {what}, got {chosen} with the seed "
                f"{seed}: users it has seen would be replayed."
            )
    others, aside = split_users(store, chosen, seed=seed)
    words = tuple(store.vocabulary.decode(np.arange(len(store.vocabulary))))
    return Ground(f"the store {on}", aside, others, words, store.store_id)


def _trained_on(run: Path, store: Store) -> bool:
    folder = RunFolder.open(run)
    return folder.begun and read_ledger(folder.ledger_path).opened.data.get("store") == store.store_id
