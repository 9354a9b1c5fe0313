"""What every process that adds up promises the coordinator, whether it is this process or one at an address."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from sqlalchemy import Engine

from tacit.errors import FleetError
from tacit.fleet.database.migrations import migrate
from tacit.fleet.database.transactions import open_database
from tacit.fleet.rounds.aggregator import Aggregator, PeerQuestion
from tacit.fleet.rounds.partial_sums import PartialSum, unpack_sum
from tacit.fleet.rounds.peers import Peer, RemotePeer
from tests.support.fleet.internal import SECRET, Client, Through, connected, reported_round, settle
from tests.support.implementations import implementations

IMPLEMENTATIONS: tuple[type, ...] = (Aggregator, RemotePeer)
NO_ROUND = "f" * 32


@pytest.mark.parametrize("kind", IMPLEMENTATIONS)
class TestPeers:
    """One suite for both."""

    @pytest.fixture(autouse=True)
    def made(self, kind: type, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
        self.engine: Engine = open_database(f"sqlite:///{tmp_path}/fleet.db")
        migrate(self.engine)
        aggregator = Aggregator(self.engine, "1" * 32)
        self.round = reported_round(self.engine, aggregator)
        self.peer: Peer = aggregator
        if kind is RemotePeer:
            connected(monkeypatch, Through(Client.of(self.engine, aggregator)))
            self.peer = RemotePeer(SECRET, aggregator.process, "http://there")
        yield
        self.engine.dispose()

    def test_the_sum_of_a_settled_round_stays_the_same(self) -> None:
        """A coordinator that is killed is followed by one that asks again; the ledger says that the sum is released once."""
        settle(self.engine, self.round)
        found = unpack_sum(self.peer.ask(self.round, PeerQuestion.SUM), PartialSum(1.0, ((3,),), False))
        assert len(found.devices) == 1
        assert found.update.any()
        again = unpack_sum(self.peer.ask(self.round, PeerQuestion.SUM), PartialSum(1.0, ((3,),), False))
        assert again.devices == found.devices
        assert again.update.tolist() == found.update.tolist()

    def test_the_sum_of_an_open_round_is_not_given_and_not_lost(self) -> None:
        with pytest.raises(FleetError):
            self.peer.ask(self.round, PeerQuestion.SUM)
        settle(self.engine, self.round)
        assert self.peer.ask(self.round, PeerQuestion.SUM)

    @pytest.mark.parametrize("question", ["sum", "progress", "included", "proceed", "total", "anything"])
    def test_a_round_that_is_not_here_is_a_fleet_error(self, question: str) -> None:
        """Never another error: the coordinator waits or gives the round up."""
        with pytest.raises(FleetError):
            self.peer.ask(NO_ROUND, question)

    @pytest.mark.parametrize("question", ["progress", "included", "proceed", "total"])
    def test_nothing_is_told_about_secure_aggregation_that_has_not_begun(self, question: str) -> None:
        with pytest.raises(FleetError):
            self.peer.ask(self.round, question)


def test_no_peer_is_forgotten() -> None:
    assert {each.__name__ for each in IMPLEMENTATIONS} == implementations(Peer)
