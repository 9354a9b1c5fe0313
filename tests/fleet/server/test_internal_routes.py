"""Requests between processes: no answer without the secret, and no forged answer is accepted."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import httpx
import numpy as np
import pytest
from fastapi import FastAPI, Response
from sqlalchemy import Engine

from tacit.errors import FleetError
from tacit.fleet.database.migrations import migrate
from tacit.fleet.database.transactions import open_database
from tacit.fleet.rounds.aggregator import Aggregator, PeerQuestion
from tacit.fleet.rounds.partial_sums import PartialSum, unpack_sum
from tacit.fleet.rounds.peers import INTERNAL, RemotePeer
from tacit.fleet.server.internal_routes import internal_router
from tacit.fleet.wire.sealing import seal
from tests.support.fleet.internal import SECRET, Client, Through, connected, reported_round, settle


@pytest.fixture
def sqlite(tmp_path: Path) -> Engine:
    engine = open_database(f"sqlite:///{tmp_path}/fleet.db")
    migrate(engine)
    return engine


@pytest.fixture
def aggregator(sqlite: Engine) -> Aggregator:
    return Aggregator(sqlite, "1" * 32)


@pytest.fixture
def client(sqlite: Engine, aggregator: Aggregator) -> Client:
    return Client.of(sqlite, aggregator)


@pytest.fixture
def settled(sqlite: Engine, aggregator: Aggregator) -> str:
    """A settled round with one report in it."""
    round_id = reported_round(sqlite, aggregator)
    settle(sqlite, round_id)
    return round_id


def test_a_sum_comes_across_and_cannot_be_read_on_the_way(
    client: Client, aggregator: Aggregator, settled: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    through = Through(client)
    connected(monkeypatch, through)
    found = RemotePeer(SECRET, aggregator.process, "http://there").ask(settled, PeerQuestion.SUM)
    part = unpack_sum(found, PartialSum(1.0, ((3,),), False))
    assert len(part.devices) == 1
    for number in part.update[part.update != 0]:
        assert all(np.float64(number).tobytes() not in seen for seen in through.seen)


def test_without_the_secret_nothing_is_answered_and_nothing_lost(
    client: Client, aggregator: Aggregator, settled: str
) -> None:
    where = {"round_id": settled, "process": aggregator.process}
    good = seal(SECRET, bytes(16), purpose="ask sum", **where)
    wrong = [
        b"",
        bytes(64),
        seal(bytes(32), bytes(16), purpose="ask sum", **where),
        seal(SECRET, bytes(16), purpose="ask progress", **where),
        seal(SECRET, bytes(16), purpose="ask sum", round_id="0" * 32, process=aggregator.process),
        seal(SECRET, bytes(16), purpose="ask sum", round_id=settled, process="2" * 32),
    ]
    for body in wrong:
        assert client.post(f"{INTERNAL}/{settled}/sum", content=body).status_code == 401
    assert client.post(f"{INTERNAL}/{settled}/sum", content=bytes(5000)).status_code == 413
    assert client.post(f"{INTERNAL}/{settled}/sum", content=good).status_code == 200


def test_a_body_that_goes_on_beyond_its_stated_length_is_not_read(sqlite: Engine, aggregator: Aggregator) -> None:
    app = FastAPI()
    app.include_router(internal_router(aggregator, SECRET))
    app.add_exception_handler(FleetError, lambda request, error: Response(status_code=error.status))  # type: ignore[attr-defined]
    pieces = list[int]()

    async def endless() -> AsyncIterator[bytes]:
        while len(pieces) < 1000:
            pieces.append(1)
            yield bytes(4096)

    async def posted(**headers: str) -> int:
        async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://here") as client:
            path = f"{INTERNAL}/{'0' * 32}/sum"
            return (await client.post(path, content=endless(), headers=headers)).status_code

    assert asyncio.run(posted(**{"content-length": "9", "transfer-encoding": "chunked"})) == 411
    assert asyncio.run(posted(**{"content-length": "9"})) == 422
    assert len(pieces) < 10


def test_an_answer_that_was_tampered_with_or_is_an_older_one_is_not_believed(
    client: Client, aggregator: Aggregator, settled: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    through = Through(client)
    connected(monkeypatch, through)
    peer = RemotePeer(SECRET, aggregator.process, "http://there")
    through.spoil = lambda answer: answer[:-1] + bytes([answer[-1] ^ 1])
    with pytest.raises(FleetError, match="not sealed"):
        peer.ask(settled, PeerQuestion.SUM)
    older = through.seen[-1]
    through.spoil = lambda answer: older
    with pytest.raises(FleetError):
        peer.ask(settled, PeerQuestion.SUM)


def test_a_process_that_is_gone_or_refuses_is_one_sentence(
    client: Client, aggregator: Aggregator, settled: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    peer = RemotePeer(SECRET, aggregator.process, "http://127.0.0.1:1")
    with pytest.raises(FleetError, match="cannot be reached"):
        peer.ask(settled, PeerQuestion.SUM)
    connected(monkeypatch, Through(client))
    with pytest.raises(FleetError, match="with status 200, got 4"):
        peer.ask(settled, "included")
    for before in (
        RemotePeer(SECRET, "2" * 32, "http://there"),
        RemotePeer(bytes(32), aggregator.process, "http://there"),
    ):
        with pytest.raises(FleetError, match="was restarted, or has another secret"):
            before.ask(settled, PeerQuestion.SUM)
