"""Who the users of a call are: the store, the Python objects or the world beneath them, through whatever views.

The ledger names them, a store's odometer lists the run, and a view of somebody's own hides none of that.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

from tacit.data.memory import GIVEN_WORDS, MemoryUsers
from tacit.data.store import Store
from tacit.data.views import Capped, Reshuffled, Subset
from tacit.data.vocabulary import Vocabulary
from tacit.data.worlds.keyboard import KeyboardWorld
from tacit.errors import DataError
from tacit.privacy.record.facts import DataRecord


def data_of(users: Any) -> DataRecord:
    """What the ledger says about who the users are, through whatever views.

    Only users whom Tacit's own classes make are those of a world, who are no people: whatever is put on top, or inherits from
    a world, may read anybody's data.
    """
    layers, words = list(layers_of(users)), _provenance(users)
    foreign = next((name_of(layer) for layer in layers if not type(layer).__module__.startswith("tacit.")), None)
    if (store := _only(Store, layers)) is not None:
        return DataRecord(store=store.store_id, vocabulary=words, given_by=foreign)
    if (memory := _only(MemoryUsers, layers)) is not None:
        return DataRecord(memory=memory.store_id, vocabulary=words, given_by=foreign)
    world = layers[-1]
    if type(world) is KeyboardWorld and foreign is None:
        return DataRecord(world="keyboard", seed=world.seed, users=len(world))
    return DataRecord(vocabulary=words, given_by=foreign)


def _only(kind: type[Any], layers: list[Any]) -> Any:
    """The users of this kind among the layers; None if there are none. DataError if there are several."""
    found = {layer.store_id: layer for layer in layers if isinstance(layer, kind)}
    if len(found) > 1:
        raise DataError(
            "Expected users of one store, or of one call of tacit.users, got several under one view: a run is entered into the "
            "odometer of one store.",
            hint="Save all of them to one store first.",
        )
    return next(iter(found.values()), None)


def words_of(users: Any) -> tuple[str, ...]:
    """The word of each number, reserved entries first; empty for users without words."""
    for layer in layers_of(users):
        vocabulary = getattr(layer, "vocabulary", None)
        if isinstance(vocabulary, Vocabulary):
            return tuple(vocabulary.decode(np.arange(len(vocabulary))))
        if words := getattr(layer, "words", ()):
            return tuple(words)
        if not isinstance(layer, Subset | Capped | Reshuffled):  # other views may number words in another way
            break
    return ()


def _provenance(users: Any) -> str | None:
    """Where the words come from that the model knows; None for users without words."""
    known = next(vocabularies_of(users), None)
    if known is not None:
        return known.provenance
    return GIVEN_WORDS if words_of(users) else None


def vocabularies_of(users: Any) -> Iterator[Vocabulary]:
    """The vocabularies of these users, through whatever views."""
    found = (getattr(layer, "vocabulary", None) for layer in layers_of(users))
    return (each for each in found if isinstance(each, Vocabulary))


def named(users: Any) -> dict[str, Any]:
    """Who the users are, for the settings: as in the ledger, but a store by its folder, where its odometer lies."""
    record = {name: value for name, value in asdict(data_of(users)).items() if value is not None}
    store = store_of(users)
    return record if store is None else {**record, "store": str(store)}


def store_of(users: Any) -> Path | None:
    """The folder of the store that these users come from, through whatever views."""
    store = _only(Store, list(layers_of(users)))
    return None if store is None else store.path


def layers_of(users: Any) -> Iterator[Any]:
    """The users, and all users that they hold in their attributes, in a list or in a mapping: what a view is made of.

    Users that somebody's view reaches in another way, in a global variable for instance, are not seen.
    """
    found = [users]
    for layer in found:
        yield layer
        for held in vars(layer).values() if hasattr(layer, "__dict__") else ():
            values = held.values() if isinstance(held, Mapping) else held if isinstance(held, list | tuple) else (held,)
            found += [each for each in values if _are_users(each) and not any(each is other for other in found)]


def _are_users(value: Any) -> bool:
    return not isinstance(value, type) and callable(getattr(value, "gather", None)) and hasattr(value, "names")


def name_of(value: Any) -> str:
    """module:name of a function, or of an object's class."""
    of = value if hasattr(value, "__qualname__") else type(value)
    return f"{of.__module__}:{of.__qualname__}"
