"""Lets a client read an answer that is sent before its upload has ended (a lingering close).

Many requests are refused by their headers, before the body is read. If the server then closed the connection, the rest of the
body would cause a TCP reset, and a reset can delete an answer that the client has received but not yet read: most clients read
only after they have sent everything. So the answer is sent at once, the rest of the body is read and discarded up to a limit,
and only then the connection is closed.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress

from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from tacit.fleet.server.request_limits import BODY_SECONDS

DISCARDED_BYTES = 64 << 20


def drain_unread_bodies(app: ASGIApp) -> ASGIApp:
    """ASGI middleware: if the application answers before the body ends, discard the rest, then close the connection.

    It discards for at most `BODY_SECONDS` and `DISCARDED_BYTES`.
    """

    async def drained(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await app(scope, receive, send)
            return
        more, unread = _has_body(Headers(scope=scope)), False
        until = asyncio.get_running_loop().time() + BODY_SECONDS

        async def received() -> Message:
            nonlocal more
            message = await receive()
            more = message["type"] == "http.request" and message.get("more_body", False)
            return message

        async def sent(message: Message) -> None:
            nonlocal unread
            if message["type"] == "http.response.start" and more:
                unread = True
                MutableHeaders(scope=message)["connection"] = "close"
            elif unread and not message.get("more_body", False):
                message = {**message, "more_body": True}  # the answer's end is sent below
            await send(message)

        await app(scope, received, sent)
        if unread:
            await _discard(received, until)
            await send({"type": "http.response.body", "body": b"", "more_body": False})

    return drained


def _has_body(headers: Headers) -> bool:
    return "transfer-encoding" in headers or headers.get("content-length", "0") != "0"


async def _discard(receive: Receive, until: float) -> None:
    got = 0
    with suppress(TimeoutError):
        async with asyncio.timeout_at(until):
            while got <= DISCARDED_BYTES:
                message = await receive()
                got += len(message.get("body", b""))
                if not message.get("more_body", False):
                    return
