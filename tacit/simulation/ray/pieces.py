"""Cut a cohort into pieces of about equal predicted cost, so that the slowest worker does not set the pace.

The pieces depend on the cohort, on how much its users have, on the chunk and on the setting `pieces`, never on how many workers
there are or who is busy. Each piece is summed by itself and the sums are merged in the order of the pieces, so a seeded run
gives the same bytes with any number of workers, and after any number of lost ones.

Users are sorted by size, so that those who train in lockstep need about as many steps. A chunk costs what its largest user
costs, times its width. Chunks go, the most expensive first, to the piece that has the least so far.

Where the users' text lies in shards on several machines, a piece has users of one shard, so that one machine can train all of
them, and each shard has a share of the pieces by what its users cost.

A piece has two users at least, because its sum leaves the worker. Only a round, or a shard, of which a single user takes part
has a piece of one.
"""

from __future__ import annotations

import heapq
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tacit.data.flat import FlatUsers
from tacit.data.sharded import ShardedStore
from tacit.data.users import Users
from tacit.data.views import beneath
from tacit.data.worlds.keyboard import KeyboardWorld
from tacit.learning.batches import Batching, TextBatches

# What a chunk costs beside its users' data, in items: compiled calls, clipping, and the sum.
CHUNK_COST = 32.0


@dataclass(frozen=True)
class Piece:
    """Some users of a cohort, who are trained by one worker.

    `first` is the index in the round from which their own indices count; no two pieces share one. `shard` is where their text
    is: None for everywhere.
    """

    number: int
    users: NDArray[np.int64]
    cost: float
    first: int
    shard: int | None = None


def cut(
    cohort: NDArray[np.int64],
    sizes: NDArray[np.float64],
    *,
    chunk: int,
    pieces: int,
    shards: NDArray[np.int64] | None = None,
) -> list[Piece]:
    """At most so many pieces, each of whole chunks (but for the last users); the most expensive piece comes first.

    With the users' `shards`, each shard has one piece at least, so there may be more of them.

    >>> found = cut(np.arange(5), np.array([1.0, 9.0, 1.0, 8.0, 1.0]), chunk=2, pieces=2)
    >>> [each.users.tolist() for each in found], [each.cost for each in found]
    ([[0, 2, 4], [1, 3]], [68.0, 50.0])
    """
    parts: list[tuple[float, NDArray[np.int64], int | None]]
    if shards is None:
        parts = [(load, places, None) for load, places in _parts(sizes, chunk, pieces)]
    else:
        groups = [(int(shard), np.flatnonzero(shards == shard)) for shard in np.unique(shards)]
        costs = [_cost(sizes[group], chunk) for _, group in groups]
        parts = [
            (load, group[places], shard)
            for (shard, group), cost in zip(groups, costs, strict=True)
            for load, places in _parts(sizes[group], chunk, max(1, int(pieces * cost / sum(costs))))
        ]
    found, first = [], 0
    for number, (load, places, shard) in enumerate(sorted(parts, key=lambda part: -part[0])):
        found.append(Piece(number, cohort[np.sort(places)], load, first, shard))
        first += len(places) * chunk  # a chunk is padded to its width, and each chunk has at least one user
    return found


def _cost(sizes: NDArray[np.float64], chunk: int) -> float:
    """What these users cost together, in chunks of about equal users."""
    return sum(_costs(np.sort(sizes)[::-1], chunk))


def _costs(descending: NDArray[np.float64], chunk: int) -> list[float]:
    """What each chunk of users with these sizes costs: its largest user comes first."""
    return [CHUNK_COST + chunk * float(largest) for largest in descending[::chunk]]


def _parts(sizes: NDArray[np.float64], chunk: int, pieces: int) -> list[tuple[float, NDArray[np.int64]]]:
    """The places of the users of at most so many pieces, two at least in each if there are two, and what each piece costs."""
    order = np.argsort(-sizes, kind="stable")
    chunks = [order[start : start + chunk] for start in range(0, len(order), chunk)]
    costs = _costs(sizes[order], chunk)
    together: list[list[int]] = [[] for _ in range(min(pieces, len(chunks)))]
    least = [(0.0, number) for number in range(len(together))]
    for index, cost in enumerate(costs):
        load, number = heapq.heappop(least)
        together[number].append(index)
        heapq.heappush(least, (load + cost, number))
    parts = [
        (sum(costs[index] for index in indices), np.concatenate([chunks[index] for index in indices]))
        for indices in together
    ]
    while len(parts) > 1:
        single = next((number for number, (_, places) in enumerate(parts) if len(places) == 1), None)
        if single is None:
            break
        load, places = parts.pop(single)
        into = min(range(len(parts)), key=lambda number: parts[number][0])
        parts[into] = load + parts[into][0], np.concatenate([parts[into][1], places])
    return parts


def predicted_sizes(users: Users, numbers: NDArray[np.int64], shape: Batching) -> NDArray[np.float64]:
    """About how much each of these users has to train on, up to the cap; 1 for everybody where nothing is known.

    It is a prediction for the schedule alone. No text is read for it.
    """
    found, there = beneath(users, numbers)
    if isinstance(found, FlatUsers):
        known = found.token_counts(there)
    elif isinstance(found, KeyboardWorld):
        known = found.sentence_counts(there)
    else:
        return np.ones(len(numbers))
    most = shape.steps * shape.batch_size * shape.length if isinstance(shape, TextBatches) else np.inf
    return np.minimum(known.astype(np.float64), most)


def shards_of(users: Users, numbers: NDArray[np.int64]) -> NDArray[np.int64] | None:
    """The shard in which each of these users' text lies; None where it does not lie in shards."""
    found, there = beneath(users, numbers)
    return found.shards_of(there) if isinstance(found, ShardedStore) else None
