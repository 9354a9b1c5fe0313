"""The texts of a store, read again: their words counted user by user, or encoded with another vocabulary.

A store keeps its texts, so a vocabulary that was found after the import can be used without importing again. The users, their
names and who is held out stay the same; so does the store's id.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tacit.data.flat import FlatUsers
from tacit.data.ragged import offsets_of
from tacit.data.store import Store, split_texts
from tacit.data.text import END, tokenize_many
from tacit.data.users import all_names, in_blocks
from tacit.data.vocabulary import Vocabulary
from tacit.errors import DataError


def require_texts(store: Store) -> Store:
    """The store, if it keeps texts; DataError otherwise."""
    if store.info.text_bytes is None:
        raise DataError(f"Expected a store of texts, got {store.path}, which keeps none.")
    return store


def word_counts(store: Store, users: NDArray[np.int64]) -> Iterator[Counter[str]]:
    """How often each of these users has each word, a user at a time. They are private: nothing of them may be shown."""
    for block in in_blocks(len(users)):
        texts = store.texts(users[block])
        strings = split_texts(texts)
        for first, last in pairwise(texts.user_offsets.tolist()):
            counts = Counter(tokenize_many(strings[first:last]))
            counts.pop(END, None)
            yield counts


class Encoded(FlatUsers):
    """The users of a store, whose texts are encoded with another vocabulary. All of it is in memory."""

    def __init__(self, store: Store, vocabulary: Vocabulary) -> None:
        self.store, self.vocabulary = require_texts(store), vocabulary
        ids, lengths, counts = [np.empty(0, vocabulary.dtype)], [np.empty(0, np.int64)], [np.empty(0, np.int64)]
        for users in in_blocks(len(store)):
            texts = store.texts(users)
            encoded, tokens = vocabulary.encode_texts(split_texts(texts))
            ids.append(encoded)
            lengths.append(tokens)
            counts.append(np.diff(texts.user_offsets))
        super().__init__(
            items=np.concatenate(ids),
            example_offsets=offsets_of(np.concatenate(lengths)),
            user_offsets=offsets_of(np.concatenate(counts)),
            labels=None,
            pseudonyms=all_names(store).view(np.uint8).reshape(len(store), -1),
            held_out=store.held_out,
            where=f"The store {store.path}",
        )

    def __reduce__(self) -> tuple[Any, ...]:
        """Another process encodes the store where it stands; no text travels."""
        return Encoded, (self.store, self.vocabulary)

    @property
    def store_id(self) -> str:
        """The id of the store beneath."""
        return self.store.store_id

    def texts(self, users: NDArray[np.int64]) -> object:
        """The texts of these users, as the store has them."""
        return self.store.texts(users)
