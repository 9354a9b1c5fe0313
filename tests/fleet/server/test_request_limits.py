"""Rate limits, and limits on the length and duration of a body."""

from __future__ import annotations

import asyncio

import pytest
from starlette.requests import Request

from tacit.fleet.server.request_limits import BodyMemory, Buffers, OneAtATime, RateLimiter, read_body, read_buffer
from tacit.fleet.wire.refusals import Refusal


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def allowed(buckets: RateLimiter, key: str) -> bool:
    try:
        buckets.take(key)
    except Refusal as refusal:
        return refusal.status != 429
    return True


def test_a_burst_then_so_many_a_second():
    clock = Clock()
    buckets = RateLimiter(per_s=2, burst=3, clock=clock)
    assert [allowed(buckets, "a") for _ in range(5)] == [True] * 3 + [False] * 2
    assert allowed(buckets, "b")
    clock.now += 0.5
    assert [allowed(buckets, "a") for _ in range(2)] == [True, False]
    clock.now += 1000
    assert [allowed(buckets, "a") for _ in range(5)] == [True] * 3 + [False] * 2


def test_a_sender_above_the_rate_limit_gets_a_retry_after():
    buckets = RateLimiter(per_s=0.1, burst=1, clock=Clock())
    buckets.take("a")
    with pytest.raises(Refusal) as raised:
        buckets.take("a")
    assert raised.value.again
    assert raised.value.headers == {"retry-after": "10"}


def test_refused_requests_do_not_make_the_wait_longer():
    clock = Clock()
    buckets = RateLimiter(per_s=1, burst=1, clock=clock)
    buckets.take("a")
    for _ in range(50):
        assert not allowed(buckets, "a")
    clock.now += 1
    assert allowed(buckets, "a")


def test_memory_is_bounded():
    buckets = RateLimiter(per_s=1, burst=1, most_keys=3, clock=Clock())
    for key in range(100):
        buckets.take(key)
    assert len(buckets._left) == 3
    assert not allowed(buckets, 99)


class Crowd:
    """Bodies that want room, each until it is told to go."""

    def __init__(self, room: BodyMemory) -> None:
        self._room = room
        self.inside: list[str] = []
        self._tasks: dict[str, asyncio.Task] = {}
        self._leave: dict[str, asyncio.Event] = {}

    async def come(self, name: str, size: int) -> None:
        self._leave[name] = asyncio.Event()

        async def stay():
            async with self._room.hold(size):
                self.inside.append(name)
                try:
                    await self._leave[name].wait()
                finally:
                    self.inside.remove(name)

        self._tasks[name] = asyncio.create_task(stay())
        await asyncio.sleep(0)
        await asyncio.sleep(0)

    async def go(self, name: str, *, cancelled: bool = False) -> None:
        if cancelled:
            self._tasks[name].cancel()
        self._leave[name].set()
        for _ in range(5):
            await asyncio.sleep(0)


def test_bodies_share_the_room_in_the_order_they_come():
    async def play():
        crowd = Crowd(BodyMemory(10))
        for name, size in (("a", 6), ("b", 4), ("c", 5), ("d", 1), ("huge", 50), ("e", 1)):
            await crowd.come(name, size)
        assert crowd.inside == ["a", "b"]
        await crowd.go("b")
        assert crowd.inside == ["a"]  # d would fit, but it is c's turn
        await crowd.go("a")
        assert crowd.inside == ["c", "d"]
        await crowd.go("c")
        await crowd.go("d")
        assert crowd.inside == ["huge"]
        await crowd.go("huge")
        assert crowd.inside == ["e"]
        await crowd.go("e")

    asyncio.run(play())


def test_a_request_that_is_cancelled_frees_its_memory():
    async def play():
        crowd = Crowd(BodyMemory(10))
        for name, size in (("a", 10), ("b", 10), ("c", 10), ("d", 10)):
            await crowd.come(name, size)
        await crowd.go("b", cancelled=True)
        await crowd.go("a", cancelled=True)
        assert crowd.inside == ["c"]
        await crowd.go("c")
        assert crowd.inside == ["d"]
        await crowd.go("d")
        assert crowd._room._used == 0
        assert not crowd._room._waiting

    asyncio.run(play())


def a_request(*messages, method="POST", **headers) -> tuple[Request, list]:
    """A request and the messages that have not been read from it."""
    waiting = list(messages)

    async def receive():
        if not waiting:
            await asyncio.sleep(60)
        return waiting.pop(0)

    fields = [(name.replace("_", "-").encode(), str(value).encode()) for name, value in headers.items()]
    return Request({"type": "http", "method": method, "headers": fields}, receive), waiting


def chunk(body: bytes, more: bool = False) -> dict:
    return {"type": "http.request", "body": body, "more_body": more}


def test_a_body_is_read_whole():
    request, _ = a_request(chunk(b"ab", more=True), chunk(b"c"), content_length=3)
    assert asyncio.run(read_body(request, most=3, least=3)) == b"abc"


def test_a_buffer_is_used_again_and_holds_the_new_body():
    buffers = Buffers(2)
    old = bytearray(b"xyz")
    buffers.give(old)
    request, _ = a_request(chunk(b"ab", more=True), chunk(b"c"), content_length=3)
    assert asyncio.run(read_buffer(request, most=3, buffers=buffers)) is old
    assert old == b"abc"


def test_a_buffer_of_another_length_is_not_used_and_few_are_kept():
    buffers, three = Buffers(2), bytearray(3)
    for each in (three, bytearray(4), bytearray(4)):
        buffers.give(each)
    assert buffers.take(3) is three
    assert len(buffers.take(5)) == 5


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"content_length": 4}, 413),
        ({"content_length": "9" * 400}, 413),
        ({"content_length": 2}, 422),
        ({"content_length": "-3"}, 411),
        ({"content_length": "three"}, 411),
        ({"content_length": "³"}, 411),
        ({}, 411),
        ({"content_length": 3, "transfer_encoding": "chunked"}, 411),
        ({"transfer_encoding": "chunked"}, 411),
    ],
)
def test_a_wrong_length_is_refused_before_a_byte_is_read(headers, status):
    request, waiting = a_request(chunk(b"abc"), **headers)
    with pytest.raises(Refusal) as raised:
        asyncio.run(read_body(request, most=3, least=3))
    assert raised.value.status == status
    assert waiting


@pytest.mark.parametrize(
    "messages", [[chunk(b"ab")], [chunk(b"ab", more=True), {"type": "http.disconnect"}], [chunk(b"abcd")]]
)
def test_another_length_than_stated_is_refused(messages):
    request, _ = a_request(*messages, content_length=3)
    with pytest.raises(Refusal) as raised:
        asyncio.run(read_body(request, most=5))
    assert raised.value.status == 422


def test_a_body_that_does_not_come_is_not_waited_for():
    request, _ = a_request(chunk(b"ab", more=True), content_length=3)
    with pytest.raises(Refusal) as raised:
        asyncio.run(read_body(request, most=3, seconds=0.01))
    assert raised.value.status == 408


def test_a_body_that_stops_is_not_waited_for():
    request, _ = a_request(chunk(b"ab", more=True), content_length=3)
    with pytest.raises(Refusal) as raised:
        asyncio.run(read_body(request, most=3, seconds=1e6, silent=0.01))
    assert raised.value.status == 408


def test_a_device_sends_one_thing_at_a_time():
    sending = OneAtATime()
    with sending.take(1), sending.take(2), pytest.raises(Refusal) as raised, sending.take(1):
        pass
    assert (raised.value.status, raised.value.again) == (429, True)
    with sending.take(1):
        pass


def test_a_get_needs_no_length():
    request, _ = a_request(chunk(b""), method="GET")
    assert asyncio.run(read_body(request, most=0)) == b""
