"""Files for devices, with a cache in memory: all devices of a round download the same few files."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import AsyncIterator

from sqlalchemy import Engine, select

from tacit.fleet.database.schema import blobs
from tacit.fleet.database.transactions import read_only
from tacit.fleet.wire.refusals import Refusal

MOST_CACHED_BYTES = 256 << 20
# Files are sent in pieces, so that a slow device holds one piece in the server's memory and not a whole checkpoint.
PIECE_BYTES = 1 << 18


class Downloads:
    """Blobs by their SHA-256, which never change, so they can be cached."""

    def __init__(self, engine: Engine, most_bytes: int = MOST_CACHED_BYTES) -> None:
        self._engine, self._most_bytes = engine, most_bytes
        self._lock = threading.Lock()
        self._cached: OrderedDict[str, bytes] = OrderedDict()
        self._size = 0

    def get(self, sha256: str) -> bytes:
        """The bytes with this SHA-256; Refusal (404) if there are none."""
        with self._lock:
            if sha256 in self._cached:
                self._cached.move_to_end(sha256)
                return self._cached[sha256]
        with read_only(self._engine) as connection:
            content = connection.execute(select(blobs.c.content).where(blobs.c.sha256 == sha256)).scalar_one_or_none()
        if content is None:
            raise Refusal("No such file.", status=404)
        with self._lock:
            if sha256 not in self._cached:
                self._cached[sha256] = content
                self._size += len(content)
            while self._size > self._most_bytes:
                self._size -= len(self._cached.popitem(last=False)[1])
        return content


async def in_pieces(content: bytes) -> AsyncIterator[memoryview]:
    """The content piece by piece; each piece is sent before the next is taken."""
    view = memoryview(content)
    for start in range(0, len(view), PIECE_BYTES):
        yield view[start : start + PIECE_BYTES]
