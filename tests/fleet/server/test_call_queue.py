"""Calls of many requests in few threads: each request gets its own answer, and a failure is that of one request."""

from __future__ import annotations

import asyncio
import threading

import pytest

from tacit.fleet.server.call_queue import CallQueue


def test_each_request_gets_what_its_call_returns_and_one_thread_runs_them_in_order():
    queue, order, threads = CallQueue(1), [], set()

    def call(number: int) -> int:
        order.append(number)
        threads.add(threading.get_ident())
        return number

    async def all_of_them() -> list[int]:
        return await asyncio.gather(*(queue.run(lambda number=number: call(number)) for number in range(200)))

    assert asyncio.run(all_of_them()) == list(range(200))
    assert order == list(range(200))
    assert len(threads) == 1


def test_a_call_that_fails_fails_alone():
    queue = CallQueue(2)

    def call(number: int) -> int:
        if number % 3 == 0:
            raise ValueError(number)
        return number

    async def all_of_them() -> list[object]:
        calls = (queue.run(lambda number=number: call(number)) for number in range(60))
        return await asyncio.gather(*calls, return_exceptions=True)

    for number, found in enumerate(asyncio.run(all_of_them())):
        assert isinstance(found, ValueError) if number % 3 == 0 else found == number


def test_a_slow_call_does_not_hold_the_event_loop_nor_another_thread():
    queue, go_on = CallQueue(2), threading.Event()

    async def main() -> list[str]:
        slow = asyncio.create_task(queue.run(lambda: go_on.wait(600)))
        said = [await queue.run(lambda: "quick")]
        go_on.set()
        return [*said, str(await slow)]

    assert asyncio.run(main()) == ["quick", "True"]


def test_a_request_that_is_gone_keeps_nobody_from_an_answer():
    queue, go_on = CallQueue(1), threading.Event()

    async def main() -> str:
        gone = asyncio.create_task(queue.run(lambda: go_on.wait(600)))
        here = asyncio.create_task(queue.run(lambda: "here"))
        await asyncio.sleep(0)
        gone.cancel()
        go_on.set()
        with pytest.raises(asyncio.CancelledError):
            await gone
        return await here

    assert asyncio.run(main()) == "here"


def test_calls_that_come_one_after_the_other_are_all_run():
    """The thread may have looked for the last time when a call comes; nobody else would start it."""
    queue = CallQueue(1)

    async def one(number: int) -> int:
        return sum([await queue.run(lambda: number) for _ in range(200)])

    async def all_of_them() -> list[int]:
        return await asyncio.wait_for(asyncio.gather(*(one(number) for number in range(5))), 600)

    assert asyncio.run(all_of_them()) == [200 * number for number in range(5)]


def test_a_loop_that_ended_before_its_calls_keeps_no_later_loop_waiting():
    queue, begun, go_on = CallQueue(1), threading.Event(), threading.Event()

    def slow() -> bool:
        begun.set()
        return go_on.wait(600)

    async def leave() -> None:
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(queue.run(slow), 0.05)
        begun.wait(600)

    async def ask() -> str:
        return await queue.run(lambda: "quick")

    asyncio.run(leave())
    go_on.set()
    assert asyncio.run(asyncio.wait_for(ask(), 600)) == "quick"
