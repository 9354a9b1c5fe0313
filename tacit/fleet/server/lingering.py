"""Whoever is answered before they have finished sending can still read the answer.

Most requests are settled by their headers, and refused before a byte of the body is read. If the connection were then closed,
what is still on its way would be met by a reset, and a reset may take away from the sender an answer that has arrived and was
not read yet; most clients read only when they have sent everything. So the answer goes out at once, what follows is read and
thrown away within reason, and only then the connection is closed.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress

from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from tacit.fleet.server.limits import BODY_SECONDS

DISCARDED_BYTES = 64 << 20


def lingering(app: ASGIApp) -> ASGIApp:
    """The same application; where it answers before a body's end, the connection is closed once the sender is done.

    Closed, because after `BODY_SECONDS` or `DISCARDED_BYTES` nobody is listened to any longer.
    """

    async def lingered(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await app(scope, receive, send)
            return
        more, lingers = _has_body(Headers(scope=scope)), False
        until = asyncio.get_running_loop().time() + BODY_SECONDS

        async def received() -> Message:
            nonlocal more
            message = await receive()
            more = message["type"] == "http.request" and message.get("more_body", False)
            return message

        async def sent(message: Message) -> None:
            nonlocal lingers
            if message["type"] == "http.response.start" and more:
                lingers = True
                MutableHeaders(scope=message)["connection"] = "close"
            elif lingers and not message.get("more_body", False):
                message = {**message, "more_body": True}  # all of an answer of stated length; its end is said below
            await send(message)

        await app(scope, received, sent)
        if lingers:
            await _discard(received, until)
            await send({"type": "http.response.body", "body": b"", "more_body": False})

    return lingered


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
