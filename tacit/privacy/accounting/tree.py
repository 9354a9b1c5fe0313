"""Binary trees under MinS and MaxP: the exact sensitivity (Kairouz et al. 2021; Gboard, section 2.2 and Table 1).

A tree releases a noisy sum for every complete node: every aligned block of 2^h rounds that ended. A user who took part
c times in a block moves its sum by c clips, so the squared sensitivity of everything released is

    max over admissible participations of  Σ over nodes of (participations in the node)².

"Not completed": a tree over T rounds is the forest of the complete trees its rounds fill, one for each binary digit of
T; nobody adds empty rounds at the end. A restart opens a new forest. The gap holds across borders of all kinds.

**The search.** Fix how many of the user's participations fall into each node. The rounds that realise those counts,
each as early as the gap d allows, end at max(s + (n-1) d, c), if the first must not come before s, and exist while s ≤ l:
all that the rest of the forest needs to know about a node is the quadruple (n, value, c, l). Two neighbours join into

    n = n₁ + n₂,  value = value₁ + value₂ + n²,  c = max(c₁ + n₂ d, L + c₂),  l = min(l₁, l₂ + L - n₁ d),

possible if c₁ + d - L ≤ l₂ (L is the size of each). Blocks of the same size are alike, so there is one list of
quadruples for each height, kept short: one that is nowhere better than others is dropped. That loses nothing, so the
maximum is exact.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from tacit.privacy.participation.limits import Gap, most_participations

Ints = NDArray[np.int64]
# More pairs than this are joined in parts, to bound memory.
_PAIRS_AT_ONCE = 2_000_000
# A table of so many cells is faster than sorting; a larger one would waste memory.
_MOST_CELLS = 4_000_000


def sensitivity_squared(rounds: int, gap: Gap, max_participation: int, restarts: Iterable[int] = ()) -> int:
    """The squared L2 sensitivity, in units of the clip, of all nodes of the trees over rounds 0 .. rounds - 1.

    Each round number in `restarts` opens a new tree.
    """
    most = most_participations(rounds, gap, max_participation)
    if most == 0:
        return 0
    blocks = _blocks(rounds, restarts)
    ways = _ways(max(height for _, height in blocks), gap.index_difference, most)
    return _best(blocks, ways, gap.index_difference, most)


@dataclass(frozen=True)
class _Ways:
    """The ways a user can take part in a block, as parallel arrays; all have count of 1 or more."""

    count: Ints
    value: Ints
    end: Ints  # where the last participation falls, at the earliest
    latest: Ints  # the latest bound on the first participation that this way can meet

    def __getitem__(self, chosen: Ints | NDArray[np.bool_] | slice) -> _Ways:
        return _Ways(self.count[chosen], self.value[chosen], self.end[chosen], self.latest[chosen])

    def __len__(self) -> int:
        return len(self.count)


def _blocks(rounds: int, restarts: Iterable[int]) -> list[tuple[int, int]]:
    """(first round, height) of the complete trees, in order."""
    borders = sorted({0, rounds, *restarts})
    if borders[0] < 0 or borders[-1] > rounds:
        raise ValueError(f"Expected restarts within rounds 0 to {rounds}, got {borders}.")
    found = []
    for start, stop in pairwise(borders):
        while start < stop:
            height = (stop - start).bit_length() - 1
            found.append((start, height))
            start += 1 << height
    return found


def _ways(height: int, d: int, most: int) -> list[_Ways]:
    """For each height up to this one, the ways to take part in a block of 2^height rounds."""
    found = []
    for h in range(height + 1):
        size = 1 << h
        # Once: any round will do, so the earliest allowed is taken and the value is that of the path to the root.
        once = _Ways(*(np.array([each]) for each in (1, h + 1, max(0, size - d), min(d, size) - 1)))
        if size <= d or most == 1:
            found.append(once)
            continue
        found.append(_concatenated([once, *_more_than_once(found[-1], h, d, most)]))
    return found


def _more_than_once(half: _Ways, height: int, d: int, most: int) -> list[_Ways]:
    """The ways to take part twice or more in a block of this height, from those of its halves, without useless ones."""
    size, L = 1 << height, 1 << (height - 1)
    # All in one half: the root adds its square, and the other half is free.
    several = half[half.count > 1]
    squares = several.count**2
    left = _Ways(several.count, several.value + squares, several.end, several.latest)
    right = _Ways(several.count, several.value + squares, several.end + L, several.latest + L)
    candidates = [_useful(_clamped(_concatenated([left, right]), size, d), d)]
    for part in _parts(half, len(half)):
        i, j = np.nonzero(
            (part.count[:, None] + half.count <= most) & (part.end[:, None] + (d - L) <= half.latest[None, :])
        )
        a, b = part[i], half[j]
        n = a.count + b.count
        joined = _Ways(
            n,
            a.value + b.value + n**2,
            np.maximum(a.end + b.count * d, L + b.end),
            np.minimum(a.latest, b.latest + L - a.count * d),
        )
        candidates.append(_useful(_clamped(joined, size, d), d))
    return [_useful(_concatenated(candidates), d)]


def _clamped(ways: _Ways, size: int, d: int) -> _Ways:
    """Beyond these bounds an end or a start makes no difference to the neighbours, whose nearest rounds are -1 and size."""
    return _Ways(ways.count, ways.value, np.maximum(ways.end, size - d), np.minimum(ways.latest, d - 1))


def _useful(ways: _Ways, d: int) -> _Ways:
    """Those that end earlier than every way of the same count and no smaller value, for some bound on the start."""
    ways = ways[ways.latest >= 0]
    if len(ways) == 0:
        return ways
    # Of the same count, end and latest start only the largest value can matter, and there are at most d² of those.
    first = int(ways.end.min())
    cells, values = _largest((ways.count * d + ways.latest) * d + (ways.end - first), ways.value)
    ways = _Ways(cells // (d * d), values, cells % d + first, cells // d % d)
    ways = ways[np.lexsort((ways.end, -ways.latest, -ways.value, ways.count))]
    starts = np.arange(d)
    kept, reached, best = [], -1, starts
    for k, (n, end, latest) in enumerate(
        zip(ways.count.tolist(), ways.end.tolist(), ways.latest.tolist(), strict=True)
    ):
        if n != reached:
            reached, best = n, np.full(d, np.iinfo(np.int64).max)
        ends = np.maximum(starts[: latest + 1] + (n - 1) * d, end)
        if (ends < best[: latest + 1]).any():
            kept.append(k)
            np.minimum(best[: latest + 1], ends, out=best[: latest + 1])
    return ways[np.array(kept)]


def _best(blocks: Sequence[tuple[int, int]], ways: Sequence[_Ways], d: int, most: int) -> int:
    """The largest value over a row of blocks: from left to right, the latest participation is all that is remembered."""
    # Parallel arrays: participations so far, value so far, the earliest round the next one may have.
    count, value, free = np.array([0]), np.array([0]), np.array([0])
    for start, height in blocks:
        block = ways[height]
        s = np.maximum(free - start, 0)
        counts, values, frees = [count], [value], [free]
        for part in _parts(block, len(count)):
            i, j = np.nonzero((count[:, None] + part.count <= most) & (s[:, None] <= part.latest[None, :]))
            way = part[j]
            counts.append(count[i] + way.count)
            values.append(value[i] + way.value)
            frees.append(start + np.maximum(s[i] + (way.count - 1) * d, way.end) + d)
        # What comes next begins where this block ends.
        free = np.maximum(np.concatenate(frees), start + (1 << height))
        count, value, free = _unbeaten(np.concatenate(counts), np.concatenate(values), free)
    return int(value.max())


def _unbeaten(count: Ints, value: Ints, free: Ints) -> tuple[Ints, Ints, Ints]:
    """Without those that another beats or equals in value and in the next free round, with no more participations."""
    first, width = int(free.min()), int(free.max() - free.min()) + 1
    cells, value = _largest(count * width + (free - first), value)
    count, free = cells // width, cells % width + first
    order = np.lexsort((count, free, -value))
    kept: list[int] = []
    earliest = np.full(
        int(count.max()) + 1, np.iinfo(np.int64).max
    )  # next free round by at most so many participations
    for k, n, f in zip(order.tolist(), count[order].tolist(), free[order].tolist(), strict=True):
        if f < earliest[n]:
            kept.append(k)
            np.minimum(earliest[n:], f, out=earliest[n:])
    chosen = np.array(kept)
    return count[chosen], value[chosen], free[chosen]


def _largest(cells: Ints, values: Ints) -> tuple[Ints, Ints]:
    """The cells that occur, each once, with the largest of their values."""
    if cells.max() < _MOST_CELLS:
        best = np.full(int(cells.max()) + 1, -1)
        np.maximum.at(best, cells, values)
        occurring = np.nonzero(best >= 0)[0]
        return occurring, best[occurring]
    order = np.lexsort((values, cells))
    last = np.append(np.diff(cells[order]) != 0, True)
    return cells[order][last], values[order][last]


def _parts(ways: _Ways, others: int) -> Iterable[_Ways]:
    step = max(1, _PAIRS_AT_ONCE // others)
    return (ways[slice(k, k + step)] for k in range(0, len(ways), step))


def _concatenated(several: Sequence[_Ways]) -> _Ways:
    return _Ways(
        np.concatenate([each.count for each in several]),
        np.concatenate([each.value for each in several]),
        np.concatenate([each.end for each in several]),
        np.concatenate([each.latest for each in several]),
    )
