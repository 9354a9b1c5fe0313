"""How often somebody may ask, and how much of a body is read.

A body's length is stated and within its bound before a byte of it is read; it is read in a stated time, and refused if it ends
early. So whoever sends garbage, or nothing, or very slowly, costs little.
"""

from __future__ import annotations

import asyncio
import math
import threading
import time
from collections import OrderedDict, deque
from collections.abc import AsyncIterator, Callable, Hashable
from contextlib import asynccontextmanager

from starlette.requests import ClientDisconnect, Request

from tacit.fleet.wire.refusals import Refusal

BODY_SECONDS = 120.0


class Buckets:
    """A token bucket for each key: `burst` requests at once, and `per_s` a second after that.

    At most `most_keys` are remembered; whoever has been silent for longest is forgotten first, and then begins anew.
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
        """Count one request of this key; Refusal (429) if it has asked too often."""
        with self._lock:
            now = self._clock()
            left, since = self._left.pop(key, (self._burst, now))
            left = min(self._burst, left + (now - since) * self._per_s)
            enough = left >= 1
            self._left[key] = (left - enough, now)
            if len(self._left) > self._most_keys:
                self._left.popitem(last=False)
        if not enough:
            seconds = max(1, math.ceil((1 - left) / self._per_s))
            raise Refusal("Too many requests.", status=429, again=True, headers={"retry-after": str(seconds)})


class Room:
    """Space in memory for bodies: at most `most` bytes at a time, first come, first served; a larger one comes alone."""

    def __init__(self, most: int) -> None:
        self._most, self._used = most, 0
        self._waiting: deque[tuple[int, asyncio.Future[None]]] = deque()

    @asynccontextmanager
    async def hold(self, size: int) -> AsyncIterator[None]:
        """Space for so many bytes, for as long as the block lasts."""
        turn = asyncio.get_running_loop().create_future()
        self._waiting.append((size, turn))
        self._let_in()
        try:
            await turn
            yield
        finally:
            if turn.done() and not turn.cancelled():
                self._used -= size
            self._let_in()

    def _let_in(self) -> None:
        while self._waiting:
            size, turn = self._waiting[0]
            if not turn.cancelled():
                if self._used and self._used + size > self._most:
                    return
                self._used += size
                turn.set_result(None)
            self._waiting.popleft()


def stated_length(request: Request, *, most: int, least: int = 0) -> int:
    """The length of the body that is to come; Refusal if it is not stated or out of bounds."""
    if "transfer-encoding" in request.headers:
        raise Refusal("Expected a body with its length stated, got one in pieces.", status=411)
    stated = request.headers.get("content-length")
    if stated is None and request.method in ("GET", "HEAD"):
        stated = "0"
    if stated is None or not (stated.isascii() and stated.isdigit()):
        raise Refusal("Expected the header Content-Length with the body's length.", status=411)
    length = int(stated[:20])
    if length > most:
        raise Refusal(f"Expected a body of at most {most} bytes, got {length}.", status=413)
    if length < least:
        raise Refusal(f"Expected a body of {least} bytes, got {length}.", status=422)
    return length


async def read_body(request: Request, *, most: int, least: int = 0, seconds: float = BODY_SECONDS) -> bytes:
    """The whole body; Refusal if its length is out of bounds, or if it does not come in time."""
    length = stated_length(request, most=most, least=least)
    # In its place from the first piece on: pieces that wait to be joined would take the space twice.
    body, got = bytearray(length), 0
    try:
        async with asyncio.timeout(seconds):
            async for chunk in request.stream():
                if got + len(chunk) > length:
                    got = -1
                    break
                body[got : got + len(chunk)] = chunk
                got += len(chunk)
    except TimeoutError:
        raise Refusal(
            f"Expected a body within {seconds:g} seconds, got a part of one.", status=408, again=True
        ) from None
    except ClientDisconnect:
        got = -1
    if got != length:
        raise Refusal("Expected as many bytes as the request says, got others.", status=422, again=True)
    return bytes(body)
