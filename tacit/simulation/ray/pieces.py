"""Cut a cohort into pieces of about equal predicted cost, so that the slowest worker does not set the pace.

The pieces depend on the cohort, on how much its users have, on the chunk and on the setting `pieces`, never on how many workers
there are or who is busy. Each piece is summed by itself and the sums are merged in the order of the pieces, so a seeded run
gives the same bytes with any number of workers, and after any number of lost ones.

Users are sorted by size, so that those who train in lockstep need about as many steps. A chunk costs what its largest user
costs, times its width. Chunks go, the most expensive first, to the piece that has the least so far.
"""

from __future__ import annotations

import heapq
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tacit.data.flat import FlatUsers
from tacit.data.users import Users
from tacit.data.views import Subset, View
from tacit.data.worlds.keyboard import KeyboardWorld
from tacit.learning.batches import Batching, TextBatches

# What a chunk costs beside its users' data, in items: compiled calls, clipping, and the sum.
CHUNK_COST = 32.0


@dataclass(frozen=True)
class Piece:
    """Some users of a cohort, who are trained by one worker.

    `first` is the index in the round from which their own indices count; no two pieces share one.
    """

    number: int
    users: NDArray[np.int64]
    cost: float
    first: int


def cut(cohort: NDArray[np.int64], sizes: NDArray[np.float64], *, chunk: int, pieces: int) -> list[Piece]:
    """At most so many pieces, each of whole chunks (but for the last users); the most expensive piece comes first.

    >>> found = cut(np.arange(5), np.array([1.0, 9.0, 1.0, 8.0, 1.0]), chunk=2, pieces=2)
    >>> [each.users.tolist() for each in found], [each.cost for each in found]
    ([[0, 2, 4], [1, 3]], [68.0, 50.0])
    """
    order = np.argsort(-sizes, kind="stable")
    chunks = [order[start : start + chunk] for start in range(0, len(order), chunk)]
    costs = [CHUNK_COST + chunk * float(sizes[each[0]]) for each in chunks]
    together: list[list[int]] = [[] for _ in range(min(pieces, len(chunks)))]
    least = [(0.0, number) for number in range(len(together))]
    for index, cost in enumerate(costs):
        load, number = heapq.heappop(least)
        together[number].append(index)
        heapq.heappush(least, (load + cost, number))
    loads = [sum(costs[index] for index in indices) for indices in together]
    found, first = [], 0
    for number, place in enumerate(sorted(range(len(together)), key=lambda place: -loads[place])):
        members = cohort[np.sort(np.concatenate([chunks[index] for index in together[place]]))]
        found.append(Piece(number, members, loads[place], first))
        first += len(members) * chunk  # a chunk is padded to its width, and each chunk has at least one user
    return found


def predicted_sizes(users: Users, numbers: NDArray[np.int64], shape: Batching) -> NDArray[np.float64]:
    """About how much each of these users has to train on, up to the cap; 1 for everybody where nothing is known.

    It is a prediction for the schedule alone. No text is read for it.
    """
    known = _known_sizes(users, numbers)
    if known is None:
        return np.ones(len(numbers))
    most = shape.steps * shape.batch_size * shape.length if isinstance(shape, TextBatches) else np.inf
    return np.minimum(known.astype(np.float64), most)


def _known_sizes(users: Users, numbers: NDArray[np.int64]) -> NDArray[np.int64] | None:
    if isinstance(users, Subset):
        return _known_sizes(users._users, users.members[numbers])
    if isinstance(users, View):
        return _known_sizes(users._users, numbers)
    if isinstance(users, FlatUsers):
        return users.token_counts(numbers)
    if isinstance(users, KeyboardWorld):
        return users.sentence_counts(numbers)
    return None
