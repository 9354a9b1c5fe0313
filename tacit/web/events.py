"""What changes, sent to open pages as server-sent events.

Events are `run` (a row that changed) and `gone` (the key of a run whose folder is gone). A line every few seconds lets a page
notice that the board has gone away.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable

from tacit.web.rows import RunRow

BEAT_S = 5.0
# A page that does not read so many events is cut off; it connects again and loads everything.
MOST_WAITING = 4_000


class Events:
    """Everybody who listens. `publish` may be called from any thread."""

    def __init__(self) -> None:
        self._listening: set[asyncio.Queue[str | None]] = set()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._closed = False

    def row(self, row: RunRow) -> None:
        self._publish("run", row.model_dump_json())

    def gone(self, key: str) -> None:
        self._publish("gone", json.dumps({"key": key}))

    def _publish(self, kind: str, data: str) -> None:
        loop = self._loop
        if loop is not None and self._listening and not loop.is_closed():
            loop.call_soon_threadsafe(self._spread, f"event: {kind}\ndata: {data}\n\n")

    def _spread(self, text: str) -> None:
        for queue in list(self._listening):
            if queue.qsize() >= MOST_WAITING:
                queue.put_nowait(None)
                self._listening.discard(queue)
            else:
                queue.put_nowait(text)

    def close(self) -> None:
        """End every stream: the board stops."""
        self._closed = True
        for queue in self._listening:
            queue.put_nowait(None)

    async def stream(self, watched: Callable[[int], None]) -> AsyncIterator[str]:
        """The events from now on, until the listener goes away."""
        self._loop = asyncio.get_running_loop()
        queue: asyncio.Queue[str | None] = asyncio.Queue()
        self._listening.add(queue)
        watched(1)
        try:
            yield "retry: 1000\nevent: hello\ndata: {}\n\n"
            while not self._closed:
                try:
                    text = await asyncio.wait_for(queue.get(), BEAT_S)
                except TimeoutError:
                    text = "event: beat\ndata: {}\n\n"
                if text is None:
                    return
                yield text
        finally:
            self._listening.discard(queue)
            watched(-1)
