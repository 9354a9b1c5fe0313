"""A binary tree's nodes and the patterns of participation, listed by definition."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise


def nodes(rounds: int, restarts: tuple[int, ...]) -> Iterator[range]:
    """Every complete node of every tree, by definition."""
    borders = [0, *restarts, rounds]
    for start, stop in pairwise(borders):
        size = 1
        while size <= stop - start:
            yield from (range(first, first + size) for first in range(start, stop - size + 1, size))
            size *= 2


def patterns(rounds: int, between: int, most: int, first: int = 0) -> Iterator[tuple[int, ...]]:
    """Every way to take part, at most so often and with so many rounds between."""
    yield ()
    for each in range(first, rounds if most else first):
        for rest in patterns(rounds, between, most - 1, each + between + 1):
            yield (each, *rest)
