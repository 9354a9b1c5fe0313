"""The HTTP interface over a real socket: what each request gets, and that every refusal is one sentence in one form."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import httpx
import pytest
from fastapi import APIRouter
from sqlalchemy import Engine, insert

from tacit.fleet.database import schema
from tacit.fleet.database.migrations import migrate
from tacit.fleet.database.transactions import open_database
from tacit.fleet.server import api
from tacit.fleet.server.api import create_app
from tacit.fleet.server.downloads import Downloads
from tacit.fleet.server.request_limits import RateLimiter
from tacit.fleet.wire.messages import ANSWER_BYTES, MOST_JSON_BYTES, CheckInAnswer, Refused
from tests.support.fleet.fake_reports import ELSEWHERE, HERE, MESSAGE_BYTES, OVER, REPORT_BYTES, SESSION, FakeReports
from tests.support.fleet.people import Person, a_process, a_round, a_task, enrolled
from tests.support.fleet.serving import running

ADMIN_TOKEN = "an administrator's token"
ADMIN = {"authorization": f"Bearer {ADMIN_TOKEN}"}


@dataclass
class Server:
    """A running server, its database and what it was given."""

    engine: Engine
    client: httpx.Client
    reports: FakeReports

    def ask(self, person: Person, method: str, path: str, body: bytes = b"") -> httpx.Response:
        return self.client.request(method, path, content=body, headers=person.headers(method, path, body))


@contextmanager
def serving(engine: Engine) -> Iterator[Server]:
    reports = FakeReports()
    app = create_app(engine, admin_token=ADMIN_TOKEN, reports=reports, selects=True)
    with running(app) as url, httpx.Client(base_url=url, trust_env=False) as client:
        yield Server(engine, client, reports)


@pytest.fixture
def server(sqlite_engine) -> Iterator[Server]:
    with serving(sqlite_engine) as server:
        yield server


@pytest.fixture
def server_on_each(engine) -> Iterator[Server]:
    with serving(engine) as server:
        yield server


def refused(response: httpx.Response, status: int) -> Refused:
    assert response.status_code == status, response.text
    return Refused.model_validate_json(response.content)


def a_blob(engine: Engine, content: bytes) -> str:
    digest = hashlib.sha256(content).hexdigest()
    with engine.begin() as connection:
        connection.execute(insert(schema.blobs).values(sha256=digest, content=content))
    return digest


def test_from_a_token_to_a_report(server_on_each):
    server = server_on_each
    made = server.client.post("/v1/admin/tokens", json={"uses": 1, "hours": 1}, headers=ADMIN).json()
    person = Person()
    answer = server.client.post("/v1/enrol", content=person.request(made["token"]).model_dump_json())
    person.number = answer.json()["device"]
    task = a_task(server.engine)
    a_process(server.engine, seen_at=time.time() + 9)
    a_round(server.engine, task, round_id=HERE, deadline=time.time() + 600)
    answer = CheckInAnswer.model_validate_json(server.ask(person, "POST", "/v1/check-in", b"{}").content)
    assert answer.assignment.round_id == HERE
    body = os.urandom(REPORT_BYTES)
    assert server.ask(person, "PUT", f"/v1/rounds/{HERE}/report", body).json()["repeated"] is False
    assert server.ask(person, "PUT", f"/v1/rounds/{HERE}/report", body).json()["repeated"] is True
    assert server.reports.taken == [(HERE, person.number, None, body)]


def test_answers_to_chosen_and_others_have_one_size(server):
    people = [enrolled(server.engine) for _ in range(2)]
    a_process(server.engine, seen_at=time.time() + 9)
    a_round(server.engine, a_task(server.engine), places=1, deadline=time.time() + 600)
    answers = [server.ask(person, "POST", "/v1/check-in", b"{}") for person in people]
    chosen = [CheckInAnswer.model_validate_json(answer.content).assignment is not None for answer in answers]
    assert chosen == [True, False]
    assert {len(answer.content) for answer in answers} == {ANSWER_BYTES}
    assert answers[0].headers.keys() == answers[1].headers.keys()


def test_a_download_is_whole(server):
    person, content = enrolled(server.engine), os.urandom(1_000_000)
    digest = a_blob(server.engine, content)
    for _ in range(2):
        answer = server.ask(person, "GET", f"/v1/blobs/{digest}")
        assert answer.content == content
        assert answer.headers["content-length"] == "1000000"
    refused(server.ask(person, "GET", f"/v1/blobs/{'0' * 64}"), 404)


def test_downloads_keep_no_more_in_memory_than_they_may(sqlite_engine):
    engine = sqlite_engine
    digests = [a_blob(engine, bytes([number]) * 100) for number in range(5)]
    downloads = Downloads(engine, most_bytes=250)
    for number in (0, 1, 0, 2, 3, 4, 0, 0):
        assert downloads.get(digests[number]) == bytes([number]) * 100
        assert sum(map(len, downloads._cached.values())) == downloads._size <= 250
    assert list(downloads._cached) == [digests[4], digests[0]]


def test_the_stages_of_secure_aggregation(server):
    person = enrolled(server.engine)
    base = f"/v1/rounds/{HERE}/secagg"
    assert server.ask(person, "GET", f"{base}/session").json() == SESSION.model_dump()
    assert server.ask(person, "POST", f"{base}/share", b"message").json()["repeated"] is False
    assert server.reports.taken == [(HERE, person.number, "share", b"message")]
    assert server.ask(person, "GET", f"{base}/mask").content == f"mask for {person.number}".encode()
    server.reports.ready = False
    for stage in ("session", "mask"):
        answer = server.ask(person, "GET", f"{base}/{stage}")
        assert (answer.status_code, answer.content) == (204, b"")
    refused(server.ask(person, "POST", f"{base}/else", b"message"), 422)
    refused(server.ask(person, "POST", f"{base}/share", bytes(MESSAGE_BYTES + 1)), 413)


def test_refusals_of_a_round_reach_a_device_that_has_much_to_say(server):
    person = enrolled(server.engine)
    body = os.urandom(5_000_000)  # more than a socket takes before somebody reads
    for round_id, status in ((OVER, 410), (ELSEWHERE, 403), (OVER, 410)):
        refused(server.ask(person, "PUT", f"/v1/rounds/{round_id}/report", body), status)
    assert server.reports.taken == []


def test_a_report_of_another_size_is_refused(server):
    person = enrolled(server.engine)
    path = f"/v1/rounds/{HERE}/report"
    refused(server.ask(person, "PUT", path, bytes(REPORT_BYTES + 1)), 413)
    refused(server.ask(person, "PUT", path, bytes(REPORT_BYTES - 1)), 422)
    refused(server.ask(person, "PUT", path), 422)
    assert server.reports.taken == []


@pytest.mark.parametrize(
    "body",
    [b"", b"{", b"[]", b'{"busy_with": 5}', b'{"busy_with": ["secret words"]}', b'{"text": "secret words"}', b"\xff"],
)
def test_what_is_no_message_is_refused_without_quoting_it(server, body):
    answer = refused(server.ask(enrolled(server.engine), "POST", "/v1/check-in", body), 422)
    assert "secret words" not in answer.detail
    assert answer.detail.count(".") <= 2


def test_more_json_than_any_message_has_is_refused(server):
    body = json.dumps({"busy_with": []}).encode() + b" " * MOST_JSON_BYTES
    refused(server.ask(enrolled(server.engine), "POST", "/v1/check-in", body), 413)
    refused(server.client.post("/v1/enrol", content=body), 413)


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("GET", "/", 404),
        ("GET", "/v1/check-in", 405),
        ("DELETE", f"/v1/rounds/{HERE}/report", 405),
        ("PUT", "/v1/rounds/short/report", 422),
        ("GET", "/v1/blobs/NOTHEX", 422),
        ("GET", "/docs", 404),
    ],
)
def test_what_is_not_there_is_refused_in_the_same_form(server, method, path, status):
    refused(server.client.request(method, path), status)


@pytest.fixture
def patient(monkeypatch, sqlite_engine) -> Iterator[Server]:
    """A server that takes three requests of anybody, and then hardly another."""
    monkeypatch.setattr(api, "RateLimiter", lambda **_: RateLimiter(per_s=0.001, burst=3))
    with serving(sqlite_engine) as server:
        yield server


def test_a_device_that_asks_too_often_is_told_to_wait(patient):
    person, other = enrolled(patient.engine), enrolled(patient.engine)
    path = f"/v1/rounds/{HERE}/secagg/session"
    answers = [patient.ask(person, "GET", path) for _ in range(4)]
    assert [answer.status_code for answer in answers] == [200, 200, 200, 429]
    assert refused(answers[-1], 429).again
    assert int(answers[-1].headers["retry-after"]) >= 1
    assert patient.ask(other, "GET", path).status_code == 200


def test_a_device_cannot_use_up_the_rate_limit_of_another(patient):
    person, thief = enrolled(patient.engine), Person()
    thief.number = person.number
    path = f"/v1/rounds/{HERE}/secagg/session"
    for _ in range(5):
        refused(patient.ask(thief, "GET", path), 401)
    assert patient.ask(person, "GET", path).status_code == 200


def test_newcomers_are_limited_by_address(patient):
    request = Person().request("no such token at all").model_dump_json()
    statuses = [patient.client.post("/v1/enrol", content=request).status_code for _ in range(4)]
    assert statuses == [401, 401, 401, 429]


def test_the_administrator_sees_how_things_stand(server_on_each):
    server = server_on_each
    person = enrolled(server.engine)
    task = a_task(server.engine)
    a_process(server.engine, role="selector", seen_at=time.time() + 9)
    a_process(server.engine, role="selector", seen_at=0.0)
    a_round(server.engine, task, state="committed")
    a_round(server.engine, task, 1, state="abandoned", reason="too few reports")
    a_round(server.engine, task, 1, selected=2, deadline=time.time() + 600)
    found = server.client.get("/v1/admin/status", headers=ADMIN).json()
    assert (found["devices"], found["processes"]) == (1, {"selector": 1})
    (told,) = found["tasks"]
    assert told["rounds"] == {"committed": 1, "abandoned": 1, "open": 1}
    assert (told["under_way"]["round"], told["under_way"]["selected"], told["could_come"]) == (1, 2, 1)
    assert told["last_abandoned"] == "too few reports"
    revoked = server.client.post(f"/v1/admin/devices/{person.number}/revoke", headers=ADMIN)
    assert (revoked.status_code, revoked.content) == (204, b"")
    refused(server.ask(person, "POST", "/v1/check-in", b"{}"), 401)
    assert server.client.get("/v1/admin/status", headers=ADMIN).json()["devices"] == 0


@pytest.mark.parametrize("body", [b"", b"{}", b'{"uses": 0, "hours": 1}', b'{"uses": 1, "hours": "NaN"}'])
def test_a_token_needs_uses_and_hours(server, body):
    refused(server.client.post("/v1/admin/tokens", content=body, headers=ADMIN), 422)


def test_metrics_are_by_route_and_never_by_device(server):
    person = enrolled(server.engine)
    server.ask(person, "POST", "/v1/check-in", b"{}")
    server.ask(person, "PUT", f"/v1/rounds/{HERE}/report", bytes(REPORT_BYTES))
    server.client.request("BREW", "/v1/nothing/of/this/name")
    text = server.client.get("/metrics", headers=ADMIN).text
    assert 'tacit_requests_total{method="POST",route="/v1/check-in",status="200"} 1.0' in text
    assert 'tacit_requests_total{method="other",route="none",status="404"} 1.0' in text
    assert f"tacit_received_bytes_total {float(REPORT_BYTES)}" in text
    assert "tacit_devices 1.0" in text
    assert "tacit_uploads_in_memory 0.0" in text
    assert HERE not in text


def test_each_process_answers_for_its_part(sqlite_engine):
    extra = APIRouter()
    extra.add_api_route("/extra", lambda: {"extra": True})
    selector = create_app(sqlite_engine, admin_token=ADMIN_TOKEN, reports=None, selects=True, routers=[extra])
    aggregator = create_app(sqlite_engine, admin_token=ADMIN_TOKEN, reports=FakeReports(), selects=False)
    paths = [set(app.openapi()["paths"]) for app in (selector, aggregator)]
    assert "/extra" in paths[0] - paths[1]
    assert "/v1/check-in" in paths[0] - paths[1]
    assert "/v1/rounds/{round_id}/report" in paths[1] - paths[0]
    assert "/v1/admin/status" in paths[0] & paths[1]


def test_a_500_response_does_not_reveal_the_exception_and_ends_the_connection(sqlite_engine):
    def fail() -> None:
        raise ValueError("secret words")

    broken = APIRouter()
    broken.add_api_route("/broken", fail)
    app = create_app(sqlite_engine, admin_token=ADMIN_TOKEN, reports=None, selects=False, routers=[broken])
    with running(app) as url, httpx.Client(base_url=url, trust_env=False) as client:
        answer = client.get("/broken")
        assert refused(answer, 500) == Refused(detail="Internal error.", again=True)
        assert answer.headers["connection"] == "close"
        assert client.get("/healthz").status_code == 200


def test_a_database_that_is_gone_is_a_refusal_to_come_back_with(postgres_server, postgres_url):
    engine = open_database(postgres_url)
    migrate(engine)
    person = enrolled(engine)
    app = create_app(engine, admin_token=ADMIN_TOKEN, reports=FakeReports(), selects=True)
    with running(app) as url, httpx.Client(base_url=url, trust_env=False) as client:
        server = Server(engine, client, FakeReports())
        assert server.ask(person, "POST", "/v1/check-in", b"{}").status_code == 200
        postgres_server.stop("immediate")
        try:
            answer = server.ask(person, "POST", "/v1/check-in", b"{}")
            down = client.get("/metrics", headers=ADMIN).text
        finally:
            postgres_server.start()
        assert refused(answer, 503).again
        assert "tacit_database_up 0.0" in down
        assert server.ask(person, "POST", "/v1/check-in", b"{}").status_code == 200
    engine.dispose()


def test_health_is_open_to_all(server):
    assert server.client.get("/healthz").text == "ok\n"


@pytest.mark.process
def test_processes_without_a_model_do_without_jax():
    modules = (
        "tacit.fleet.server.serving, tacit.fleet.rounds.aggregator, tacit.fleet.rounds.peers, tacit.fleet.device.agent"
    )
    code = f"import sys, {modules}; sys.exit('jax' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
