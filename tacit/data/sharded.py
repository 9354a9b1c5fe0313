"""A store in shards: the text of its users lies on the disks of several machines, each of which trains those whose text it has.

    store.json, vocabulary.txt      as in every store; `StoreInfo.shards` is how many shards there are
    users.bin                       the names of all users
    user_offsets.bin                where each user begins in the examples of all
    item_offsets.bin                where each user begins in the items of all
    shard-0/, shard-1/, ...         the users who are trained on, each in one of these stores
    shard-held-out/                 the held-out users

Every machine needs this folder, in which no text is but that of the held-out users, and has the shards that were copied to it.
Who is drawn, and who is held out, is decided from the names; so it is as in the store that was cut, and the users keep their
numbers. Whose shard is here can be trained here.

**A user's own name decides in which shard they are**, as it decides whether they are held out, and no other user has a part in
it. A shard is believed only if its users have the names and the sizes that the folder says: nobody is in two shards.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from tacit.data.flat import PSEUDONYM_BYTES, FlatUsers
from tacit.data.joining import joined, reordered
from tacit.data.store import OFFSET_DTYPE, Store, StoreInfo, check_ends, map_array, open_store
from tacit.data.users import Examples, Names, Users, all_names, is_held_out
from tacit.data.views import beneath
from tacit.data.vocabulary import Vocabulary
from tacit.errors import StoreError

ITEM_OFFSETS = "item_offsets"
# More shards than this have no machines.
MOST_SHARDS = 10_000


def shard_of(names: Names, shards: int, held_out: float) -> NDArray[np.int64]:
    """The shard of each of the users with these names; `shards` itself for the held-out users, who are in none of them.

    The high half of the first word decides, because the second word decides whether a user is held out.
    """
    found = (names[:, 0] >> np.uint64(32)) * np.uint64(shards) >> np.uint64(32)
    return np.where(is_held_out(names, held_out), shards, found.astype(np.int64))


def folder_of(shard: int, shards: int) -> str:
    """The name of a shard's folder."""
    return "shard-held-out" if shard == shards else f"shard-{shard}"


class ShardedStore(Store):
    """A store in shards as `Users`: everybody's name and size is known here, and the text of those whose shard is here."""

    def __init__(self, path: Path, info: StoreInfo, vocabulary: Vocabulary | None) -> None:
        assert info.shards is not None
        self.path, self.info, self.vocabulary, self.shards = path, info, vocabulary, info.shards
        user_offsets = map_array(path, "user_offsets", OFFSET_DTYPE, (info.users + 1,))
        check_ends(path, "user_offsets", user_offsets, info.examples)
        self._item_offsets = map_array(path, ITEM_OFFSETS, OFFSET_DTYPE, (info.users + 1,))
        check_ends(path, ITEM_OFFSETS, self._item_offsets, info.items)
        FlatUsers.__init__(
            self,
            items=np.empty((0, *info.item_shape), info.item_dtype),
            example_offsets=None,
            user_offsets=user_offsets,
            labels=None,
            pseudonyms=map_array(path, "users", np.dtype(np.uint8), (info.users, PSEUDONYM_BYTES)),
            held_out=info.held_out,
            where=f"The store {path}",
        )
        names = all_names(self)
        self._shard_of = shard_of(names, self.shards, info.held_out)
        in_order = np.argsort(self._shard_of, kind="stable")
        begins = np.searchsorted(self._shard_of[in_order], np.arange(self.shards + 2))
        self._members = [in_order[first:last] for first, last in pairwise(begins)]
        self._row = np.empty(len(names), np.int64)
        for members in self._members:
            self._row[members] = np.arange(len(members))
        self._open: dict[int, Store] = {}

    # What is known of everybody.

    def token_counts(self, users: NDArray[np.int64] | None = None) -> NDArray[np.int64]:
        """How many items (words or images) each user has, or each of these."""
        if users is None:
            return np.diff(self._item_offsets)
        return self._item_offsets[users + 1] - self._item_offsets[users]

    def shards_of(self, users: NDArray[np.int64]) -> NDArray[np.int64]:
        """The shard of each of these users; `self.shards` for the held-out."""
        return self._shard_of[users]

    def trained(self) -> list[int]:
        """The shards that have users who are trained on."""
        return [shard for shard in range(self.shards) if len(self._members[shard])]

    def here(self) -> frozenset[int]:
        """The shards that are on this machine; StoreError if one of them is not what it should be."""
        found = [shard for shard in range(self.shards) if self._folder(shard).is_dir()]
        for shard in found:
            self._shard(shard)
        return frozenset(found)

    def require_here(self) -> None:
        """StoreError unless all users can be trained on this machine."""
        for shard in self.trained():
            self._shard(shard)

    # What is known of those whose shard is here.

    def gather(self, users: NDArray[np.int64]) -> Examples:
        """The examples of these users; StoreError if the shard of one of them is not on this machine."""
        return self._from_shards(users, lambda shard, here: shard.gather(self._row[users[here]]))

    def pick(self, owners: NDArray[np.int64], positions: NDArray[np.int64]) -> Examples:
        """Single examples: number `positions[i]` of user `owners[i]`, each as if it were a user of its own."""
        return self._from_shards(owners, lambda shard, here: shard.pick(self._row[owners[here]], positions[here]))

    def texts(self, users: NDArray[np.int64]) -> Examples:
        """The texts of these users, as UTF-8: like `gather`, but an item is a byte."""
        return self._from_shards(users, lambda shard, here: shard.texts(self._row[users[here]]))

    def _from_shards(self, users: NDArray[np.int64], read: Callable[[Store, NDArray[np.int64]], Examples]) -> Examples:
        """What `read` gives of each shard for the places of its users, in the order of these users."""
        of = self._shard_of[users]
        needed = np.unique(of) if len(users) else np.array([self.shards])
        places = [np.flatnonzero(of == shard) for shard in needed]
        parts = [read(self._shard(int(shard)), place) for shard, place in zip(needed, places, strict=True)]
        if len(parts) == 1:
            return parts[0]
        return reordered(joined(parts), np.argsort(np.concatenate(places)))

    def _folder(self, shard: int) -> Path:
        return self.path / folder_of(shard, self.shards)

    def _shard(self, shard: int) -> Store:
        """The store of a shard, opened and compared once."""
        if shard not in self._open:
            folder, members = self._folder(shard), self._members[shard]
            if not folder.is_dir():
                raise StoreError(
                    f"The store {self.path} lies in shards, and {folder.name} is not on this machine.",
                    hint="`tacit train --engine ray` trains each shard on a machine that has it.",
                )
            found = open_store(folder)
            same = found.store_id == self.store_id and np.array_equal(all_names(found), self.names(members))
            same = same and np.array_equal(found.example_counts(), np.diff(self._user_offsets)[members])
            if not same or not np.array_equal(found.token_counts(), self.token_counts(members)):
                raise StoreError(f"The folder {folder} is no shard of the store {self.path}: its users are others.")
            self._open[shard] = found
        return self._open[shard]


def sharded(users: Users) -> ShardedStore | None:
    """The store in shards that these users lie in, if they do."""
    found, _ = beneath(users)
    return found if isinstance(found, ShardedStore) else None
