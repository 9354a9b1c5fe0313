"""/healthz says that the process is alive; /readyz whether to send it requests."""

from __future__ import annotations

from pathlib import Path

import httpx
from fastapi import FastAPI
from sqlalchemy import Engine, create_engine

from tacit.fleet.server.health import add_health
from tests.support.fleet.serving import running


def test_a_process_whose_database_answers_is_ready(sqlite_engine: Engine) -> None:
    app, stopping = FastAPI(), list[bool]()
    add_health(app, sqlite_engine, lambda: bool(stopping))
    with running(app) as address:
        assert [httpx.get(address + path).status_code for path in ("/healthz", "/readyz")] == [200, 200]
        stopping.append(True)
        assert [httpx.get(address + path).status_code for path in ("/healthz", "/readyz")] == [200, 503]


def test_a_process_without_its_database_is_alive_and_not_ready(tmp_path: Path) -> None:
    app = FastAPI()
    add_health(app, create_engine(f"sqlite:///{tmp_path}/no/such/folder"), lambda: False)
    with running(app) as address:
        assert httpx.get(f"{address}/healthz").status_code == 200
        assert httpx.get(f"{address}/readyz").text == "the database does not answer\n"
