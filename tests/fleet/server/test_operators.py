"""Roles of those who operate a fleet, and the log of what they did."""

from __future__ import annotations

import json
import stat
from collections.abc import Iterator
from pathlib import Path

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
from tests.support.fleet.people import enrolled
from tests.support.fleet.serving import running

ADMIN = "9" * 64
STATUS, TOKENS, METRICS = "/v1/admin/status", "/v1/admin/tokens", "/metrics"


@pytest.fixture
def client(sqlite_engine: Engine, tmp_path: Path) -> Iterator[httpx.Client]:
    app = create_app(sqlite_engine, admin_token=ADMIN, reports=None, selects=True)
    app.add_middleware(OperatorGate, admin_token=ADMIN, folder=tmp_path)
    with running(app) as address, httpx.Client(base_url=address) as client:
        yield client


def ask(client: httpx.Client, method: str, path: str, token: str, **content: object) -> int:
    return client.request(method, path, headers={"authorization": f"Bearer {token}"}, **content).status_code  # type: ignore


def logged(folder: Path) -> list[tuple[str, str, str]]:
    lines = (folder / AUDIT_LOG).read_text().splitlines() if (folder / AUDIT_LOG).exists() else []
    return [(each["operator"], each["action"], each["outcome"]) for each in map(json.loads, lines)]


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
