"""Work on a stream of things with every core: a few are under way at a time, and results keep their order."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from itertools import islice
from typing import TypeVar

# More threads than this mostly wait for the one that reads.
_MOST = 8

Item = TypeVar("Item")
Result = TypeVar("Result")


def in_order(work: Callable[[Item], Result], items: Iterable[Item]) -> Iterator[Result]:
    """`map` with threads, for work that leaves Python's lock to others, as NumPy and Arrow do. An error ends it."""
    threads = min(len(os.sched_getaffinity(0)), _MOST)
    source = iter(items)
    with ThreadPoolExecutor(threads) as pool:
        under_way: deque[Future[Result]] = deque()
        try:
            under_way.extend(pool.submit(work, item) for item in islice(source, threads + 1))
            while under_way:
                yield under_way.popleft().result()
                under_way.extend(pool.submit(work, item) for item in islice(source, 1))
        finally:
            for each in under_way:
                each.cancel()
