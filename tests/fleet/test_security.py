"""No request without valid credentials changes anything, and a device speaks for itself alone. Over a real socket."""

from __future__ import annotations

import hashlib
import io
import json
import logging
import os
import socket
import time
from collections.abc import Iterator

import httpx
import pytest
from sqlalchemy import Engine, select

from tacit.fleet.database import schema
from tacit.fleet.database.transactions import read_only
from tacit.fleet.logs import configure_logs, log, log_failure
from tacit.fleet.server.api import create_app
from tacit.fleet.server.enrolment import make_token
from tests.support.fleet.fake_reports import HERE, REPORT_BYTES, FakeReports
from tests.support.fleet.people import Person, a_process, a_round, a_task, enrolled
from tests.support.fleet.serving import running

ADMIN_TOKEN = "an administrator's token"
REPORT = f"/v1/rounds/{HERE}/report"


class World:
    """A server with an open round, and everything that a request could change there."""

    def __init__(self, engine: Engine, client: httpx.Client, reports: FakeReports) -> None:
        self.engine, self.client, self.reports = engine, client, reports
        self.person, self.other = enrolled(engine), enrolled(engine)
        self.token = make_token(engine, uses=3, expires_at=time.time() + 600)
        a_process(engine, seen_at=time.time() + 9)
        a_round(engine, a_task(engine), round_id=HERE, deadline=time.time() + 600)

    def everything(self, *, but_counters: bool = False) -> str:
        left_out = {schema.devices.c.counter, schema.devices.c.seen_at} if but_counters else set()
        columns = [[column for column in table.c if column not in left_out] for table in schema.metadata.sorted_tables]
        with read_only(self.engine) as connection:
            tables = [sorted(map(str, connection.execute(select(*chosen)))) for chosen in columns]
        return repr((tables, self.reports.taken))

    def requests(self) -> Iterator[tuple[str, str, bytes]]:
        """A request to every path of the documented interface that would do something, if it were allowed."""
        document = self.client.get("/openapi.json").json()
        for path, operations in document["paths"].items():
            for method in operations:
                body = {
                    "/v1/check-in": b"{}",
                    "/v1/admin/tokens": b'{"uses": 1, "hours": 1}',
                    "/v1/admin/round": b'{"action": "pause"}',
                    "/v1/admin/budget": b'{"rho": 1.0}',
                }.get(path, b"")
                if method == "put":
                    body = bytes(REPORT_BYTES)
                elif "{stage}" in path and method == "post":
                    body = b"message"
                names = {"round_id": HERE, "stage": "share", "sha256": "0" * 64, "device": self.other.number}
                yield method.upper(), path.format(**names), body

    def send(self, method: str, path: str, body: bytes, headers: dict[str, str]) -> int:
        """The status of the answer."""
        fields = {"host": "here", "content-length": str(len(body))} | headers
        lines = [f"{method} {path} HTTP/1.1", *(f"{name}: {value}" for name, value in fields.items())]
        return int(self.raw("\n".join(lines) + "\n", body).split()[1])

    def raw(self, head: str, body: bytes = b"", *, then_close: bool = False) -> bytes:
        """Send these bytes at once and nothing more; what comes back."""
        url = self.client.base_url
        with socket.create_connection((url.host, url.port), timeout=120) as connection:
            connection.sendall(head.replace("\n", "\r\n").encode("latin-1") + b"\r\n" + body)
            if then_close:
                connection.shutdown(socket.SHUT_WR)
            return connection.recv(4096)


@pytest.fixture
def world(sqlite_engine) -> Iterator[World]:
    reports = FakeReports()
    app = create_app(sqlite_engine, admin_token=ADMIN_TOKEN, reports=reports, selects=True)
    with running(app) as url, httpx.Client(base_url=url, trust_env=False) as client:
        yield World(sqlite_engine, client, reports)


def test_nothing_changes_without_credentials(world):
    stranger = Person(number=world.person.number)
    unknown = Person(number=10**6)
    before = world.everything()
    seen = 0
    for method, path, body in world.requests():
        if path == "/v1/enrol":
            continue
        for headers in (
            {},
            {"authorization": "Bearer wrong"},
            {"authorization": f"Basic {ADMIN_TOKEN}"},
            {"authorization": "Bearer \xfc"},
            {"tacit-device": "x", "tacit-counter": "1", "tacit-digest": "00", "tacit-signature": "zz"},
            {"tacit-device": str(world.person.number), "tacit-counter": "9" * 5000},
            stranger.headers(method, path, body),
            unknown.headers(method, path, body),
            world.person.headers(method, path + "?x", body),
            world.person.headers("PATCH", path, body),
            world.person.headers(method, path, body) | {"tacit-device": str(world.other.number)},
            world.person.headers(method, path, body) | {"tacit-counter": "999"},
        ):
            assert world.send(method, path, body, headers) == 401, (method, path, headers)
            seen += 1
    assert seen > 100
    assert world.everything() == before


def test_another_body_than_the_one_signed_for_changes_nothing_but_the_counter(world):
    for method, path, body in world.requests():
        if not path.startswith(("/v1/admin", "/metrics", "/v1/enrol")):
            before = world.everything(but_counters=True)
            assert world.send(method, path, body, world.person.headers(method, path, body + b"x")) == 401
            assert world.everything(but_counters=True) == before


def test_the_same_requests_do_something_with_credentials(world):
    admin = {"authorization": f"Bearer {ADMIN_TOKEN}"}
    statuses = {}
    for method, path, body in world.requests():
        if path != "/v1/enrol" and not path.endswith("revoke"):
            headers = admin if path.startswith(("/v1/admin", "/metrics")) else world.person.headers(method, path, body)
            statuses[method, path] = world.send(method, path, body, headers)
    assert statuses.pop(("GET", f"/v1/blobs/{'0' * 64}")) == 404
    assert set(statuses.values()) == {200, 204}
    assert {taken[1] for taken in world.reports.taken} == {world.person.number}


def test_a_device_is_no_administrator_and_an_administrator_no_device(world):
    for method, path, body in world.requests():
        administers = path.startswith(("/v1/admin", "/metrics"))
        admin = {"authorization": f"Bearer {ADMIN_TOKEN}"}
        headers = world.person.headers(method, path, body) if administers else admin
        if path != "/v1/enrol":
            assert world.send(method, path, body, headers) == 401


def test_a_request_that_is_sent_again_is_refused_and_changes_nothing(world):
    for method, path, body in list(world.requests()):
        if path.startswith(("/v1/admin", "/metrics", "/v1/enrol")):
            continue
        headers = world.person.headers(method, path, body)
        world.send(method, path, body, headers)
        before = world.everything()
        assert world.send(method, path, body, headers) == 409
        assert world.everything() == before


def test_a_query_is_part_of_what_is_signed(world):
    path = f"/v1/rounds/{HERE}/secagg/mask"
    assert world.send("GET", f"{path}?x=1", b"", world.person.headers("GET", f"{path}?x=1")) == 200
    assert world.send("GET", f"{path}?x=1", b"", world.person.headers("GET", path)) == 401


def test_a_captured_enrolment_is_worth_nothing_to_another(world):
    victim, thief = Person(), Person()
    captured = json.loads(victim.request(world.token).model_dump_json())
    before = world.everything()
    for change in ({"identity": thief.identity.hex()}, {"token": "another token of length"}, {"proof": "0" * 128}):
        assert world.send("POST", "/v1/enrol", json.dumps(captured | change).encode(), {}) == 401
    assert world.everything() == before


def test_a_device_cannot_read_what_is_meant_for_another(world):
    path = f"/v1/rounds/{HERE}/secagg/mask"
    mine = world.client.get(path, headers=world.person.headers("GET", path)).content
    theirs = world.client.get(path, headers=world.other.headers("GET", path)).content
    assert mine == f"mask for {world.person.number}".encode()
    assert theirs == f"mask for {world.other.number}".encode()


def head(length: str, person: Person, body: bytes, path: str = REPORT) -> str:
    lines = [f"PUT {path} HTTP/1.1", "host: here", length]
    return "\n".join(lines + [f"{name}: {value}" for name, value in person.headers("PUT", path, body).items()]) + "\n"


@pytest.mark.parametrize(
    ("length", "status"),
    [
        (f"content-length: {REPORT_BYTES + 1}", 413),
        ("content-length: 99999999999999", 413),
        (f"content-length: {REPORT_BYTES - 1}", 422),
        ("transfer-encoding: chunked", 411),
        ("x-nothing: 0", 411),
    ],
)
def test_a_body_of_the_wrong_length_is_refused_before_a_byte_of_it_comes(world, length, status):
    answer = world.raw(head(length, world.person, bytes(REPORT_BYTES)))  # no byte of a body is sent
    assert answer.startswith(f"HTTP/1.1 {status} ".encode())
    assert (b"connection: close" in answer.lower()) == (
        length != "x-nothing: 0"
    )  # without a body there is no rest of it
    assert world.reports.taken == []


def test_an_unknown_sender_is_refused_before_their_body_arrives(world):
    stranger = Person(number=world.person.number)
    answer = world.raw(head(f"content-length: {REPORT_BYTES}", stranger, bytes(REPORT_BYTES)))
    assert answer.startswith(b"HTTP/1.1 401 ")


def test_a_truncated_body_changes_nothing(world):
    body = os.urandom(REPORT_BYTES)
    world.raw(head(f"content-length: {REPORT_BYTES}", world.person, body), body[:500], then_close=True)
    assert world.reports.taken == []
    assert world.send("PUT", REPORT, body, world.person.headers("PUT", REPORT, body)) == 200
    assert world.reports.taken == [(HERE, world.person.number, None, body)]


def test_what_follows_a_refused_body_is_not_taken_for_a_request(world):
    path = f"/v1/rounds/{HERE}/secagg/share"
    smuggled = world.other.headers("POST", path, b"message")
    fields = "\r\n".join(f"{name}: {value}" for name, value in smuggled.items())
    inner = f"POST {path} HTTP/1.1\r\nhost: here\r\ncontent-length: 7\r\n{fields}\r\n\r\nmessage".encode()
    stranger = Person(number=world.person.number)
    world.raw(head(f"content-length: {len(inner)}", stranger, inner), inner)
    assert world.client.get("/healthz").status_code == 200
    assert world.reports.taken == []


def test_logs_hold_events_and_never_what_was_sent(world):
    stream = io.StringIO()
    configure_logs(stream)
    try:
        person = Person()
        world.send("POST", "/v1/enrol", person.request(world.token).model_dump_json().encode(), {})
        body = json.dumps({"secret words": hashlib.sha256(b"").hexdigest()}).encode()
        world.send("POST", "/v1/check-in", body, world.person.headers("POST", "/v1/check-in", body))
        log("round_opened", round=3)
        try:
            raise ValueError("secret words")
        except ValueError:
            log_failure("something_failed")
            logging.getLogger("sqlalchemy.pool").error("A connection is lost", exc_info=True)
            # As asyncio tells of a task that failed.
            logging.getLogger("asyncio").error("Nobody asked\nfuture: <Task exception=ValueError('secret words')>")
        logging.getLogger("sqlalchemy.engine").info("SELECT secret words")
    finally:
        for name in ("tacit.fleet", "uvicorn.error", "asyncio", "sqlalchemy"):
            logging.getLogger(name).handlers = []
            logging.getLogger(name).propagate = True
    lines = [json.loads(line) for line in stream.getvalue().splitlines()]
    events = {line["event"]: line for line in lines}
    assert {"device_enrolled", "round_opened", "something_failed", "A connection is lost", "Nobody asked"} <= set(
        events
    )
    assert events["round_opened"]["round"] == 3
    assert events["something_failed"]["exception"] == "ValueError"
    assert events["something_failed"]["where"].startswith(__name__)
    for secret in ("secret words", world.token, person.identity.hex(), "127.0.0.1"):
        assert secret not in stream.getvalue()
