"""The process of a board: it takes a port, says which address to open, and serves until Ctrl-C."""

from __future__ import annotations

import socket
from collections.abc import Callable
from dataclasses import replace

import uvicorn
from fastapi import FastAPI

from tacit.errors import RunError
from tacit.web.security import TOKEN
from tacit.web.settings import BoardSettings, new_token

# How long open requests may take after Ctrl-C.
SHUTDOWN_S = 1


def serve(
    settings: BoardSettings,
    create: Callable[[BoardSettings], FastAPI],
    *,
    ready: Callable[[str, str], None],
    path: str = "/",
) -> None:
    """Serve the application that `create` makes, until Ctrl-C. `ready` is called with two addresses.

    The first, token included, is for people; the second, for a browser that this process opens, works once.
    RunError if the port is taken. Port 0 takes a free one.
    """
    with listening(settings.host, settings.port) as listener:
        found = replace(settings, port=listener.getsockname()[1])
        if found.needs_token and found.token is None:
            found = replace(found, token=new_token(), code=new_token())
        config = uvicorn.Config(
            create(found),
            log_level="warning",
            access_log=False,
            timeout_graceful_shutdown=SHUTDOWN_S,
            server_header=False,
        )
        ready(address_of(found, path), address_of(replace(found, token=found.code or found.token), path))
        BoardServer(config).run(sockets=[listener])


class BoardServer(uvicorn.Server):
    """A server that ends what streams for ever before it waits for open requests. The application names it in `stopping`."""

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        for stop in getattr(self.config.app.state, "stopping", ()):  # type: ignore[union-attr]
            stop()
        await super().shutdown(sockets)


def listening(host: str, port: int) -> socket.socket:
    """A socket that listens; RunError, in one sentence, if it cannot."""
    try:
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        return socket.create_server((host, port), family=family, backlog=128)
    except (OSError, OverflowError) as error:
        reason, _, _ = str(getattr(error, "strerror", None) or error).partition(" (while")
        raise RunError(
            f"Cannot listen on {host}:{port}: {reason}.",
            hint="Choose another port with --port; --port 0 takes a free one.",
        ) from None


def address_of(settings: BoardSettings, path: str = "/") -> str:
    """The address to open, with the token if one is needed."""
    host = f"[{settings.shown_host}]" if ":" in settings.shown_host else settings.shown_host
    return f"http://{host}:{settings.port}{path}" + (f"?{TOKEN}={settings.token}" if settings.needs_token else "")
