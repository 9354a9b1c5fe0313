"""Roles of those who operate a fleet, and the log of what they did."""

from __future__ import annotations

import json
import socket
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from sqlalchemy import Engine, func, select

from tacit.errors import FleetError
from tacit.fleet.database import schema
from tacit.fleet.server.api import create_app
from tacit.fleet.server.operators import (
    AUDIT_LOG,
    OPERATORS,
    OperatorGate,
    OperatorRole,
    add_operator,
    remove_operator,
    role_needed,
)
from tests.support.fleet.crowd import wait_for
from tests.support.fleet.people import enrolled
from tests.support.fleet.serving import running

ADMIN = "9" * 64
STATUS, METRICS = "/v1/admin/status", "/metrics"
TOKENS, BUDGET, ROUND = "/v1/admin/tokens", "/v1/admin/budget", "/v1/admin/round"


@pytest.fixture
def client(sqlite_engine: Engine, tmp_path: Path) -> Iterator[httpx.Client]:
    app = create_app(sqlite_engine, admin_token=ADMIN, reports=None, selects=True)
    app.add_middleware(OperatorGate, admin_token=ADMIN, folder=tmp_path)
    with running(app) as address, httpx.Client(base_url=address) as client:
        yield client


def ask(client: httpx.Client, method: str, path: str, token: str, **content: object) -> int:
    return client.request(method, path, headers={"authorization": f"Bearer {token}"}, **content).status_code  # type: ignore


def lines_of(folder: Path) -> list[dict[str, Any]]:
    """The log, once the outcome of everything that was asked for is in it: a client may have its answer before."""
    path = folder / AUDIT_LOG
    if not path.exists():
        return []
    found: list[dict[str, Any]] = []

    def whole() -> bool:
        found[:] = map(json.loads, path.read_text().splitlines())
        answers = sum(each["outcome"].isdecimal() for each in found)
        return answers >= sum(each["outcome"] == "asked" for each in found)

    wait_for(whole)
    return found


def logged(folder: Path) -> list[tuple[str, str, str]]:
    return [(each["operator"], each["action"], each["outcome"]) for each in lines_of(folder)]


def test_each_role_may_do_its_own_and_no_more(client: httpx.Client, sqlite_engine: Engine, tmp_path: Path) -> None:
    tokens = {role: add_operator(tmp_path, role.value, role) for role in OperatorRole}
    revoke = f"/v1/admin/devices/{enrolled(sqlite_engine).number}/revoke"
    body = {"uses": 1, "hours": 1}
    found = {
        role.value: (
            ask(client, "GET", STATUS, token),
            ask(client, "GET", METRICS, token),
            ask(client, "POST", revoke, token),
            ask(client, "POST", TOKENS, token, json=body),
        )
        for role, token in tokens.items()
    }
    assert found == {
        "viewer": (200, 200, 403, 403),
        "operator": (200, 200, 204, 403),
        "owner": (200, 200, 204, 200),
    }
    assert ask(client, "POST", TOKENS, ADMIN, json=body) == 200
    assert logged(tmp_path) == [
        ("viewer", f"POST {revoke}", "refused"),
        ("viewer", f"POST {TOKENS}", "refused"),
        ("operator", f"POST {revoke}", "asked"),
        ("operator", f"POST {revoke}", "204"),
        ("operator", f"POST {TOKENS}", "refused"),
        ("owner", f"POST {revoke}", "asked"),
        ("owner", f"POST {revoke}", "204"),
        ("owner", f"POST {TOKENS}", "asked"),
        ("owner", f"POST {TOKENS}", "200"),
        ("administrator", f"POST {TOKENS}", "asked"),
        ("administrator", f"POST {TOKENS}", "200"),
    ]


def test_the_log_says_what_was_asked_for(client: httpx.Client, tmp_path: Path) -> None:
    """Who raised the budget, and to what; who made tokens, and for how many devices."""
    orders = [(TOKENS, {"uses": 70, "hours": 2}), (BUDGET, {"epsilon": 8.0, "delta": 1e-6})]
    orders += [(ROUND, {"action": "adjust", "goal": 3})]
    for path, order in orders:
        ask(client, "POST", path, ADMIN, json=order)
        lines_of(tmp_path)
    assert [(each["outcome"], each.get("order")) for each in lines_of(tmp_path)] == [
        ("asked", {"uses": 70, "hours": 2}),
        ("200", None),
        ("asked", {"epsilon": 8.0, "delta": 1e-6}),
        ("200", None),
        ("asked", {"action": "adjust", "goal": 3}),
        ("404", None),
    ]


@pytest.mark.parametrize("limit", [{"epsilon": 1e308, "delta": 0.5}, {"rho": 1e308}, {"epsilon": 1e17, "delta": 0.5}])
def test_a_budget_of_any_size_can_be_shown(client: httpx.Client, limit: dict[str, float]) -> None:
    assert ask(client, "POST", BUDGET, ADMIN, json=limit) == 200
    assert ask(client, "GET", BUDGET, ADMIN) == 200


@pytest.mark.parametrize(
    ("content", "status"), [(b"x" * 5000, 413), (b"[1]", 422), (b'{"uses": 1', 422), (b"\xff", 422), (b"", 422)]
)
def test_an_order_that_is_none_is_refused_and_not_copied_into_the_log(
    client: httpx.Client, tmp_path: Path, content: bytes, status: int
) -> None:
    assert ask(client, "POST", TOKENS, ADMIN, content=content) == status
    assert not any("order" in each for each in lines_of(tmp_path))
    assert logged(tmp_path)[-1] == ("administrator", f"POST {TOKENS}", str(status))


def test_an_order_without_a_body_needs_no_length(client: httpx.Client, sqlite_engine: Engine, tmp_path: Path) -> None:
    url, path = client.base_url, f"/v1/admin/devices/{enrolled(sqlite_engine).number}/quarantine"
    with socket.create_connection((url.host, url.port), timeout=600) as connection:
        lines = (f"POST {path} HTTP/1.1", f"Host: {url.host}", f"Authorization: Bearer {ADMIN}", "Connection: close")
        connection.sendall("\r\n".join([*lines, "", ""]).encode())
        assert connection.makefile("rb").readline().split()[1] == b"204"


def test_strangers_get_what_they_got_before(client: httpx.Client, tmp_path: Path) -> None:
    add_operator(tmp_path, "ann", OperatorRole.OWNER)
    for token in ("0" * 64, "Bearer"):
        assert ask(client, "GET", STATUS, token) == 401
    assert client.get(STATUS).status_code == 401
    assert (
        client.get(STATUS, headers=[("authorization", "Bearer x"), ("authorization", f"Bearer {ADMIN}")]).status_code
        == 401
    )
    assert client.get("/healthz").status_code == 200
    assert logged(tmp_path) == []


def test_a_token_is_replaced_and_withdrawn_while_the_server_runs(client: httpx.Client, tmp_path: Path) -> None:
    first = add_operator(tmp_path, "ann", OperatorRole.VIEWER)
    assert ask(client, "GET", STATUS, first) == 200
    second = add_operator(tmp_path, "ann", OperatorRole.VIEWER)
    assert (ask(client, "GET", STATUS, first), ask(client, "GET", STATUS, second)) == (401, 200)
    remove_operator(tmp_path, "ann")
    assert ask(client, "GET", STATUS, second) == 401
    with pytest.raises(FleetError, match="No operator is named 'ann'"):
        remove_operator(tmp_path, "ann")


def test_the_files_hold_no_token_and_are_the_owners_alone(client: httpx.Client, tmp_path: Path) -> None:
    token = add_operator(tmp_path, "ann", OperatorRole.OWNER)
    ask(client, "POST", TOKENS, token, json={"uses": 1, "hours": 1})
    for name in (OPERATORS, AUDIT_LOG):
        assert token not in (tmp_path / name).read_text()
        assert stat.S_IMODE((tmp_path / name).stat().st_mode) == 0o600


def test_a_damaged_file_lets_nobody_in_but_the_administrator(client: httpx.Client, tmp_path: Path) -> None:
    token = add_operator(tmp_path, "ann", OperatorRole.OWNER)
    (tmp_path / OPERATORS).write_text("{")
    assert (ask(client, "GET", STATUS, token), ask(client, "GET", STATUS, ADMIN)) == (401, 200)
    with pytest.raises(FleetError, match="is not a list of operators"):
        add_operator(tmp_path, "bob", OperatorRole.VIEWER)


def test_nothing_happens_that_cannot_be_written_down(
    client: httpx.Client, sqlite_engine: Engine, tmp_path: Path
) -> None:
    (tmp_path / AUDIT_LOG).mkdir()
    assert ask(client, "POST", TOKENS, ADMIN, json={"uses": 1, "hours": 1}) == 500
    with sqlite_engine.connect() as connection:
        assert connection.execute(select(func.count()).select_from(schema.tokens)).scalar_one() == 0


@pytest.mark.parametrize("name", ["", "a" * 65, "two\nlines", 'quo"te'])
def test_names_fit_into_a_line(tmp_path: Path, name: str) -> None:
    with pytest.raises(FleetError, match="Expected a name"):
        add_operator(tmp_path, name, OperatorRole.VIEWER)


def test_routes_that_do_not_exist_yet_are_not_for_viewers() -> None:
    assert role_needed("POST", "/v1/admin/anything") is OperatorRole.OPERATOR
    assert role_needed("GET", "/v1/admin/devices") is OperatorRole.OPERATOR
    assert role_needed("POST", "/v1/admin/tokens/") is OperatorRole.OWNER
    assert role_needed("DELETE", "/v1/admin/status") is OperatorRole.OPERATOR
