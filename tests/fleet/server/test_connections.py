"""Strangers who open connections and say nothing cost little, and take nobody's place."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import httpx
import pytest
import uvicorn
from starlette.responses import PlainTextResponse
from starlette.types import Message, Scope

from tacit.fleet.server.connections import Connections, allow_many_files, limit_answers
from tests.support.fleet.crowd import wait_for


@contextmanager
def serving(limits: Connections) -> Iterator[int]:
    async def app(scope: Scope, receive: object, send: object) -> None:
        if scope["type"] == "http":
            await PlainTextResponse("here")(scope, receive, send)  # type: ignore[arg-type]

    config = uvicorn.Config(app, http=limits.protocol(), log_config=None, lifespan="off", timeout_keep_alive=60)
    server = uvicorn.Server(config)
    with socket.create_server(("127.0.0.1", 0)) as listener:
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]}, daemon=True)
        thread.start()
        wait_for(lambda: server.started)
        yield listener.getsockname()[1]
        server.should_exit = True
        thread.join()


def is_closed(connection: socket.socket) -> bool:
    """Whether the server closes it; the connection is closed here, too."""
    connection.settimeout(600)
    with connection, contextlib.suppress(ConnectionError):
        return connection.recv(1) == b""
    return True


def test_a_connection_without_complete_headers_is_closed() -> None:
    limits = Connections(headers_s=0.3)
    with serving(limits) as port:
        silent = socket.create_connection(("127.0.0.1", port))
        dripping = socket.create_connection(("127.0.0.1", port))
        dripping.sendall(b"GET / HTTP/1.1\r\nHost: here\r\n")
        assert is_closed(silent)
        assert is_closed(dripping)
        wait_for(lambda: not limits.open)
        # And so is one that drips its second request. On a busy machine the first may come too late: then it is sent again.
        wait_for(lambda: is_closed_after_an_answer(port))


def is_closed_after_an_answer(port: int) -> bool:
    """Whether a connection gets the answer to its first request; returns when the server has closed it, in its second."""
    answer = b""
    with socket.create_connection(("127.0.0.1", port)) as connection, contextlib.suppress(ConnectionError):
        connection.settimeout(600)
        connection.sendall(b"GET / HTTP/1.1\r\nHost: here\r\n\r\n")
        while b"\r\n\r\nhere" not in answer and (piece := connection.recv(4096)):
            answer += piece
        connection.sendall(b"GET / HT")
        while connection.recv(4096):
            pass
    return b"\r\n\r\nhere" in answer


def test_so_many_connections_and_so_many_of_one_address() -> None:
    limits = Connections(most=4, most_per_address=2)
    assert [limits.enter(address) for address in ("a", "a", "a", "b", "b", "c")] == [
        True,
        True,
        False,
        True,
        True,
        False,
    ]
    limits.leave("a")
    assert limits.enter("c")
    limits.leave("a")
    assert set(limits.open) == {"b", "c"}


def test_what_is_beyond_the_limit_is_closed_at_once_and_others_are_served() -> None:
    limits = Connections(most=8, most_per_address=3, headers_s=60.0)
    with serving(limits) as port:
        idle = [socket.create_connection(("127.0.0.1", port)) for _ in range(3)]
        wait_for(lambda: limits.open.total() == 3)
        assert is_closed(socket.create_connection(("127.0.0.1", port)))
        for each in idle:
            each.close()
        wait_for(lambda: not limits.open)
        assert httpx.get(f"http://127.0.0.1:{port}/").text == "here"


def test_a_client_that_does_not_read_loses_its_answer() -> None:
    async def app(scope: object, receive: object, send: object) -> None:
        await send({"type": "http.response.start"})  # type: ignore[operator]

    async def never(message: Message) -> None:
        await asyncio.sleep(600)
        raise AssertionError("it waited for the client")

    with pytest.raises(TimeoutError):
        asyncio.run(limit_answers(app, seconds=0.05)({"type": "http"}, None, never))  # type: ignore[arg-type]


def test_there_is_room_for_some_connections_whatever_the_system_allows() -> None:
    assert allow_many_files() >= 16
