"""Runs the short calls of many requests in few threads.

A call of its own thread has to wake that thread and then the event loop, and the threads take Python's lock from each other.
That costs more than most calls. Here a thread goes on with the next call as long as one is waiting, and hands what has finished
to the event loop together.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import Any, TypeVar

_Result = TypeVar("_Result")
# Answers of so long are handed over together: the first of them waits for the last.
_TOGETHER_S = 0.005


class CallQueue:
    """Runs calls in so many threads, in the order in which they come. It is used from one event loop at a time."""

    def __init__(self, threads: int) -> None:
        self._threads = threads
        self._pool = ThreadPoolExecutor(threads, thread_name_prefix="calls")
        self._waiting: deque[tuple[asyncio.Future[Any], Callable[[], Any]]] = deque()
        self._working = 0  # changed in the event loop only, as futures are
        self._loop: asyncio.AbstractEventLoop | None = None

    async def run(self, call: Callable[[], _Result]) -> _Result:
        """What the call returns or raises, without blocking other requests."""
        loop = asyncio.get_running_loop()
        if (
            loop is not self._loop
        ):  # nobody waits in an earlier one any more, and its calls may never have been handed over
            self._loop, self._waiting, self._working = loop, deque(), 0
        answer: asyncio.Future[_Result] = loop.create_future()
        self._waiting.append((answer, call))
        if self._working < self._threads:
            self._start(loop)
        return await answer

    def _start(self, loop: asyncio.AbstractEventLoop) -> None:
        self._working += 1
        self._pool.submit(self._work, loop)

    def _work(self, loop: asyncio.AbstractEventLoop) -> None:
        finished: list[Callable[[], None]] = []
        waiting, until = self._waiting, time.monotonic() + _TOGETHER_S
        while waiting and time.monotonic() < until:
            try:
                answer, call = waiting.popleft()
            except IndexError:  # another thread was faster
                break
            finished.append(_outcome(answer, call))
        with suppress(RuntimeError):  # the loop has ended, and nobody waits
            loop.call_soon_threadsafe(self._hand_over, loop, finished)

    def _hand_over(self, loop: asyncio.AbstractEventLoop, finished: list[Callable[[], None]]) -> None:
        self._working -= 1
        if self._waiting:  # also what came after the thread had looked for the last time
            self._start(loop)
        for tell in finished:
            tell()


def _outcome(answer: asyncio.Future[Any], call: Callable[[], Any]) -> Callable[[], None]:
    """Run the call; what tells the request, unless that is gone."""
    try:
        result = call()
    except BaseException as error:
        failure = error
        return lambda: None if answer.done() else answer.set_exception(failure)
    return lambda: None if answer.done() else answer.set_result(result)
