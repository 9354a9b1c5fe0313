"""Views of users: some of the users, the beginning of each, or their examples dealt to synthetic users. Nothing is copied.

Every view is `Users` over any `Users`. Where the users beneath can do more than gather (`Store.pick`,
`Store.example_counts`, `Store.texts`), the views use that and offer it too.
"""

from __future__ import annotations

from typing import cast

import numpy as np
from numpy.typing import NDArray

from tacit.data.ragged import offsets_of, ranges
from tacit.data.text import cut
from tacit.data.users import Examples, Names, SplittableUsers, Users, all_names, in_blocks, names_of_numbers
from tacit.data.worlds.randomness import name
from tacit.errors import DataError


def split_users(users: SplittableUsers, most: int | None = None) -> tuple[Subset, Subset]:
    """The users to train on, and the held-out users, or at most so many of them.

    A held-out user beyond `most` is in neither part: no held-out user is ever trained on. DataError if nobody is held out.
    """
    aside = users.held_out_users()
    if not len(aside):
        raise DataError(
            "Expected held-out users to measure accuracy on, got none.",
            hint="They are chosen when users are read: `tacit data import --held-out 0.1`, or tacit.users(..., held_out=0.1), "
            "holds out about a tenth of the users.",
        )
    rest = np.delete(np.arange(len(users), dtype=np.int64), aside)
    return Subset(users, rest), Subset(users, aside if most is None else users.held_out_users(most))


def example_counts(users: Users) -> NDArray[np.int64]:
    """How many examples each user has; gathers all users where they have no `example_counts` of their own."""
    known = getattr(users, "example_counts", None)
    if known is not None:
        return cast("NDArray[np.int64]", known())
    blocks = [np.diff(users.gather(block).user_offsets) for block in in_blocks(len(users))]
    return np.concatenate([np.empty(0, np.int64), *blocks])


def pick(users: Users, owners: NDArray[np.int64], positions: NDArray[np.int64]) -> Examples:
    """Single examples: number `positions[i]` of user `owners[i]`, each as if it were a user of its own."""
    known = getattr(users, "pick", None)
    if known is not None:
        return cast(Examples, known(owners, positions))
    distinct, place = np.unique(owners, return_inverse=True)
    gathered = users.gather(distinct)
    singles = np.arange(len(owners) + 1, dtype=np.int64)
    return gathered.take(gathered.user_offsets[place] + positions, singles)


class View:
    """The same users under the same names; the class that inherits this says which examples each has."""

    def __init__(self, users: Users) -> None:
        self._users = users

    def __len__(self) -> int:
        """How many users there are: as many as beneath."""
        return len(self._users)

    def names(self, users: NDArray[np.int64]) -> Names:
        """The names of these users."""
        return self._users.names(users)


class Subset:
    """Some of the users, in the order given."""

    def __init__(self, users: Users, members: NDArray[np.int64]) -> None:
        self._users = users
        self.members = members

    def __len__(self) -> int:
        """How many users were chosen."""
        return len(self.members)

    def gather(self, users: NDArray[np.int64]) -> Examples:
        """The examples of these users."""
        return self._users.gather(self.members[users])

    def names(self, users: NDArray[np.int64]) -> Names:
        """The names of these users."""
        return self._users.names(self.members[users])

    def texts(self, users: NDArray[np.int64]) -> Examples:
        """The texts of these users, if those beneath keep any."""
        return _texts(self._users, self.members[users])

    def example_counts(self) -> NDArray[np.int64]:
        """How many examples each user has."""
        return example_counts(self._users)[self.members]

    def pick(self, owners: NDArray[np.int64], positions: NDArray[np.int64]) -> Examples:
        """Single examples of these users."""
        return pick(self._users, self.members[owners], positions)


class Capped(View):
    """The first examples and the first tokens of each user. The sentence that crosses the token cap is cut there."""

    def __init__(self, users: Users, *, tokens: int | None = None, examples: int | None = None) -> None:
        for what, cap in (("tokens", tokens), ("examples", examples)):
            if cap is not None and cap < 1:
                raise DataError(f"Expected a cap of at least 1 on a user's {what}, got {cap}.")
        super().__init__(users)
        self._tokens = tokens
        self._examples = examples

    def gather(self, users: NDArray[np.int64]) -> Examples:
        """What the caps leave of these users."""
        full = self._users.gather(users)
        if self._tokens is not None and full.labels is not None:
            raise DataError(f"A cap of {self._tokens} tokens does not fit images; cap the examples instead.")
        counts = np.diff(full.user_offsets)
        starts, lengths = full.example_offsets[:-1], np.diff(full.example_offsets)
        owner = np.repeat(np.arange(len(counts)), counts)
        keep = np.ones(len(lengths), bool)
        if self._examples is not None:
            keep &= np.arange(len(lengths)) - full.user_offsets[owner] < self._examples
        if self._tokens is not None:
            before = starts - full.example_offsets[full.user_offsets[owner]]
            keep &= before < self._tokens
            lengths = np.minimum(lengths, self._tokens - before)
        user_offsets = offsets_of(np.bincount(owner[keep], minlength=len(counts)))
        if full.labels is not None:
            singles = np.arange(user_offsets[-1] + 1, dtype=np.int64)
            return Examples(full.items[keep], singles, user_offsets, full.labels[keep])
        items = full.items[ranges(starts[keep], lengths[keep])]
        return Examples(items, offsets_of(lengths[keep]), user_offsets)

    def texts(self, users: NDArray[np.int64]) -> Examples:
        """The texts of what the caps leave, cut where the words are cut."""
        full, capped, texts = self._users.gather(users), self.gather(users), _texts(self._users, users)
        examples = ranges(full.user_offsets[:-1], np.diff(capped.user_offsets))
        lengths = np.diff(capped.example_offsets)
        is_cut = lengths < np.diff(full.example_offsets)[examples]
        starts, ends = texts.example_offsets[examples], texts.example_offsets[examples + 1]
        pieces = [texts.items[start:end] for start, end in zip(starts.tolist(), ends.tolist(), strict=True)]
        for i in np.flatnonzero(is_cut):
            shorter = cut(pieces[i].tobytes().decode(), int(lengths[i])).encode()
            pieces[i] = np.frombuffer(shorter, np.uint8)
        sizes = np.array([len(piece) for piece in pieces], np.int64)
        flat = np.concatenate([np.empty(0, np.uint8), *pieces])
        return Examples(flat, offsets_of(sizes), capped.user_offsets)


def beneath(users: Users, numbers: NDArray[np.int64] | None = None) -> tuple[Users, NDArray[np.int64]]:
    """The users beneath views in which everybody keeps their own data, and the numbers that these users (or all) have there."""
    numbers = np.arange(len(users), dtype=np.int64) if numbers is None else numbers
    while isinstance(users, Subset | View):
        if isinstance(users, Subset):
            numbers = users.members[numbers]
        users = users._users
    return users, numbers


class Reshuffled:
    """Synthetic users with independent, identically distributed data: each example goes to one of them at random.

    The IID version of a dataset in "Understanding Unintended Memorization in Language Models Under Federated Learning",
    section 3. `synthetic` says how many there are, a public number. Which of them gets an example, and where in their
    history, is a hash of the owner's name and of the example's place among the owner's, so it does not depend on any other
    person. The sizes of synthetic users vary at random. Memory holds sixteen bytes an example.
    """

    def __init__(self, users: Users, synthetic: int, *, seed: int) -> None:
        self._users = users
        self._owned = offsets_of(example_counts(users))
        counts = np.diff(self._owned)
        owner_names = np.repeat(all_names(users), counts, axis=0)
        place = ranges(np.zeros(len(counts), np.int64), counts)
        hashes = name(seed, owner_names[:, 0], owner_names[:, 1], place)
        # The high bits choose the synthetic user, the low bits the place in their history.
        receiver = ((hashes >> np.uint64(32)) * np.uint64(synthetic) >> np.uint64(32)).astype(np.int64)
        self._dealt = np.lexsort((hashes, receiver))
        self._offsets = offsets_of(np.bincount(receiver, minlength=synthetic))

    def __len__(self) -> int:
        """How many synthetic users there are."""
        return len(self._offsets) - 1

    def names(self, users: NDArray[np.int64]) -> Names:
        """The numbers of these users: a synthetic user is no person."""
        return names_of_numbers(users)

    def gather(self, users: NDArray[np.int64]) -> Examples:
        """The examples dealt to these synthetic users."""
        counts = self._offsets[users + 1] - self._offsets[users]
        examples = self._dealt[ranges(self._offsets[users], counts)]
        owners = np.searchsorted(self._owned, examples, side="right") - 1
        picked = pick(self._users, owners, examples - self._owned[owners])
        return Examples(picked.items, picked.example_offsets, offsets_of(counts), picked.labels)

    def example_counts(self) -> NDArray[np.int64]:
        """How many examples each synthetic user has."""
        return np.diff(self._offsets)


def _texts(users: Users, numbers: NDArray[np.int64]) -> Examples:
    known = getattr(users, "texts", None)
    if known is None:
        raise DataError("These users keep no texts, only word ids.")
    return cast(Examples, known(numbers))
