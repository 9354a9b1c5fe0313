"""Limits on requests: how often a device may ask, how long a body may be, and how long it may take.

A request must state the length of its body, and the length is checked before the body is read. The body must arrive within
BODY_SECONDS, never stop for SILENT_SECONDS, keep to SLOWEST_BYTES a second on the whole, and have the stated length. A device
sends one body at a time, so that no device takes the memory of others. So garbage, silence and very slow senders cost the
server little. The size of a report is not a constant: it is exactly that of the round's model (`wire.reports.report_bytes`).
"""

from __future__ import annotations

import asyncio
import math
import threading
import time
from collections import OrderedDict, deque
from collections.abc import AsyncIterator, Callable, Hashable, Iterator
from contextlib import asynccontextmanager, contextmanager

from starlette.requests import ClientDisconnect, Request

from tacit.fleet.wire.refusals import Refusal

BODY_SECONDS, SILENT_SECONDS, SLOWEST_BYTES = 120.0, 10.0, 16 << 10
# Memory for request bodies, and how many reports are added up at once. A slow device holds its memory while it sends, and
# adding a report takes several times its size for a moment.
BODIES_BYTES, ADDED_AT_ONCE = 256 << 20, 4
# So many buffers of reports are kept for the next reports.
BUFFERS_KEPT = 8
# The largest question of a coordinator.
MOST_QUESTION_BYTES = 4096
# Requests a second, and at once, for each device; the same for enrolments from one network address.
DEVICE_PER_S, DEVICE_BURST = 10, 100
# Requests with a wrong signature from one address, after which its requests are refused unread unless they claim a device that
# has asked from there before; and how many devices are looked up in the database for all of them together.
FAILURES_PER_S, FAILURES_BURST = 5, 200
LOOK_UPS_PER_S, LOOK_UPS_BURST = 200, 2000
ENROLMENTS_PER_S, ENROLMENTS_BURST = 5, 100


class RateLimiter:
    """A token bucket for each key: `burst` requests at once, and `per_s` a second after that.

    At most `most_keys` buckets are kept. The one that was unused for longest is dropped first; its key then has a full bucket.
    """

    def __init__(
        self,
        *,
        per_s: float,
        burst: float,
        most_keys: int = 100_000,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._per_s, self._burst, self._most_keys, self._clock = per_s, burst, most_keys, clock
        self._left: OrderedDict[Hashable, tuple[float, float]] = OrderedDict()
        self._lock = threading.Lock()

    def take(self, key: Hashable) -> None:
        """Count one request of this key; Refusal (429) if it has made too many."""
        with self._lock:
            now = self._clock()
            left, since = self._left.pop(key, (self._burst, now))
            left = min(self._burst, left + (now - since) * self._per_s)
            enough = left >= 1
            self._left[key] = (left - enough, now)
            if len(self._left) > self._most_keys:
                self._left.popitem(last=False)
        if not enough:
            raise self._refusal(left)

    def require(self, key: Hashable) -> None:
        """Refusal (429) if this key has made too many requests; nothing is counted."""
        with self._lock:
            left, since = self._left.get(key, (self._burst, self._clock()))
            left = min(self._burst, left + (self._clock() - since) * self._per_s)
        if left < 1:
            raise self._refusal(left)

    def _refusal(self, left: float) -> Refusal:
        seconds = max(1, math.ceil((1 - left) / self._per_s))
        return Refusal("Too many requests.", status=429, again=True, headers={"retry-after": str(seconds)})


class OneAtATime:
    """Lets each key do one thing at a time."""

    def __init__(self) -> None:
        self._busy: set[Hashable] = set()

    @contextmanager
    def take(self, key: Hashable) -> Iterator[None]:
        """Refusal (429) if the key is at it already. Call it from the event loop only."""
        if key in self._busy:
            raise Refusal(
                "The device is sending another message.", status=429, again=True, headers={"retry-after": "1"}
            )
        self._busy.add(key)
        try:
            yield
        finally:
            self._busy.discard(key)


class BodyMemory:
    """Memory for request bodies: at most `most` bytes at a time, first come, first served.

    A larger body waits until it is alone.
    """

    def __init__(self, most: int) -> None:
        self._most, self._used = most, 0
        self._waiting: deque[tuple[int, asyncio.Future[None]]] = deque()

    @asynccontextmanager
    async def hold(self, size: int) -> AsyncIterator[None]:
        """Wait for this many bytes of memory, and hold them until the block ends."""
        turn = asyncio.get_running_loop().create_future()
        self._waiting.append((size, turn))
        self._admit_waiting()
        try:
            await turn
            yield
        finally:
            if turn.done() and not turn.cancelled():
                self._used -= size
            self._admit_waiting()

    def _admit_waiting(self) -> None:
        while self._waiting:
            size, turn = self._waiting[0]
            if not turn.cancelled():
                if self._used and self._used + size > self._most:
                    return
                self._used += size
                turn.set_result(None)
            self._waiting.popleft()


class Buffers:
    """Buffers of reports, used again: memory that is new costs as much as reading a report into it."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._free: list[bytearray] = []

    def take(self, length: int) -> bytearray:
        """A buffer of this length. What it holds means nothing: its user fills all of it, or does not use it."""
        while self._free:
            if len(found := self._free.pop()) == length:
                return found
        return bytearray(length)

    def give(self, buffer: bytearray) -> None:
        """Take back a buffer that nobody reads any more."""
        if len(self._free) < self._most:
            self._free.append(buffer)


def stated_length(request: Request, *, most: int, least: int = 0) -> int:
    """The body's length according to the headers; Refusal if it is not stated or out of bounds."""
    if "transfer-encoding" in request.headers:
        raise Refusal("The body's length must be stated: chunked bodies are not accepted.", status=411)
    stated = request.headers.get("content-length")
    if stated is None and request.method in ("GET", "HEAD"):
        stated = "0"
    if stated is None or not (stated.isascii() and stated.isdigit()):
        raise Refusal("The header Content-Length is missing or not a number.", status=411)
    length = int(stated[:20])
    if length > most:
        raise Refusal(f"Expected a body of at most {most} bytes, got {length}.", status=413)
    if length < least:
        raise Refusal(f"Expected a body of {least} bytes, got {length}.", status=422)
    return length


async def read_body(
    request: Request, *, most: int, least: int = 0, seconds: float = BODY_SECONDS, silent: float = SILENT_SECONDS
) -> bytes:
    """The whole body; Refusal if its length is out of bounds, or if it does not arrive in time."""
    return bytes(await read_buffer(request, most=most, least=least, seconds=seconds, silent=silent))


async def read_buffer(
    request: Request,
    *,
    most: int,
    least: int = 0,
    seconds: float = BODY_SECONDS,
    silent: float = SILENT_SECONDS,
    buffers: Buffers | None = None,
) -> bytearray:
    """`read_body`, for a body so long that copying it once more would be felt, into a buffer that may have been used before."""
    length = stated_length(request, most=most, least=least)
    # One buffer from the start: joining pieces at the end would take the memory twice.
    body, got = bytearray(length) if buffers is None else buffers.take(length), 0
    room = memoryview(body)  # a bytearray would copy each piece once more, into another bytearray
    loop = asyncio.get_running_loop()
    began = loop.time()
    try:
        async with asyncio.timeout_at(began + min(seconds, silent)) as limit:
            async for chunk in request.stream():
                now = loop.time()
                # Silence ends it, and so does dripping: the bytes so far must have come at the slowest speed or faster.
                slowest = began + silent + (got + len(chunk)) / SLOWEST_BYTES
                limit.reschedule(min(began + seconds, now + silent, slowest))
                if got + len(chunk) > length:
                    got = -1
                    break
                room[got : got + len(chunk)] = chunk
                got += len(chunk)
    except TimeoutError:
        raise Refusal("The body did not arrive in time.", status=408, again=True) from None
    except ClientDisconnect:
        got = -1
    if got != length:
        raise Refusal("The body does not have the stated length.", status=422, again=True)
    return body
