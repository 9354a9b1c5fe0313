"""The n-gram model beside a run: counted on made-up people or on public text, and on nobody else.

An n-gram model holds the text that it was counted on word for word, and a page's files can be read by whoever opens the page.
So the people of a built-in world are counted, who do not exist, or the public text that the run was pre-trained on, if it is
still what the ledger says. A run on private users without public text gets no n-gram model.
"""

from __future__ import annotations

import json
from dataclasses import dataclass

import numpy as np
from safetensors.numpy import save

from tacit.api.run import Run
from tacit.data.remote import place_of
from tacit.data.store import open_store
from tacit.data.users import BOS, EOS, PAD, Users
from tacit.data.views import Subset
from tacit.data.worlds.keyboard import KeyboardWorld
from tacit.errors import DataError, TacitError
from tacit.export.model_files import words_metadata
from tacit.keyboard.comparison import LEAST_COUNTS, fingerprint_of
from tacit.keyboard.ngram import train_katz
from tacit.keyboard.ngram_tree import tree_of
from tacit.learning.pretrain import Reworded
from tacit.recipe.sections import PretrainSection
from tacit.recipe.training import Recipe, parse_recipe
from tacit.training.calls import CALLED
from tacit.training.pretraining import public_store_name, writers_of_world
from tacit.web.keyboard.run_model import pretraining_of

# Three words and so many users: the model has a few megabytes and is counted in a second or two.
ORDER, MOST_USERS = 3, 5_000


@dataclass(frozen=True)
class CountedText:
    """Text that may be counted for a page: users in the words of a run, and who they are."""

    users: Users
    name: str


def text_to_count(run: Run) -> CountedText:
    """The made-up or public text beside this run; DataError, in one sentence, if there is none."""
    settings = run.settings
    recipe = None if CALLED in settings else parse_recipe(settings)
    if recipe is not None and recipe.data.world is not None:
        return _world(recipe, run.words)
    section = None if recipe is None else recipe.pretrain
    if section is not None:
        return _public_store(section, section.store, run) if section.store is not None else _writers(section, run)
    raise DataError(
        "There is no n-gram model: it would hold the text that it was counted on word for word, and this run names no public "
        "text and no made-up people to count."
    )


def ngram_file(text: CountedText, words: list[str]) -> bytes:
    """Count, smooth and write the n-grams of this text: arrays of `tree_of`, with the metadata of a keyboard's file."""
    counted = text.users.gather(np.arange(len(text.users), dtype=np.int64))
    katz = train_katz(
        counted.items,
        counted.example_offsets,
        order=ORDER,
        vocabulary=len(words),
        bos=BOS,
        eos=EOS,
        never=(PAD, BOS),
        provenance=text.name,
        is_public=True,
        least_counts=LEAST_COUNTS[:ORDER],
        fingerprint=fingerprint_of(words),
    )
    metadata = {
        **words_metadata(words),
        "architecture": json.dumps({"kind": "ngram", "order": katz.order}),
        "guarantee": f"Counted on {text.name}, without noise.",
    }
    return bytes(save(tree_of(katz), metadata))


def _world(recipe: Recipe, words: list[str]) -> CountedText:
    data = recipe.data
    count = min(data.users, MOST_USERS)
    world = KeyboardWorld(data.world_seed, data.users, vocabulary_size=data.vocabulary)
    users: Users = Subset(world, np.arange(count))
    if list(world.words) != words:  # the run's words were discovered
        users = Reworded(users, world.words, words)
    return CountedText(users, f"{count:,} made-up people of the world that the run was trained in")


def _writers(section: PretrainSection, run: Run) -> CountedText:
    users, theirs, _ = writers_of_world(section)
    counted = min(len(users), MOST_USERS)
    some = Reworded(Subset(users, np.arange(counted)), theirs, run.words)
    return CountedText(some, f"{counted:,} made-up people of the world that the run was pre-trained on")


def _public_store(section: PretrainSection, place: str, run: Run) -> CountedText:
    record = pretraining_of(run)
    gone = f"There is no n-gram model: the public text that {run.path} was pre-trained on is not at {place} any more."
    try:
        store = open_store(place_of(place))
    except TacitError:
        raise DataError(gone) from None
    count = min(section.users or len(store), len(store))
    # The name in a recipe may stand for another store today, and that one may be private.
    if record is None or store.vocabulary is None or public_store_name(store, count) != record.public:
        raise DataError(gone)
    theirs = store.vocabulary.decode(np.arange(len(store.vocabulary)))
    counted = min(count, MOST_USERS)
    users = Reworded(Subset(store, np.arange(counted)), theirs, run.words)
    return CountedText(users, f"{counted:,} people of the public text that the run was pre-trained on")
