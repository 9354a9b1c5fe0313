"""Requests between processes without a network: an application in this process, and a transport that leads to it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import httpx
import pytest
from fastapi import FastAPI
from sqlalchemy import Engine

from tacit.fleet.database import leases, round_table
from tacit.fleet.rounds import peers
from tacit.fleet.rounds.aggregator import Aggregator
from tacit.fleet.server.api import create_app
from tacit.fleet.server.internal_routes import internal_router
from tests.support.fleet.people import a_round, a_task, enrolled_many
from tests.support.fleet.reports import place, report

SECRET = bytes(range(32))


class Client:
    """Requests to an application in this process."""

    def __init__(self, app: FastAPI) -> None:
        self._app = app

    @classmethod
    def of(cls, engine: Engine, aggregator: Aggregator) -> Client:
        """A client of the process with this aggregator."""
        routers = [internal_router(aggregator, SECRET)]
        return cls(create_app(engine, admin_token="t" * 32, reports=aggregator, selects=False, routers=routers))

    def post(self, path: str, *, content: bytes) -> httpx.Response:
        async def posted() -> httpx.Response:
            transport = httpx.ASGITransport(self._app, raise_app_exceptions=False)
            async with httpx.AsyncClient(transport=transport, base_url="http://here") as client:
                return await client.post(path, content=content)

        return asyncio.run(posted())


class Through(httpx.BaseTransport):
    """Passes requests on to an application in this process, and may spoil the answers."""

    def __init__(self, client: Client) -> None:
        self.client, self.seen = client, list[bytes]()
        self.spoil: Callable[[bytes], bytes] = lambda answer: answer

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        answer = self.client.post(request.url.path, content=request.read())
        self.seen += [request.read(), answer.content]
        return httpx.Response(answer.status_code, content=self.spoil(answer.content))


def connected(monkeypatch: pytest.MonkeyPatch, handler: httpx.BaseTransport) -> None:
    """Let every peer's requests go to this transport."""
    made = httpx.Client
    monkeypatch.setattr(peers.httpx, "Client", lambda **options: made(transport=handler))


def reported_round(engine: Engine, aggregator: Aggregator) -> str:
    """An open round with one report in it."""
    (device, *_) = enrolled_many(engine, 1)
    round_id = a_round(engine, a_task(engine))
    place(engine, round_id, [device], aggregator.process)
    aggregator.report(round_id, device, report(round_id, device))
    return round_id


def settle(engine: Engine, round_id: str) -> None:
    """End the round's reporting, as a coordinator does."""
    lease = leases.acquire(engine, "run:x", "me", now=0.0)
    assert lease is not None
    assert round_table.settle(engine, lease, round_id)
