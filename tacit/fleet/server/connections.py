"""Connections to the server: how many there may be, and how long each may be idle in each of its stages.

    TCP ─► TLS handshake ─► headers ─► body (request_limits.py) ─► answer ─► headers of the next request ─► …
           HANDSHAKE_S      HEADERS_S                               ANSWER_S   KEEP_ALIVE_S

A stranger who opens a connection and says nothing, or says it very slowly, costs one socket for a few seconds. At most
`MOST_CONNECTIONS` are open, and half of them from one network address, so that no address takes all; what is beyond is closed
at once. (A proxy in front of the server is one address: let it limit its own clients.)
"""

from __future__ import annotations

import asyncio
import resource
from collections import Counter
from collections.abc import Callable
from functools import partial
from typing import Any

from starlette.types import ASGIApp, Message, Receive, Scope, Send
from uvicorn.protocols.http.h11_impl import H11Protocol

from tacit.fleet.logs import log

HANDSHAKE_S, HEADERS_S, KEEP_ALIVE_S = 10.0, 10.0, 5
# How long a client may leave what it is sent unread.
ANSWER_S = 60.0
MOST_CONNECTIONS = 4096
# Files and sockets beside connections: the database's, logs, the run's.
_OTHER_FILES = 256


class Connections:
    """Counts open connections by address, and makes the protocol that keeps the limits."""

    def __init__(
        self, most: int = MOST_CONNECTIONS, most_per_address: int | None = None, headers_s: float = HEADERS_S
    ) -> None:
        self.most, self.most_per_address, self.headers_s = most, most_per_address or max(1, most // 2), headers_s
        self.open: Counter[str] = Counter()

    def enter(self, address: str) -> bool:
        """Whether one more connection from this address may stay; it is counted then."""
        if self.open.total() >= self.most or self.open[address] >= self.most_per_address:
            return False
        self.open[address] += 1
        return True

    def leave(self, address: str) -> None:
        """A connection that was counted is closed."""
        self.open[address] -= 1
        if self.open[address] <= 0:
            del self.open[address]

    def protocol(self) -> type[H11Protocol]:
        """The protocol class for uvicorn."""
        return type("LimitedProtocol", (_LimitedProtocol,), {"limits": self})


class _LimitedProtocol(H11Protocol):
    """uvicorn's HTTP/1.1, with a limit on connections and on the time until a request's headers are complete."""

    limits: Connections
    _counted: str | None = None
    _headers: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        address = self.client[0] if self.client else ""
        if not self.limits.enter(address):
            log("connection_refused")
            transport.abort()
            return
        self._counted = address
        self._await_headers()

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        if self.cycle is not None and not self.cycle.response_complete:
            self._stop_waiting()
        elif self._headers is None:  # the first bytes of another request on this connection
            self._await_headers()

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop_waiting()
        if self._counted is not None:
            self.limits.leave(self._counted)
            self._counted = None
        super().connection_lost(exc)

    def _await_headers(self) -> None:
        self._headers = self.loop.call_later(self.limits.headers_s, self._too_slow)

    def _stop_waiting(self) -> None:
        if self._headers is not None:
            self._headers.cancel()
            self._headers = None

    def _too_slow(self) -> None:
        self._headers = None
        # A request that is being answered is not waited for here.
        if self.cycle is None or self.cycle.response_complete:
            self.transport.abort()


def limit_answers(app: ASGIApp, seconds: float = ANSWER_S) -> ASGIApp:
    """ASGI middleware: a client that does not read what it is sent loses its connection."""

    async def limited(scope: Scope, receive: Receive, send: Send) -> None:
        async def sent(message: Message) -> None:
            async with asyncio.timeout(seconds):
                await send(message)

        await app(scope, receive, sent if scope["type"] == "http" else send)

    return limited


def with_handshake_limit(loop: asyncio.AbstractEventLoop) -> None:
    """Let servers that this loop creates end TLS handshakes that take too long; uvicorn has no setting for it."""
    create: Callable[..., Any] = loop.create_server

    async def limited(*arguments: Any, ssl: Any = None, **settings: Any) -> Any:
        if ssl is not None:
            settings = {"ssl_handshake_timeout": HANDSHAKE_S, "ssl_shutdown_timeout": HANDSHAKE_S, **settings}
        return await create(*arguments, ssl=ssl, **settings)

    loop.create_server = partial(limited)  # type: ignore[method-assign]


def allow_many_files() -> int:
    """Raise this process's limit on open files as far as needed and allowed; the number of connections that it has room for."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = MOST_CONNECTIONS + _OTHER_FILES
    if soft != resource.RLIM_INFINITY and soft < wanted:
        soft = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    available = wanted if soft == resource.RLIM_INFINITY else soft
    return max(16, min(MOST_CONNECTIONS, available - _OTHER_FILES))
