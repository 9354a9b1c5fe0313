"""Plant canaries: views over any `Users`, which leave the stored data unchanged.

Call `plant`. It uses `SecretSharers`, which replaces some examples of some real users, and `synthetic_users`, which appends
devices and then canary users.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tacit.data.canaries.plan import IS_REPLACED, IS_SHARER, CanaryPlan, Sharers, encode
from tacit.data.canaries.splicing import replaced
from tacit.data.canaries.synthetic_users import WithCoinUsers, WithDevices
from tacit.data.users import Examples, Names, Users
from tacit.data.views import View, example_counts, pick
from tacit.data.worlds.randomness import uniform
from tacit.errors import AuditError

_BLOCK = 65_536
_COUNTED_TOGETHER = 1024


def plant(
    users: Users,
    plan: CanaryPlan,
    words: Sequence[str],
    data: Mapping[str, str | int],
    public: Examples | None = None,
) -> Users:
    """These users with the plan's canaries planted, followed by its synthetic devices and canary users.

    `words[i]` is the word with id i; `data` names these users, for whom the plan must have been
    made; `public` are the sentences the devices hold beside their copies.
    """
    plan.require(data)
    planted: Users = users
    if any(isinstance(canary.sharing, Sharers) for canary in plan.canaries):
        planted = SecretSharers(planted, plan, words)
    if len(plan.device_canaries()):
        if public is None or len(public.example_offsets) < 2:
            raise AuditError("Synthetic devices need sentences of a public corpus, and there are none.")
        planted = WithDevices(planted, plan, words, public)
    if len(plan.coin_canaries()):
        planted = WithCoinUsers(planted, plan, words)
    return planted


def sharing(plan: CanaryPlan, names: Names) -> NDArray[np.bool_]:
    """Whether each of the users with these names shares each of the plan's canaries: [users, canaries]."""
    chance = [c.sharing.user_probability if isinstance(c.sharing, Sharers) else 0.0 for c in plan.canaries]
    canaries = np.arange(len(chance))
    return uniform(plan.seed, IS_SHARER, canaries, names[:, :1], names[:, 1:]) < np.array(chance)


def holders(plan: CanaryPlan, users: Users) -> list[NDArray[np.int64]]:
    """For each canary the users who hold it, real or synthetic, among planted `users`. A sharer may have drawn no copy."""
    people = len(users) - plan.synthetic_users
    held = np.concatenate([plan.device_canaries(), np.where(plan.coins(), plan.coin_canaries(), -1)])
    found = [[people + np.flatnonzero(held == number)] for number in range(len(plan.canaries))]
    for start in range(0, people, _BLOCK):
        block = np.arange(start, min(start + _BLOCK, people), dtype=np.int64)
        for user, canary in np.argwhere(sharing(plan, users.names(block))):
            found[canary].append(block[user : user + 1])
    return [np.sort(np.concatenate(parts)) for parts in found]


class SecretSharers(View):
    """The federated secret sharer: some users' examples are replaced by canaries. Of two canaries, the first is taken."""

    def __init__(self, users: Users, plan: CanaryPlan, words: Sequence[str]) -> None:
        super().__init__(users)
        self._plan = plan
        self._ids = encode(plan.canaries, words)
        self._texts = [np.frombuffer(canary.text.encode(), np.uint8) for canary in plan.canaries]

    def gather(self, users: NDArray[np.int64]) -> Examples:
        """The examples of these users, some of them replaced by canaries."""
        return self._planted(self._users.gather(users), users, self._ids)

    def texts(self, users: NDArray[np.int64]) -> Examples:
        """The texts of these users, with the canaries in the same places; AuditError if the users keep no texts."""
        known = getattr(self._users, "texts", None)
        if known is None:
            raise AuditError("These users keep word ids only, not their texts.")
        return self._planted(known(users), users, self._texts)

    def pick(self, owners: NDArray[np.int64], positions: NDArray[np.int64]) -> Examples:
        """Single examples: number `positions[i]` of user `owners[i]`."""
        distinct, place = np.unique(owners, return_inverse=True)
        return replaced(pick(self._users, owners, positions), self._which(distinct, place, positions), self._ids)

    def example_counts(self) -> NDArray[np.int64]:
        """The number of examples of each user, which canaries do not change."""
        return example_counts(self._users)

    def _planted(self, full: Examples, users: NDArray[np.int64], contents: list[NDArray[Any]]) -> Examples:
        counts = np.diff(full.user_offsets)
        place = np.repeat(np.arange(len(users)), counts)
        positions = np.arange(len(place), dtype=np.int64) - full.user_offsets[place]
        return replaced(full, self._which(users, place, positions), contents)

    def _which(
        self, users: NDArray[np.int64], place: NDArray[np.int64], positions: NDArray[np.int64]
    ) -> NDArray[np.int64]:
        """The canary that replaces each example (-1: none); example e is number positions[e] of users[place[e]]."""
        which = np.full(len(place), -1, np.int64)
        order = np.argsort(place, kind="stable")
        bounds = np.searchsorted(place[order], np.arange(len(users) + 1))
        names = self.names(users)
        pairs = np.argwhere(sharing(self._plan, names))
        for row, canary in pairs[np.argsort(-pairs[:, 1], kind="stable")]:  # the first canary is written last
            how = self._plan.canaries[canary].sharing
            assert isinstance(how, Sharers)
            examples = order[bounds[row] : bounds[row + 1]]
            draws = uniform(self._plan.seed, IS_REPLACED, canary, *names[row], positions[examples])
            which[examples[draws < how.example_probability]] = canary
        return which


def count_copies(
    users: Users, who: NDArray[np.int64], canaries: Sequence[NDArray[np.int32]]
) -> Iterator[tuple[NDArray[np.int64], NDArray[np.int64]]]:
    """Blocks of these users, each with the number of copies of each canary among their examples: [users, canaries]."""
    for start in range(0, len(who), _COUNTED_TOGETHER):
        block = who[start : start + _COUNTED_TOGETHER]
        full = users.gather(block)
        starts, lengths = full.example_offsets[:-1], np.diff(full.example_offsets)
        counts = np.zeros((len(block), len(canaries)), np.int64)
        for size in {len(canary) for canary in canaries}:
            examples = np.flatnonzero(lengths == size)
            owners = np.searchsorted(full.user_offsets, examples, side="right") - 1
            phrases = full.items[starts[examples][:, None] + np.arange(size)]
            for number in [number for number, canary in enumerate(canaries) if len(canary) == size]:
                same = (phrases == canaries[number]).all(axis=1)
                counts[:, number] = np.bincount(owners[same], minlength=len(block))
        yield block, counts
