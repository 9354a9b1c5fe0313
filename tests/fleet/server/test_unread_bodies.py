"""A refusal is sent before the body is read, and a client that is still sending can read it."""

from __future__ import annotations

import asyncio
import http.client
import json
import socket
from collections.abc import Iterator
from contextlib import contextmanager

import httpx
import pytest

from tacit.fleet.server import unread_bodies
from tacit.fleet.server.api import create_app
from tests.support.fleet.fake_reports import HERE, REPORT_BYTES, FakeReports
from tests.support.fleet.people import Person, enrolled
from tests.support.fleet.serving import running

REPORT = f"/v1/rounds/{HERE}/report"
CHECK_IN = "/v1/check-in"


@pytest.fixture
def url(sqlite_engine) -> Iterator[httpx.URL]:
    app = create_app(sqlite_engine, admin_token="a token", reports=FakeReports(), selects=True)
    with running(app) as url:
        yield httpx.URL(url)


@contextmanager
def asked(url: httpx.URL, first_line: str, *, length: int, headers: dict[str, str]) -> Iterator[socket.socket]:
    """A connection on which a request was sent, up to its body."""
    fields = {"host": "here", "content-length": str(length)} | headers
    lines = [f"{first_line} HTTP/1.1", *(f"{name}: {value}" for name, value in fields.items()), "", ""]
    with socket.create_connection((url.host, url.port), timeout=120) as connection:
        connection.sendall("\r\n".join(lines).encode())
        yield connection


def whole_answer(connection: socket.socket) -> tuple[int, dict[str, str], bytes]:
    """Status, headers and all the bytes of the answer's body; nothing behind them is read."""
    with connection.makefile("rb", buffering=0) as stream:
        status = int(stream.readline().split()[1])
        fields = iter(lambda: stream.readline().decode().strip(), "")
        headers = {name.lower(): value.strip() for name, _, value in (field.partition(":") for field in fields)}
        return status, headers, b"".join(stream.read(1) for _ in range(int(headers["content-length"])))


@pytest.mark.parametrize(
    ("first_line", "status"),
    [
        (f"PUT {REPORT}", 401),
        ("PUT /v1/rounds/nobody/report", 422),
        ("POST /v1/nothing", 404),
        (f"DELETE {REPORT}", 405),
        ("POST /v1/enrol", 413),
        ("GET /healthz", 200),
    ],
)
def test_a_client_that_is_still_sending_can_read_an_early_answer(url, first_line, status):
    length = 5_000_000
    with asked(url, first_line, length=length, headers={}) as connection:
        said, headers, body = whole_answer(connection)  # before a byte of the body was sent
        assert (said, headers["connection"]) == (status, "close")
        assert body
        for _ in range(50):
            connection.sendall(bytes(length // 50))
        assert connection.recv(1) == b""  # closed in order, where a reset would raise


def test_a_device_that_reads_when_it_has_sent_everything_is_answered(url, sqlite_engine):
    person = enrolled(sqlite_engine)
    body = bytes(20_000_000)  # more than the buffers between the two hold
    device = http.client.HTTPConnection(url.host, url.port, timeout=120)
    for _ in range(3):
        device.request("PUT", REPORT, body, person.headers("PUT", REPORT, body))
        answer = device.getresponse()
        assert (answer.status, json.load(answer)["again"]) == (413, False)


def test_a_refusal_of_what_was_read_leaves_the_connection_open(url, sqlite_engine):
    person, body = enrolled(sqlite_engine), b"no JSON"
    with asked(url, f"POST {CHECK_IN}", length=7, headers=person.headers("POST", CHECK_IN, body)) as connection:
        connection.sendall(body)
        status, headers, _ = whole_answer(connection)
        assert (status, headers.get("connection")) == (422, None)
        connection.sendall(b"GET /healthz HTTP/1.1\r\nhost: here\r\n\r\n")
        assert whole_answer(connection)[0] == 200


def test_a_body_is_discarded_up_to_a_limit(url, monkeypatch):
    monkeypatch.setattr(unread_bodies, "DISCARDED_BYTES", 100_000)
    stranger = Person(number=1).headers("PUT", REPORT, bytes(REPORT_BYTES))
    with asked(url, f"PUT {REPORT}", length=1 << 40, headers=stranger) as connection:
        assert whole_answer(connection)[0] == 401
        with pytest.raises(OSError, match=r"reset|pipe"):
            connection.sendall(bytes(50_000_000))


def test_a_body_is_discarded_for_a_limited_time(url, monkeypatch):
    monkeypatch.setattr(unread_bodies, "BODY_SECONDS", 0.1)
    with asked(url, f"PUT {REPORT}", length=REPORT_BYTES, headers={}) as connection:
        assert whole_answer(connection)[0] == 401
        assert connection.recv(1) == b""


def test_a_disconnection_ends_the_waiting():
    messages = [{"type": "http.request", "body": b"a", "more_body": True}, {"type": "http.disconnect"}]
    said = []

    async def app(scope, receive, send):
        await send({"type": "http.response.start", "status": 401, "headers": []})
        await send({"type": "http.response.body", "body": b"no"})
        assert len(messages) == 2  # answered first, read afterwards

    async def receive():
        return messages.pop(0)

    async def send(message):
        said.append(message)

    scope = {"type": "http", "headers": [(b"content-length", b"9")]}
    asyncio.run(unread_bodies.drain_unread_bodies(app)(scope, receive, send))
    assert messages == []
    assert said[0]["headers"] == [(b"connection", b"close")]
    assert [(message["body"], message["more_body"]) for message in said[1:]] == [(b"no", True), (b"", False)]
