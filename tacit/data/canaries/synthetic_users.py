"""Append synthetic users to the real ones. They contain nobody's text, and real users keep their numbers.

`WithDevices` appends Production's devices: copies of a canary scattered among public sentences. `WithCoinUsers` appends the
canary users of a lower bound. A canary user who is in holds copies of a canary and nothing else. One who is out can still be
sampled, but has no examples and contributes nothing to any block of the gate. So in and out differ in one user's data, under
every adjacency that guarantees are stated for: added, removed, replaced or zeroed.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from tacit.data.canaries.plan import HAS_COPY, PUBLIC_SENTENCE, CanaryDevices, CanaryPlan, CoinUser, encode
from tacit.data.canaries.splicing import replaced
from tacit.data.joining import joined, reordered
from tacit.data.ragged import offsets_of
from tacit.data.users import Examples, Names, Users, names_of_numbers
from tacit.data.views import example_counts
from tacit.data.worlds.randomness import name, uniform


class _Appended(ABC):
    """Real users, followed by synthetic users from `_made`. `MAKER` keeps their names distinct from all other users' names."""

    MAKER: ClassVar[int]

    def __init__(self, users: Users, others: NDArray[np.int64]) -> None:
        self._users = users
        self._sizes = others

    def __len__(self) -> int:
        """The number of users, appended ones included."""
        return len(self._users) + len(self._sizes)

    def gather(self, users: NDArray[np.int64]) -> Examples:
        """The examples of these users, real or synthetic."""
        users = np.asarray(users, np.int64)
        is_other = users >= len(self._users)
        if not is_other.any():
            return self._users.gather(users)
        people = self._users.gather(users[~is_other])
        others = self._made(users[is_other] - len(self._users))
        where = np.argsort(np.concatenate([np.flatnonzero(~is_other), np.flatnonzero(is_other)]))
        return reordered(joined([people, others]), where)

    def names(self, users: NDArray[np.int64]) -> Names:
        """The names of these users; a synthetic user's name is their number among the synthetic users, and `MAKER`."""
        users = np.asarray(users, np.int64)
        is_other = users >= len(self._users)
        names = np.empty((len(users), 2), np.uint64)
        names[~is_other] = self._users.names(users[~is_other])
        names[is_other] = names_of_numbers(users[is_other] - len(self._users))
        names[is_other, 0] = self.MAKER
        return names

    def example_counts(self) -> NDArray[np.int64]:
        """How many examples each user has."""
        return np.concatenate([example_counts(self._users), self._sizes])

    @abstractmethod
    def _made(self, numbers: NDArray[np.int64]) -> Examples:
        """The examples of the synthetic users with these numbers, counted from 0."""


class WithDevices(_Appended):
    """Real users, then the plan's synthetic devices: copies of a canary scattered among public sentences."""

    MAKER = 1

    def __init__(self, users: Users, plan: CanaryPlan, words: Sequence[str], public: Examples) -> None:
        self._plan = plan
        self._ids = encode(plan.canaries, words)
        self._public = public
        self._held = plan.device_canaries()
        super().__init__(users, np.full(len(self._held), plan.examples_per_device, np.int64))

    def _made(self, numbers: NDArray[np.int64]) -> Examples:
        slots = np.arange(self._plan.examples_per_device)
        seed, sentences = self._plan.seed, len(self._public.example_offsets) - 1
        chosen = (uniform(seed, PUBLIC_SENTENCE, numbers[:, None], slots) * sentences).astype(np.int64)
        # The copies are in the slots with the smallest hashes, anywhere in the device's history.
        rank = np.argsort(np.argsort(name(seed, HAS_COPY, numbers[:, None], slots), axis=1), axis=1)
        canary = self._held[numbers]
        which = np.where(rank < _copies(self._plan, CanaryDevices)[canary][:, None], canary[:, None], -1)
        public = self._public.take(chosen.ravel(), offsets_of(np.full(len(numbers), len(slots))))
        return replaced(public, which.ravel(), self._ids)


class WithCoinUsers(_Appended):
    """Real users, then a canary user for each of the plan's coins: copies of a canary if the coin says in, else nothing.

    With `all_in` all canary users are in, whatever the coins say; the attacker scores each under this hypothesis.
    """

    MAKER = 2

    def __init__(self, users: Users, plan: CanaryPlan, words: Sequence[str], *, all_in: bool = False) -> None:
        self._ids = encode(plan.canaries, words)
        self._canaries = plan.coin_canaries()
        is_in = np.ones(len(self._canaries), bool) if all_in else plan.coins()
        super().__init__(users, np.where(is_in, _copies(plan, CoinUser)[self._canaries], 0))

    def _made(self, numbers: NDArray[np.int64]) -> Examples:
        sizes = self._sizes[numbers]
        phrases = [self._ids[canary] for canary in np.repeat(self._canaries[numbers], sizes)]
        items = np.concatenate([np.empty(0, np.int32), *phrases])
        lengths = np.array([len(phrase) for phrase in phrases], np.int64)
        return Examples(items, offsets_of(lengths), offsets_of(sizes))


def _copies(plan: CanaryPlan, kind: type[CanaryDevices] | type[CoinUser]) -> NDArray[np.int64]:
    how = [canary.sharing for canary in plan.canaries]
    return np.array([each.copies if isinstance(each, kind) else 0 for each in how], np.int64)
